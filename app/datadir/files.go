package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// inDir names the data directory in an error, if there is one.
func inDir(err error) error {
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	return nil
}

// readJSON reads a file of a peer.
func readJSON(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return inDir(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return &CorruptError{Path: path, Err: err}
	}
	return nil
}

// writeFile creates a file and waits until the disk has it.
func writeFile(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}

// unfinished ends the name of a file that is to replace another.
const unfinished = ".new"

// replaceFile writes a new file next to the old one and renames it: a reader sees the
// old content or the new, also after a crash.
func replaceFile(path string, data []byte) error {
	tmp := path + unfinished
	if err := writeFile(tmp, data); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("replace %s: %w", filepath.Base(path), err)
	}
	return Sync(filepath.Dir(path))
}

// Sync waits until the disk has a file, or the names in a directory.
func Sync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	return nil
}

// SyncName waits until the disk has the name of a file in its directory, unless that is one that
// this user may not read, or that cannot be written and so has had the name for long.
func SyncName(path string) error {
	err := Sync(filepath.Dir(path))
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EINVAL) {
		return nil
	}
	return err
}
