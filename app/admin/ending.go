package admin

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/trivet-ha/trivet/cluster/pki"
)

// Why a peer ended by itself; see Ending.Ended.
var (
	ErrLeft       = errors.New("this peer has left the cluster; its log is gone")
	ErrRemoved    = errors.New("this peer was removed from the cluster")
	ErrSuperseded = errors.New(
		"the cluster was founded again without this peer, by a restore or recovery: it lives in a higher incarnation")
	ErrRolledBack = errors.New("this peer must not take part with this disk")
)

// Ending is why a peer must stop, as it finds out itself. Methods may be called
// concurrently.
type Ending struct {
	log     *slog.Logger
	ended   chan error    // capacity 1: the first reason
	gone    chan struct{} // closed when the leader said that this peer is no member
	once    sync.Once     // of gone
	leaving atomic.Bool   // its own removal was proposed and not refused
}

// NewEnding returns that of a peer that goes on.
func NewEnding(log *slog.Logger) *Ending {
	return &Ending{log: log, ended: make(chan error, 1), gone: make(chan struct{})}
}

// Ended yields why this peer must stop, once, if it finds a reason itself.
func (e *Ending) Ended() <-chan error { return e.ended }

// End asks the owner of this peer to stop it; the first reason counts.
func (e *Ending) End(why error) {
	select {
	case e.ended <- why:
	default:
	}
}

// Refused hears of every certificate that this peer's end of a connection did
// not accept.
func (e *Ending) Refused(err error) {
	if inc, ok := errors.AsType[*pki.IncarnationError](err); ok && inc.Theirs > inc.Ours {
		e.End(fmt.Errorf("%w: %w", ErrSuperseded, err))
		return
	}
	e.log.Debug("peer certificate refused", "err", err)
}

// Removed hears, from the leader, that this peer is no member any more. The
// answer to a leave may be overtaken by that, or lost.
func (e *Ending) Removed() {
	e.once.Do(func() { close(e.gone) })
	if e.leaving.Load() {
		e.End(ErrLeft)
		return
	}
	e.End(ErrRemoved)
}

// RolledBack hears that the disk holds less than this peer had acknowledged.
func (e *Ending) RolledBack(err error) { e.End(fmt.Errorf("%w: %w", ErrRolledBack, err)) }

// Proposed notes that this peer's own removal is on its way to the log, or was refused.
func (e *Ending) Proposed(on bool) { e.leaving.Store(on) }

// isGone reports whether the leader has said that this peer is no member.
func (e *Ending) isGone() bool {
	select {
	case <-e.gone:
		return true
	default:
		return false
	}
}

// Left reports whether this peer is no member any more and an operator has told
// it to leave, in whichever order: its log may be wiped. It is final once Stop
// has returned.
func (e *Ending) Left() bool { return e.leaving.Load() && e.isGone() }
