// Package local is what verbs know of this host alone: its data directory, who owns
// it, and why no peer runs on it.
package local

import (
	"errors"
	"io/fs"
	"syscall"
	"time"

	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/cli/term"
)

// Use opens the data directory for a command; done unlocks it, after it has given what
// this process made there to the user of the service, the lock too. A dry run makes
// nothing.
func Use(path string, dry bool) (dir *datadir.Dir, done func() error, err error) {
	if dry {
		if dir, err = datadir.Look(path); err != nil {
			return nil, nil, DirError(err)
		}
		return dir, dir.Close, nil
	}
	if dir, err = datadir.Open(path); err != nil {
		return nil, nil, DirError(err)
	}
	return dir, func() error { return errors.Join(HandOver(path), dir.Close()) }, nil
}

// DirError gives what went wrong with the data directory its exit code and
// remedy. The error itself names the path.
func DirError(err error) error {
	var corrupt *datadir.CorruptError
	var foreign *datadir.ForeignError
	switch {
	case errors.Is(err, datadir.ErrLocked):
		return term.Fail(term.ExitConflict,
			"stop it first ('systemctl stop trivet'), or name another directory with --data-dir", "%w", err)
	case errors.Is(err, datadir.ErrNoPeer):
		return term.Fail(term.ExitUsage,
			"'trivet init' founds a cluster here, 'trivet join' makes this host a peer of one; another directory: --data-dir",
			"%w", err)
	case errors.As(err, &corrupt):
		return term.Fail(term.ExitFailed, "nothing was changed. While the other peers have a leader: "+HintAnew+
			". If they have none, keep the directory; docs/recovery.md says what can be read of it", "%w", err)
	case errors.As(err, &foreign): // a snapshot that is to be restored
		return term.Fail(term.ExitConflict,
			"nothing was changed. If the snapshot's state is to go on in the cluster of this host: --from-cluster "+
				foreign.Theirs, "%w", err)
	case errors.Is(err, datadir.ErrPeerExists):
		return term.Fail(term.ExitConflict,
			"nothing was changed; with --replace its data is set aside, and this host joins as a new peer", "%w", err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return term.Fail(term.ExitFailed, "make room on that disk; nothing acknowledged is lost", "%w", err)
	case errors.Is(err, syscall.EROFS):
		return term.Fail(term.ExitFailed,
			"mount it writable; after an error of the disk the kernel makes it read-only, see 'dmesg'", "%w", err)
	case errors.Is(err, fs.ErrPermission):
		return term.Fail(term.ExitFailed, "run this as the owner of the directory, or as root", "%w", err)
	default:
		return err
	}
}

// StopLimit bounds an orderly stop; the unit's TimeoutStopSec (30 s) is longer.
// Workers may take 24 s of it, see inspector/task_context.go.
const StopLimit = 28 * time.Second
