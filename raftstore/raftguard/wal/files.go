package wal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// fileSize is the size of each file. What is not carried over yet is also held in
// memory: two files' worth at most. A larger batch goes to the log behind at once. Files
// of v0.2.0 are larger: it refuses these as cut short, and so loses nothing in silence.
const fileSize = legacySize - 4096

// Files is how the names of the files match.
const Files = "wal-?"

// unfinished ends the name of a file that is not laid out yet.
const unfinished = ".new"

// clearChunk is how much of a file is cleared between two waits for the disk, since
// a commit to the other file waits meanwhile.
const clearChunk = 256 << 10

// Open carries over what a write-ahead log in dir holds, if there is one, and begins another
// in front of a log. The log behind stays the caller's, who closes it after this one.
// random is for the secret of the files.
func Open(dir string, behind Behind, random io.Reader) (*Log, error) {
	return open(behind, disk(dir), fileSize, random)
}

// Settle carries over what a write-ahead log in dir holds, if there is one, and
// removes it: the log behind is complete then.
func Settle(dir string, behind Behind) error { return carryFolder(behind, disk(dir), fileSize) }

// folder is where the files are.
type folder interface {
	// open returns the files that are there; nil stands for one that is not.
	open() ([2]File, error)
	// create makes both files with these beginnings; they are on the disk then.
	create(size int64, headings [2][]byte) error
	// remove removes both files, and what an interrupted create has left.
	remove() error
}

// disk is a folder of the host.
type disk string

func (d disk) path(n int) string { return filepath.Join(string(d), fmt.Sprintf("wal-%d", n)) }

func (d disk) open() (files [2]File, err error) {
	for n := range files {
		f, err := os.OpenFile(d.path(n), os.O_RDWR, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return files, errors.Join(fmt.Errorf("open the write-ahead log: %w", err), closeFiles(files))
		}
		files[n] = diskFile{f}
	}
	return files, nil
}

func (d disk) create(size int64, headings [2][]byte) error {
	for n, heading := range headings {
		if err := create(d.path(n), size, heading); err != nil {
			return fmt.Errorf("create the write-ahead log: %w", err)
		}
	}
	return d.sync()
}

func (d disk) remove() error {
	for n := range 2 {
		for _, path := range []string{d.path(n), d.path(n) + unfinished} {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("remove the write-ahead log: %w", err)
			}
		}
	}
	return d.sync()
}

func (d disk) sync() error {
	f, err := os.Open(string(d))
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err != nil {
		return fmt.Errorf("sync %s: %w", d, err)
	}
	return nil
}

// create lays a file out: full of zeros that are on the disk, so that no later write
// waits for the file system's own records.
func create(path string, size int64, heading []byte) error {
	made := path + unfinished
	f, err := os.OpenFile(made, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	text := make([]byte, size)
	copy(text, heading)
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(made))
	}
	return os.Rename(made, path)
}

// File is one of the two files. It has its full size from the beginning.
type File interface {
	ReadAt(p []byte, at int64) (int, error)
	WriteAt(p []byte, at int64) (int, error)
	Sync() error // returns when the disk has all that was written
	Close() error
}

// diskFile waits for the disk without its times.
type diskFile struct{ *os.File }

// Sync implements File.
func (f diskFile) Sync() error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

func closeFiles(files [2]File) (err error) {
	for _, f := range files {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}
