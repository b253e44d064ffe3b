package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"

	"go.etcd.io/bbolt"

	"github.com/trivet-ha/trivet/raftstore"
)

// verify reads every page of the log that is in use. bbolt trusts its file: on a
// damaged page it panics, in a goroutine of its own where no caller can recover,
// and where the file was cut off the kernel sends SIGBUS. Here both become an error
// that names the file. It costs one sequential read of the log, which is at most
// about the size at which a snapshot is taken.
func verify(path string) (err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil // bbolt makes it
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
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
		return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(_, _ []byte) error { return nil })
		})
	})
	if err != nil {
		err = &raftstore.CorruptError{Path: path, Err: err}
	}
	return errors.Join(err, db.Close())
}
