package entry

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"
)

// RequestID names one request of one session, so that a repeat gets the first
// result. It is a UUIDv7 whose timestamp is cluster time in milliseconds
// (docs/design.md#requests). Zero means none.
type RequestID [16]byte

// maxSeq is the greatest sequence number of one millisecond.
const maxSeq = 1<<12 - 1

// MintRequestID returns the ID of the seq-th request of t's millisecond; of seq
// the lowest 12 bits count. random makes IDs of different peers differ.
func MintRequestID(t Time, seq uint16, random [8]byte) RequestID {
	return mint(uint64(t.Millis()), seq, random)
}

// NextRequestID returns an ID greater than last whose time is t, or up to a
// few milliseconds later when more than 4096 are minted in one.
func NextRequestID(last RequestID, t Time, random [8]byte) RequestID {
	now := uint64(t.Millis())
	millis, seq := last.millis(), last.seq()
	switch {
	case now > millis || last.IsZero():
		return mint(now, 0, random)
	case seq < maxSeq:
		return mint(millis, seq+1, random)
	default:
		return mint(millis+1, 0, random)
	}
}

// mint lays the parts out as RFC 9562 §5.7 says.
func mint(millis uint64, seq uint16, random [8]byte) RequestID {
	var id RequestID
	binary.BigEndian.PutUint64(id[:8], millis<<16|7<<12|uint64(seq&maxSeq))
	copy(id[8:], random[:])
	id[8] = id[8]&0x3f | 0x80
	return id
}

func (id RequestID) millis() uint64 { return binary.BigEndian.Uint64(id[:8]) >> 16 }

func (id RequestID) seq() uint16 { return binary.BigEndian.Uint16(id[6:8]) & maxSeq }

// Time returns the cluster time the ID carries, in whole milliseconds.
func (id RequestID) Time() Time { return Time(id.millis()) * Time(1e6) }

// IsZero reports whether the ID stands for none.
func (id RequestID) IsZero() bool { return id == RequestID{} }

// Less orders IDs by time, then sequence, then noise: the order of minting on
// one peer.
func (id RequestID) Less(other RequestID) bool { return bytes.Compare(id[:], other[:]) < 0 }

// String returns the usual form with dashes.
func (id RequestID) String() string { return uuid.UUID(id).String() }

// MarshalText implements encoding.TextMarshaler.
func (id RequestID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *RequestID) UnmarshalText(text []byte) error {
	if len(text) != 36 { // of the form with dashes
		return fmt.Errorf("request ID %q is not a UUID", text)
	}
	parsed, err := uuid.ParseBytes(text)
	if err != nil {
		return fmt.Errorf("request ID %q is not a UUID: %w", text, err)
	}
	if err := RequestID(parsed).Validate(); err != nil {
		return err
	}
	*id = RequestID(parsed)
	return nil
}

// Validate accepts version 7 and the RFC's variant only, whose order is that
// of time.
func (id RequestID) Validate() error {
	if id[6]>>4 != 7 || id[8]>>6 != 2 || id.millis() > maxMillis {
		return fmt.Errorf("request ID %s is not a UUID of version 7 within cluster time", id)
	}
	return nil
}

// maxMillis is the greatest millisecond that Time can hold.
const maxMillis = 1<<63/1_000_000 - 1
