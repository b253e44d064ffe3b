package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"

	"go.etcd.io/bbolt"

	"github.com/trivet-ha/trivet/raftstore"
)

// buckets are those of raft-boltdb.
var buckets = [...]string{"conf", "logs"}

// errMissing says that the log of a peer is not there. It is made with the peer.
var errMissing = errors.New("it is missing, and with it the votes and entries of this peer")

// verify reads every page of the log that is in use. bbolt trusts its file: on a
// damaged page it panics, in a goroutine of its own where no caller can recover,
// and where the file was cut off the kernel sends SIGBUS. Here both become an error
// that names the file. It also finds what bbolt takes for a shorter log: see checkLayout.
// It costs two reads of the log, which is at most about the size at which a snapshot is taken.
func verify(path string) (err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return &raftstore.CorruptError{Path: path, Err: errMissing}
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	if err := checkFile(path, info.Size()); err != nil {
		return openError(path, err)
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer damaged(path, &err)
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: lockWait})
	if err != nil {
		return openError(path, err)
	}
	err = db.View(func(tx *bbolt.Tx) error {
		if used := tx.Size(); used > info.Size() {
			return fmt.Errorf("it has %d bytes of %d: it was cut off", info.Size(), used)
		}
		return checkBuckets(tx)
	})
	if err != nil {
		err = &raftstore.CorruptError{Path: path, Err: err}
	}
	return errors.Join(err, db.Close())
}

// checkFile checks the layout of the file's pages.
func checkFile(path string, length int64) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(checkLayout(f, length), f.Close())
}

// checkBuckets reads all values, and demands the buckets, which raft-boltdb would make again.
func checkBuckets(tx *bbolt.Tx) error {
	var found []string
	err := tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
		found = append(found, string(name))
		return b.ForEach(func(key, value []byte) error {
			if string(name) == "logs" && len(key) != binary.Size(uint64(0)) || value == nil {
				return fmt.Errorf("the bucket %q has a key %x that raft did not write", name, key)
			}
			return nil
		})
	})
	if err == nil && fmt.Sprint(found) != fmt.Sprint(buckets) {
		err = fmt.Errorf("it has the buckets %q, not %q", found, buckets)
	}
	return err
}
