// Package entry is what all entries of the log have in common: the header, the result of
// a command, cluster time and the IDs of requests; and what the domains of the state have
// in common: [Domain] is one, and [Txn] is an entry at work on it.
package entry

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/trivet-ha/trivet/fsm/fencing"
)

// Command is a verb of the log: one struct, one kind. Values, not pointers,
// are commands.
type Command interface {
	// Validate checks what can be checked without the state. It runs before
	// a command is proposed and again before it is applied, so its rules are
	// as fixed as the format: a looser rule needs a new kind.
	Validate() error
}

// MaxClient is the greatest length of a client's own request ID, in bytes.
const MaxClient = 128

// Header is in every entry. The leader fills in Time and WallMillis.
type Header struct {
	Time       Time          `cbor:"1,keyasint,omitempty"`
	WallMillis int64         `cbor:"2,keyasint,omitempty"` // the leader's wall clock, Unix ms; for display
	Token      fencing.Token `cbor:"3,keyasint,omitempty"` // of the duty that proposes; zero: not a duty
	Session    fencing.Token `cbor:"4,keyasint,omitempty"` // of the peer that proposes; zero: none needed
	// Request makes the command happen at most once. It needs a Session.
	Request RequestID `cbor:"5,keyasint,omitzero"`
	// Answered says that results of this session below it may be forgotten.
	Answered RequestID `cbor:"6,keyasint,omitzero"`
	// Client is the caller's own request ID, opaque, at most MaxClient bytes. The
	// first request that carries it is executed; later ones, also of other
	// sessions, get its result for 10 minutes. All clients share one name space:
	// the code that accepts such IDs puts their owner in front.
	Client string `cbor:"7,keyasint,omitempty"`
}

// Validate says why a header cannot go into the log.
func (h Header) Validate() error {
	switch {
	case h.Time < 0 || h.Time > MaxTime || h.WallMillis < 0:
		return errors.New("time is out of range")
	case len(h.Client) > MaxClient || !utf8.ValidString(h.Client):
		return fmt.Errorf("client's request ID is longer than %d bytes or not UTF-8", MaxClient)
	case h.Request.IsZero() && (!h.Answered.IsZero() || h.Client != ""):
		return errors.New("answered or client without a request")
	case h.Request.IsZero():
		return nil
	case h.Session.IsZero():
		return errors.New("a request needs a session")
	case h.Request.Less(h.Answered):
		return errors.New("the request is below what is answered already")
	}
	return h.Request.Validate()
}
