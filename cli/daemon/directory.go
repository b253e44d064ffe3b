package daemon

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/cli/local"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/internal/pace"
)

// openDirectory locks the data directory for the peer. Under systemd it waits for a process that has
// it: one that was killed while its disk hangs lets go when the disk is back, and is not there to be
// started again. A person is told at once.
func openDirectory(ctx context.Context, t *term.Terminal, log *slog.Logger, path string) (*datadir.Dir, error) {
	for told := false; ; told = true {
		dir, err := datadir.Open(path)
		switch {
		case errors.Is(err, fs.ErrPermission):
			return nil, directoryDenied(err, path)
		case !errors.Is(err, datadir.ErrLocked), t.Variable("NOTIFY_SOCKET", "") == "":
			return dir, local.DirError(err)
		}
		if !told {
			log.Warn("data directory is in use, waiting for the end of that process", "err", err)
		}
		if !pace.Wait(ctx, time.Second) {
			return nil, local.DirError(err)
		}
	}
}

// handOver gives what root made in the data directory of another user to that user, whose service
// could else never start the peer again.
func handOver(log *slog.Logger, path string) {
	if err := local.HandOver(path); err != nil {
		log.Warn("give the data directory to its owner failed", "err", err)
	}
}

// directoryDenied says how the files of a peer become readable again for the user that runs it, as
// after one that root ran was killed.
func directoryDenied(err error, path string) error {
	return term.Fail(term.ExitFailed, "the files belong to another user, as root's do; as root: 'chown -R --reference="+
		path+" "+path+"/peer "+path+"/lock', then start it again", "%w", err)
}
