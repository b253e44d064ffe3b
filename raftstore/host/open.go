// Package host connects raftstore to a real host, its files and network connections; the
// simulation has its own. It makes and opens the log of a peer (Create, Open, OpenWAL), writes
// the snapshot with which a cluster begins (Seed), reads what a stopped peer's log holds
// (Replay), and carries raft's requests between peers (NewTransport).
package host

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/raftguard/wal"
)

// logFile is the name of the log inside the peer's raft directory.
const logFile = "log.db"

// keepSnapshots is how many snapshots stay: raft falls back to the older one.
const keepSnapshots = 2

// lockWait bounds how long Open waits for another process that has the
// log open. The data directory has a lock of its own, so this is never long.
const lockWait = 2 * time.Second

// Create makes an empty log below dir, which must exist and hold none, and opens it.
func Create(dir string) (raftstore.Storage, error) {
	path := filepath.Join(dir, logFile)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return raftstore.Storage{}, errors.Join(fmt.Errorf("create %s: it exists", path), err)
	}
	return open(dir, bolt(dir))
}

// Open opens the log and the snapshots below dir, which Create made. A log that is not
// there is not made again: the peer would have forgotten its votes.
//
// bolt without its freelist on disk: with it, a small write costs megabytes
// after one burst (measured 2.2 MB for 200 bytes). It is never opened with
// NoSync: an acknowledged write is on two disks.
//
// What a write-ahead log holds is carried over to bolt first, and its files are
// removed: there is one log, whichever way it was written.
func Open(dir string) (raftstore.Storage, error) { return openVerified(dir, bolt(dir)) }

// OpenWAL is Open with a write-ahead log in front of bolt, see package wal, whose secret
// is read from random.
func OpenWAL(dir string, random io.Reader) (raftstore.Storage, error) {
	return openVerified(dir, func(bolt *raftboltdb.BoltStore) (raft.LogStore, func() error, error) {
		log, err := wal.Open(dir, bolt, random)
		if err != nil {
			return nil, nil, err
		}
		return log, func() error { return errors.Join(log.Close(), bolt.Close()) }, nil
	})
}

// front makes a log store of bolt, and what closes both.
type front func(*raftboltdb.BoltStore) (raft.LogStore, func() error, error)

// bolt is the front that is bolt itself.
func bolt(dir string) front {
	return func(bolt *raftboltdb.BoltStore) (raft.LogStore, func() error, error) {
		return bolt, bolt.Close, wal.Settle(dir, bolt)
	}
}

func openVerified(dir string, front front) (raftstore.Storage, error) {
	if err := verify(filepath.Join(dir, logFile)); err != nil {
		return raftstore.Storage{}, err
	}
	return open(dir, front)
}

// open opens bolt, what front makes of it, and the snapshots.
func open(dir string, front front) (raftstore.Storage, error) {
	bolt, err := openBolt(filepath.Join(dir, logFile))
	if err != nil {
		return raftstore.Storage{}, err
	}
	log, closeLog, err := front(bolt)
	if errors.Is(err, wal.ErrDamaged) {
		err = &raftstore.CorruptError{Path: filepath.Join(dir, wal.Files), Err: err}
	}
	if err != nil {
		return raftstore.Storage{}, errors.Join(err, bolt.Close())
	}
	snaps, err := openSnapshots(dir, log, bolt)
	if err != nil {
		return raftstore.Storage{}, errors.Join(fmt.Errorf("open snapshots below %s: %w", dir, err), closeLog())
	}
	return raftstore.Storage{Log: log, Stable: checkedStable{bolt}, Snapshots: snaps, Close: closeLog}, nil
}

func openBolt(path string) (b *raftboltdb.BoltStore, err error) {
	defer damaged(path, &err)
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

// damaged makes an error of a panic, since bbolt panics on a damaged page. Defer it.
func damaged(path string, err *error) {
	if r := recover(); r != nil {
		*err = &raftstore.CorruptError{Path: path, Err: fmt.Errorf("%v", r)}
	}
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
