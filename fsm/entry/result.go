package entry

import (
	"errors"
	"fmt"

	"github.com/trivet-ha/trivet/fsm/codec"
	"github.com/trivet-ha/trivet/fsm/fencing"
)

// Code says how a command ended. Codes are part of the replicated state: their
// numbers never change. A Code is an error, so that
// errors.Is(result.Err(), fsm.NotFound) works.
type Code uint8

// How a command may end. Only OK changed anything.
const (
	OK                Code = 0
	StaleToken        Code = 1  // the duty's token is not the present leadership's
	SessionEnded      Code = 2  // the session is over or never was; nothing was executed
	OutcomeUnknown    Code = 3  // the first result is forgotten; nothing was executed now
	TableFull         Code = 4  // no room: make some, or try again later
	QueueFull         Code = 5  // no room in the queue, try again later
	NotFound          Code = 6  // what the command names does not exist
	Conflict          Code = 7  // another holder has it, or it exists already
	IllegalTransition Code = 8  // the node's state does not allow the event
	Invalid           Code = 9  // the command contradicts itself or the state's bounds
	Expired           Code = 10 // the lease or join token is over and is never revived
	ClaimLost         Code = 11 // the claim was given back or its session ended
	Refused           Code = 12 // a rule of the cluster forbids it
	UnknownEntry      Code = 13 // the peer must stop: see UnknownEntryError
	Fenced            Code = 14 // what a write depends on does not hold; since log version 2
	Outdated          Code = 15 // the peer's binary knows less than the log may hold: it must stop; since log version 2
)

var codeNames = [...]string{
	"ok", "stale token", "session ended", "outcome unknown", "table full", "queue full", "not found",
	"conflict", "illegal transition", "invalid", "expired", "claim lost", "refused", "unknown entry", "fenced", "outdated",
}

// String returns the code in words.
func (c Code) String() string { return codec.NameOf(codeNames[:], "code", uint8(c)) }

// Error implements error.
func (c Code) Error() string { return c.String() }

// Result is what applying one entry gave. It is a value and may be copied; its
// Value must not be changed.
type Result struct {
	Code    Code          `cbor:"1,keyasint,omitempty"`
	Message string        `cbor:"2,keyasint,omitempty"`
	Token   fencing.Token `cbor:"3,keyasint,omitempty"` // of this entry; of the first one if Repeated
	Value   []byte        `cbor:"4,keyasint,omitempty"` // the verb's own answer, see Decode
	// Repeated says that the request was executed before and this is its
	// first result. It is never stored.
	Repeated bool `cbor:"5,keyasint,omitempty"`
	// Retried says of a repeat that the peer asked again under the same request,
	// after a lost answer: the peer's own client has asked once. It is never stored.
	Retried bool `cbor:"6,keyasint,omitempty"`
}

// Err returns nil for OK and an *Error otherwise.
func (r Result) Err() error {
	if r.Code == OK {
		return nil
	}
	return &Error{Code: r.Code, Message: r.Message}
}

// Decode reads the verb's own answer into v, a pointer to the type that the
// command's comment names. It fails when the command gave none.
func (r Result) Decode(v any) error {
	if len(r.Value) == 0 {
		return errors.New("the result carries no value")
	}
	if err := codec.Unmarshal(r.Value, v); err != nil {
		return fmt.Errorf("decode result: %w", err)
	}
	return nil
}

// Error is a refusal by the state machine: nothing was changed.
type Error struct {
	Code    Code
	Message string // a sentence for a person, without the code
}

// Error implements error.
func (e *Error) Error() string {
	if e.Message == "" {
		return e.Code.String()
	}
	return e.Message
}

// Unwrap returns the code, so that errors.Is finds it.
func (e *Error) Unwrap() error { return e.Code }

// Refuse is the one way for a command to fail.
func Refuse(c Code, format string, args ...any) Result {
	return Result{Code: c, Message: fmt.Sprintf(format, args...)}
}

// Done is a success without an answer of its own.
func Done() Result { return Result{} }

// Answer is a success that carries v.
func Answer(v any) Result { return Result{Value: codec.Marshal(v)} }
