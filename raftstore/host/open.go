// Package host connects raftstore to a real host, its files and network connections; the
// simulation has its own. It opens the log of a peer (Open), writes the snapshot with which a
// cluster begins (Seed), reads what a stopped peer's log holds (Replay), and carries raft's
// requests between peers (NewTransport).
package host

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/trivet-ha/trivet/raftstore"
)

// logFile is the name of the log inside the peer's raft directory.
const logFile = "log.db"

// keepSnapshots is how many snapshots stay: raft falls back to the older one.
const keepSnapshots = 2

// lockWait bounds how long Open waits for another process that has the
// log open. The data directory has a lock of its own, so this is never long.
const lockWait = 2 * time.Second

// Open opens the log and the snapshots below dir, which must exist.
//
// bolt without its freelist on disk: with it, a small write costs megabytes
// after one burst (measured 2.2 MB for 200 bytes). It is never opened with
// NoSync: an acknowledged write is on two disks.
func Open(dir string) (raftstore.Storage, error) {
	path := filepath.Join(dir, logFile)
	bolt, err := openBolt(path)
	if err != nil {
		return raftstore.Storage{}, err
	}
	snaps, err := raft.NewFileSnapshotStore(dir, keepSnapshots, io.Discard)
	if err != nil {
		return raftstore.Storage{}, errors.Join(fmt.Errorf("open snapshots below %s: %w", dir, err), bolt.Close())
	}
	return raftstore.Storage{Log: bolt, Stable: bolt, Snapshots: snaps, Close: bolt.Close}, nil
}

func openBolt(path string) (b *raftboltdb.BoltStore, err error) {
	if err := verify(path); err != nil {
		return nil, err
	}
	defer func() {
		if r := recover(); r != nil { // bbolt panics on a damaged page
			err = &raftstore.CorruptError{Path: path, Err: fmt.Errorf("%v", r)}
		}
	}()
	b, err = raftboltdb.New(raftboltdb.Options{
		Path: path,
		BoltOptions: &bbolt.Options{
			Timeout:        lockWait,
			NoFreelistSync: true,
			FreelistType:   bbolt.FreelistMapType,
		},
		MsgpackUseNewTimeFormat: true,
	})
	if err != nil {
		return nil, openError(path, err)
	}
	return b, nil
}

// openError tells bbolt's findings about the file's content, which have no
// common type, from errors of the operating system.
func openError(path string, err error) error {
	var file *fs.PathError
	var system syscall.Errno
	if errors.As(err, &file) || errors.As(err, &system) || errors.Is(err, bolterrors.ErrTimeout) {
		return fmt.Errorf("open %s: %w", path, err)
	}
	return &raftstore.CorruptError{Path: path, Err: err}
}
