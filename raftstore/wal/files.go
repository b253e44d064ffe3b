package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// fileSize is the size of each file. What is not carried over yet is also held in
// memory: two files' worth at most. A larger batch goes to the log behind at once.
const fileSize = 2 << 20

// Files is how the names of the files match.
const Files = "wal-?"

// unfinished ends the name of a file that is not laid out yet.
const unfinished = ".new"

func path(dir string, n int) string { return filepath.Join(dir, fmt.Sprintf("wal-%d", n)) }

// Open continues the write-ahead log in dir, or begins one, in front of a log. The
// log behind stays the caller's, who closes it after this one.
func Open(dir string, behind Behind) (*Log, error) {
	for n := range 2 {
		if err := create(path(dir, n)); err != nil {
			return nil, err
		}
	}
	if err := syncFolder(dir); err != nil {
		return nil, err
	}
	files, err := openFiles(dir)
	if err != nil {
		return nil, err
	}
	l, err := open(behind, files, fileSize)
	if err != nil {
		return nil, errors.Join(err, closeFiles(files))
	}
	return l, nil
}

// Settle carries over what a write-ahead log in dir holds, if there is one, and
// removes it: the log behind is complete then.
func Settle(dir string, behind Behind) error {
	files, err := openFiles(dir)
	if err != nil {
		return err
	}
	if files == [2]File{none{}, none{}} {
		return nil
	}
	_, older, newer, err := rest(behind, files, fileSize)
	for _, r := range []found{older, newer} {
		if err == nil && r.generation != 0 {
			err = carry(behind, r.entries, r.generation, fileSize)
		}
	}
	if err := errors.Join(err, closeFiles(files)); err != nil {
		return err
	}
	return remove(dir)
}

func remove(dir string) error {
	for n := range 2 {
		for _, path := range []string{path(dir, n), path(dir, n) + unfinished} {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("remove the write-ahead log: %w", err)
			}
		}
	}
	return syncFolder(dir)
}

// diskFile waits for the disk without its times.
type diskFile struct{ *os.File }

// Sync implements File.
func (f diskFile) Sync() error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// openFiles opens the files of dir; in the place of one that is not there stands none.
func openFiles(dir string) (files [2]File, err error) {
	for n := range files {
		f, err := os.OpenFile(path(dir, n), os.O_RDWR, 0)
		if errors.Is(err, fs.ErrNotExist) {
			files[n] = none{}
			continue
		}
		if err != nil {
			return files, errors.Join(fmt.Errorf("open the write-ahead log: %w", err), closeFiles(files))
		}
		files[n] = diskFile{f}
	}
	return files, nil
}

func closeFiles(files [2]File) (err error) {
	for _, f := range files {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}

// none is a file that was never written.
type none struct{}

// ReadAt implements File.
func (none) ReadAt(p []byte, _ int64) (int, error) { clear(p); return len(p), nil }

// WriteAt implements File.
func (none) WriteAt([]byte, int64) (int, error) { return 0, fs.ErrNotExist }

// Sync implements File.
func (none) Sync() error { return nil }

// Close implements File.
func (none) Close() error { return nil }

// create lays a file out, if it is not there: full of zeros that are on the disk, so
// that no later write waits for the file system's own records.
func create(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	made := path + unfinished
	f, err := os.OpenFile(made, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("create the write-ahead log: %w", err)
	}
	_, err = f.Write(make([]byte, fileSize))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("create the write-ahead log: %w", err), os.Remove(made))
	}
	if err := os.Rename(made, path); err != nil {
		return fmt.Errorf("create the write-ahead log: %w", err)
	}
	return nil
}

func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}
