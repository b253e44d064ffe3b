package fsm

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/trivet-ha/trivet/fsm/fencing"
)

// Version is the log version of this binary: the newest kinds, fields and
// rules it knows. A peer advertises it in its session; what needs version N is
// proposed once every member has N ([View.ClusterVersion], [View.Admits]).
const Version = 2

// Bounds of an entry (docs/design.md#log).
const (
	// MaxBlob is the greatest compressed document.
	MaxBlob = 2 << 20
	// MaxEntry is the greatest encoded entry: a document and what goes with it.
	MaxEntry = MaxBlob + 64<<10
	// MaxClient is the greatest length of a client's own request ID, in bytes.
	MaxClient = 128
)

// formatV1 is the only envelope so far: format byte, kind byte, header, body.
const formatV1 = 1

// envelope is the length of what stands before the header.
const envelope = 2

// Entry is one committed command of the log.
type Entry struct {
	Index, Term uint64
	Data        []byte // see Encode
}

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

func (h Header) validate() error {
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
	return h.Request.validate()
}

// Encode validates a command fully and returns the entry's data: what Encode
// accepts, Apply on any peer of the same version can read. A refusal is an
// *Error with code Invalid.
func Encode(h Header, c Command) ([]byte, error) {
	if c == nil {
		return nil, &Error{Code: Invalid, Message: "no command"}
	}
	row, known := rowOf(c)
	if !known {
		return nil, &Error{Code: Invalid, Message: fmt.Sprintf("%T is not a command of the log", c)}
	}
	if err := errors.Join(h.validate(), c.Validate()); err != nil {
		return nil, &Error{Code: Invalid, Message: fmt.Sprintf("%s: %v", row.name, err)}
	}
	if row.kind.Ignorable() && h != (Header{Time: h.Time, WallMillis: h.WallMillis}) {
		return nil, &Error{Code: Invalid, Message: row.name + ": peers that skip it could not keep its result"}
	}
	data := append([]byte{formatV1, byte(row.kind)}, marshal(h)...)
	data = append(data, marshal(c)...)
	if len(data) > MaxEntry {
		return nil, &Error{Code: Invalid, Message: fmt.Sprintf("%s: %d bytes are more than an entry may have (%d)", row.name, len(data), MaxEntry)}
	}
	return data, nil
}

// Decode reads what Encode wrote. Anything else gives an *UnknownEntryError:
// an unknown format or kind, a header or body that cannot be read, and one
// that breaks the rules of this binary, which a newer one may have written.
func Decode(data []byte) (Header, Command, error) {
	h, kind, body, err := open(data)
	if err != nil {
		return Header{}, nil, err
	}
	row, known := lookup(kind)
	if !known {
		return Header{}, nil, &UnknownEntryError{Format: formatV1, Kind: kind}
	}
	c, err := row.decode(body)
	if err == nil {
		err = c.Validate()
	}
	if err != nil {
		return Header{}, nil, &UnknownEntryError{Format: formatV1, Kind: kind, Err: fmt.Errorf("body: %w", err)}
	}
	return h, c, nil
}

// open reads the envelope and the header, which every kind has.
func open(data []byte) (Header, Kind, []byte, error) {
	if len(data) < envelope || len(data) > MaxEntry {
		return Header{}, 0, nil, &UnknownEntryError{Err: fmt.Errorf("%d bytes are no entry", len(data))}
	}
	format, kind := data[0], Kind(data[1])
	if format != formatV1 {
		return Header{}, 0, nil, &UnknownEntryError{Format: format, Kind: kind}
	}
	var h Header
	body, err := decMode.UnmarshalFirst(data[envelope:], &h)
	if err == nil {
		err = h.validate()
	}
	if err != nil {
		return Header{}, 0, nil, &UnknownEntryError{Format: format, Kind: kind, Err: fmt.Errorf("header: %w", err)}
	}
	return h, kind, body, nil
}

// UnknownEntryError says that an entry cannot be applied by this binary. The
// peer must stop: to skip the entry would let its state part from the others'
// (promise 8).
type UnknownEntryError struct {
	Format byte
	Kind   Kind
	Err    error // why a known kind cannot be read; nil for an unknown kind or format
}

// Error implements error with a sentence that says what to upgrade.
func (e *UnknownEntryError) Error() string {
	const remedy = "a newer trivet wrote it or it is damaged: upgrade trivet on this host to the version of the other peers"
	switch {
	case e.Err != nil && e.Format == 0:
		return fmt.Sprintf("the entry cannot be read (%v); %s", e.Err, remedy)
	case e.Err != nil:
		return fmt.Sprintf("the entry (format %d, kind %v) cannot be read (%v); %s", e.Format, e.Kind, e.Err, remedy)
	case e.Format != formatV1:
		return fmt.Sprintf("the entry has format %d, this binary knows format %d; %s", e.Format, formatV1, remedy)
	}
	return fmt.Sprintf("the entry has kind %d, which this binary (log version %d) does not know; %s", byte(e.Kind), Version, remedy)
}

// Unwrap returns why the entry cannot be read, and the code.
func (e *UnknownEntryError) Unwrap() []error { return []error{UnknownEntry, e.Err} }
