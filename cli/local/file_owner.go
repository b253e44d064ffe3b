package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/internal/serviceuser"
)

// SecretFile is the mode of what init and join make: 0640 for the group of the
// service, 0600 where there is no such group. A configuration has it from the
// start: the first password that the operator writes into it would else be
// readable to every user of the host.
const SecretFile = fs.FileMode(0o640)

// service is the service's user; ok is false where there is none, and where this process
// is not root and could give nothing away.
func service() (who serviceuser.Account, ok bool) {
	if os.Geteuid() != 0 {
		return who, false
	}
	return serviceuser.Named()
}

// WriteWhole has write make a file at path, which is there whole or not at all, and on the disk
// with its name when it returns. Until write changes that, its owner alone may read it. A
// device, a pipe or a link at path is refused: the file would take its place.
func WriteWhole(path string, write func(*os.File) error) error {
	if err := replaceable(path); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close(), replaceable(path)); err == nil { // write may have taken minutes
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return datadir.SyncName(path)
}

// replaceable refuses what a rename to path must not take the name of.
func replaceable(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().IsRegular():
		return nil
	case info.Mode()&fs.ModeSymlink != 0:
		return term.Fail(term.ExitUsage, "name the file that it leads to: 'readlink -f "+path+"'",
			"write %s: it is a link, which would be replaced", path)
	default:
		return term.Fail(term.ExitUsage, "name a file, which is made or replaced",
			"write %s: it is no regular file and would be replaced", path)
	}
}

// Replace puts a file in its place. What was there keeps its owner; a secret goes to
// the group of the service, or to no group.
func Replace(path string, text []byte, mode fs.FileMode, was fs.FileInfo) error {
	return WriteWhole(path, func(f *os.File) error {
		if _, err := f.Write(text); err != nil {
			return err
		}
		uid, gid := -1, -1 // as it is
		if was != nil && os.Geteuid() == 0 {
			if old, ok := was.Sys().(*syscall.Stat_t); ok {
				uid, gid = int(old.Uid), int(old.Gid)
			}
		}
		if mode == SecretFile {
			who, ok := service()
			if ok {
				gid = who.GID
			} else {
				mode &^= 0o040
			}
		}
		if uid >= 0 || gid >= 0 {
			if err := f.Chown(uid, gid); err != nil {
				return err
			}
		}
		return f.Chmod(mode)
	})
}

// HandOver gives what root's commands made in a data directory to the directory's
// owner, or where that is root too to the service's user: who runs the peer
// must be able to write it. Nothing happens unless this process is root.
func HandOver(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	defer root.Close()
	who, ok := serviceuser.Of(path)
	if !ok {
		return nil
	}
	// os.Root follows no link out of the directory, which may belong to a user who must
	// not get root's powers.
	err = eachMade(root.FS(), func(name string, s *syscall.Stat_t) error {
		// A file of several names is left alone: one of them may be elsewhere.
		if s.Uid != 0 || s.Mode&syscall.S_IFMT != syscall.S_IFDIR && s.Nlink > 1 {
			return nil
		}
		return root.Lchown(name, who.UID, who.GID)
	})
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	return nil
}

// eachMade calls do for a data directory and all that Trivet made in it. What else lies there is not
// looked at, nor what is mounted: root may have no rights to a share, and one whose server is gone hangs.
func eachMade(dir fs.FS, do func(name string, s *syscall.Stat_t) error) error {
	var disk uint64
	return fs.WalkDir(dir, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if top, _, _ := strings.Cut(name, "/"); name != "." && !datadir.Makes(top) {
			return skip(d)
		}
		info, err := fs.Lstat(dir, name)
		if err != nil {
			return err
		}
		s, ok := info.Sys().(*syscall.Stat_t)
		if name == "." && ok {
			disk = s.Dev
		}
		// A file of an overlay may have another device than its directory.
		if !ok || d.IsDir() && s.Dev != disk {
			return skip(d)
		}
		return do(name, s)
	})
}

// skip leaves out a file, or a directory with all that is in it.
func skip(d fs.DirEntry) error {
	if d.IsDir() {
		return fs.SkipDir
	}
	return nil
}
