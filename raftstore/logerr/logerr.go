// Package logerr holds the errors of the replicated log, for all who hand it commands or
// read it: they tell what became of a command without knowing raft.
package logerr

import "errors"

// NotAppended reports whether an error says that nothing was appended.
func NotAppended(err error) bool {
	return errors.Is(err, ErrNotLeader) || errors.Is(err, ErrNoLeader) || errors.Is(err, ErrBusy)
}

var (
	// ErrNotLeader says that this peer does not lead: nothing was appended,
	// the caller may try again, here or elsewhere.
	ErrNotLeader = errors.New("this peer is not the leader")
	// ErrNoLeader says that no leader is known: nothing was appended.
	ErrNoLeader = errors.New("no leader: fewer than a majority of voters can be reached, or an election is under way")
	// ErrOutcomeUnknown says that a command was handed to the log and its end
	// was not learnt. It may be committed now, later or never; only the same
	// request ID may be tried again.
	ErrOutcomeUnknown = errors.New("outcome unknown: the command may or may not be committed")
	// ErrBusy says that too many commands wait already: nothing was appended.
	ErrBusy = errors.New("too many commands are waiting for the log")
	// ErrClosed says that the store was closed.
	ErrClosed = errors.New("the log is closed")
	// ErrMuted says that this peer's transport refuses to send, because its
	// disk hangs or because it refuses to lead (docs/design.md#watchdog).
	ErrMuted = errors.New("muted: this peer does not act as a leader")
)
