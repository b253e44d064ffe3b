package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A founding makes a new peer folder next to the present one and switches to it.
// The rename of the finished folder to foundedPrefix is the switch: before it the
// old state is that of this host, after it the new one. What follows, moving the
// old folder away and giving the new one its name, every opening of the
// directory finishes, so that a process may die at any point.
const (
	foundedPrefix = ".founded-"
	beforePrefix  = "before-"
	switchDate    = "20060102T150405Z"
)

// do is every change of the disk whose order matters, and the reading of what was
// written. A test fails it, or changes the disk before it.
func (d *Dir) do(op, path string, change func() error) error {
	if d.fault != nil {
		if err := d.fault(op, path); err != nil {
			return fmt.Errorf("%s %s: %w", op, path, err)
		}
	}
	return change()
}

// Replace makes another peer that of this directory, as Create does, where one
// may live already. The old peer's folder stays as before-VERB-DATE, whose path
// is returned, "" if there was none. prepare is called when the new folder, at
// the path it is given, is complete. On error the directory is as it was, or,
// if the error is of the switch itself, the next opening finishes it.
func (d *Dir) Replace(verb string, now time.Time, id Identity, s Secrets, build func(raftDir string) error,
	prepare func() error) (old string, err error) {
	tmp, err := d.assemble(id, s, build, prepare)
	if err != nil {
		return "", err
	}
	had, err := d.HasPeer()
	if err != nil {
		return "", errors.Join(err, d.discard(tmp))
	}
	suffix, err := d.freeSuffix(verb, now)
	if err != nil {
		return "", errors.Join(err, d.discard(tmp))
	}
	if err := d.rename(tmp, filepath.Join(d.root, foundedPrefix+suffix)); err != nil {
		return "", errors.Join(err, d.discard(tmp))
	}
	if had {
		old = filepath.Join(d.root, beforePrefix+suffix)
	}
	return old, d.finishSwitch()
}

// assemble builds a peer's folder under a name that the next opening removes, calls prepare, and waits until
// the disk has all of it.
func (d *Dir) assemble(id Identity, s Secrets, build func(raftDir string) error,
	prepare func() error) (tmp string, err error) {
	if tmp, err = os.MkdirTemp(d.root, buildPattern); err != nil {
		return "", fmt.Errorf("data directory: %w", err)
	}
	raftDir := filepath.Join(tmp, raftFolder)
	err = d.do("write", tmp, func() error { return writeIdentity(tmp, id, s) })
	if err == nil {
		err = d.do("mkdir", raftDir, func() error { return os.Mkdir(raftDir, 0o700) })
	}
	if err == nil {
		err = d.do("build", raftDir, func() error { return build(raftDir) })
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("data directory: %w", err), d.discard(tmp))
	}
	if err = d.do("prepare", tmp, prepare); err == nil {
		err = d.syncTree(tmp)
	}
	if err != nil {
		return "", errors.Join(err, d.discard(tmp))
	}
	return tmp, nil
}

func (d *Dir) discard(tmp string) error {
	return d.do("remove", tmp, func() error { return os.RemoveAll(tmp) })
}

// syncTree waits until the disk has every file and every name below a folder.
func (d *Dir) syncTree(folder string) error {
	var paths []string
	err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		paths = append(paths, path)
		return err
	})
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	slices.Reverse(paths) // what a folder holds before the folder
	for _, path := range paths {
		if err := d.do("sync", path, func() error { return Sync(path) }); err != nil {
			return err
		}
	}
	return nil
}

// freeSuffix returns the part of the names of a switch that follows the prefix,
// which no other switch has.
func (d *Dir) freeSuffix(verb string, now time.Time) (string, error) {
	for {
		suffix := verb + "-" + now.UTC().Format(switchDate)
		_, err := os.Lstat(filepath.Join(d.root, beforePrefix+suffix))
		if errors.Is(err, fs.ErrNotExist) {
			return suffix, nil
		}
		if err != nil {
			return "", fmt.Errorf("data directory: %w", err)
		}
		now = now.Add(time.Second) // bounded by the switches that were ever made
	}
}

// rename makes a new name durable.
func (d *Dir) rename(from, to string) error {
	if err := d.do("rename", to, func() error { return os.Rename(from, to) }); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	return d.do("sync", d.root, func() error { return Sync(d.root) })
}

// finishSwitch completes a switch that was begun. Each step may have been done
// by a process that died.
func (d *Dir) finishSwitch() error {
	founded, err := pendingSwitch(d.root)
	if err != nil || founded == "" {
		return err
	}
	peer := filepath.Join(d.root, peerFolder)
	suffix := strings.TrimPrefix(filepath.Base(founded), foundedPrefix)
	switch _, err := os.Lstat(peer); {
	case err == nil:
		if err := d.rename(peer, filepath.Join(d.root, beforePrefix+suffix)); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("data directory: %w", err)
	}
	if err := d.do("remove", departureFile, d.forgetDeparture); err != nil {
		return err
	}
	return d.rename(founded, peer)
}

// pendingSwitch returns the folder of a peer that was founded and has not got
// its name yet, "" if there is none.
func pendingSwitch(root string) (string, error) {
	found, err := filepath.Glob(filepath.Join(root, foundedPrefix+"*"))
	if err != nil || len(found) == 0 {
		return "", err
	}
	return found[len(found)-1], nil
}

// Clean removes the folders of peers that a founding or a join has replaced, and
// returns their paths; with dry it only returns them. It may run next to a peer.
func Clean(root string, dry bool) (removed []string, err error) {
	entries, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(root, e.Name())
		switch {
		case !e.IsDir() || !isAside(e.Name()):
			continue
		case !dry: // the secrets first: a removal that is interrupted leaves none
			err = errors.Join(os.RemoveAll(filepath.Join(path, credentialsFile)),
				os.RemoveAll(filepath.Join(path, gossipKeyFile)), os.RemoveAll(path))
		}
		if err != nil {
			return removed, fmt.Errorf("data directory: %w", err)
		}
		removed = append(removed, path)
	}
	return removed, nil
}

// isAside reports whether a switch gave a folder its name, as freeSuffix writes it: a copy
// that an operator calls before-upgrade-1 is not ours to remove.
func isAside(name string) bool {
	suffix, prefixed := strings.CutPrefix(name, beforePrefix)
	verb, date, _ := strings.Cut(suffix, "-")
	_, err := time.Parse(switchDate, date)
	return prefixed && slices.Contains([]string{VerbRecover, VerbRestore, verbJoin}, verb) && err == nil
}
