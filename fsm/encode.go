package fsm

import (
	"errors"
	"fmt"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/codec"
)

// Bounds of an entry (docs/design.md#log).
const (
	// MaxEntry is the greatest encoded entry: a document and what goes with it.
	MaxEntry = blobs.MaxBlob + 64<<10
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

// Encode validates a command fully and returns the entry's data: what Encode
// accepts, Apply on any peer of the same version can read. A refusal is an
// *Error with code Invalid.
func Encode(h Header, c Command) ([]byte, error) {
	if c == nil {
		return nil, &Error{Code: Invalid, Message: "no command"}
	}
	verb, known := verbOf(c)
	if !known {
		return nil, &Error{Code: Invalid, Message: fmt.Sprintf("%T is not a command of the log", c)}
	}
	if err := errors.Join(h.Validate(), c.Validate()); err != nil {
		return nil, &Error{Code: Invalid, Message: fmt.Sprintf("%s: %v", verb.Name, err)}
	}
	if Kind(verb.Kind).Ignorable() && h != (Header{Time: h.Time, WallMillis: h.WallMillis}) {
		return nil, &Error{Code: Invalid, Message: verb.Name + ": peers that skip it could not keep its result"}
	}
	data := append([]byte{formatV1, verb.Kind}, codec.Marshal(h)...)
	data = append(data, codec.Marshal(c)...)
	if len(data) > MaxEntry {
		return nil, &Error{Code: Invalid,
			Message: fmt.Sprintf("%s: %d bytes are more than an entry may have (%d)", verb.Name, len(data), MaxEntry)}
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
	verb, known := lookup(kind)
	if !known {
		return Header{}, nil, &UnknownEntryError{Format: formatV1, Kind: kind}
	}
	c, err := verb.Decode(body)
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
	body, err := codec.UnmarshalFirst(data[envelope:], &h)
	if err == nil {
		err = h.Validate()
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
	return fmt.Sprintf("the entry has kind %d, which this binary (log version %d) does not know; %s", byte(e.Kind),
		Version, remedy)
}

// Unwrap returns why the entry cannot be read, and the code.
func (e *UnknownEntryError) Unwrap() []error { return []error{UnknownEntry, e.Err} }
