package app

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/trivet-ha/trivet/cluster/pki"
)

// ending is why a peer must stop, as it finds out itself. Methods may be called
// concurrently.
type ending struct {
	log     *slog.Logger
	ended   chan error    // capacity 1: the first reason
	gone    chan struct{} // closed when the leader said that this peer is no member
	once    sync.Once     // of gone
	leaving atomic.Bool   // its own removal was proposed and not refused
}

func newEnding(log *slog.Logger) *ending {
	return &ending{log: log, ended: make(chan error, 1), gone: make(chan struct{})}
}

// Ended yields why this peer must stop, once, if it finds a reason itself.
func (e *ending) Ended() <-chan error { return e.ended }

// end asks the owner of this peer to stop it; the first reason counts.
func (e *ending) end(why error) {
	select {
	case e.ended <- why:
	default:
	}
}

// refused hears of every certificate that this peer's end of a connection did
// not accept.
func (e *ending) refused(err error) {
	var inc *pki.IncarnationError
	if errors.As(err, &inc) && inc.Theirs > inc.Ours {
		e.end(fmt.Errorf("%w: %w", ErrSuperseded, err))
		return
	}
	e.log.Debug("peer certificate refused", "err", err)
}

// removed hears, from the leader, that this peer is no member any more. The
// answer to a leave may be overtaken by that, or lost.
func (e *ending) removed() {
	e.once.Do(func() { close(e.gone) })
	if e.leaving.Load() {
		e.end(ErrLeft)
		return
	}
	e.end(ErrRemoved)
}

// rolledBack hears that the disk holds less than this peer had acknowledged.
func (e *ending) rolledBack(err error) { e.end(fmt.Errorf("%w: %w", ErrRolledBack, err)) }
