// Package fencing holds Token, the fencing token: the number that orders a later grant
// after an earlier one (docs/design.md#fencing). Every command of a leader's duty
// carries one, and so does every lease; the receiver compares two and refuses the
// lower.
package fencing

import (
	"fmt"
	"strconv"
)

// Token is a fencing token: base plus the index of the log entry that granted
// something, a leadership, a session, a claim or a lease. Tokens are unique and
// only rise, over changes of leader, restore and recovery. Zero means none.
//
// In JSON it is a decimal string, because clients with 53-bit numbers would
// round it; in CBOR it is a plain unsigned integer.
type Token uint64

// At returns the token of the log entry at index. The base is 0 in a new
// cluster and is raised by restore and recovery, above base plus every index
// of the history before.
func At(base, index uint64) Token { return Token(base + index) }

// ParseToken reads the decimal form. It takes no sign, no space and no leading
// zero, so that equal tokens are equal strings.
func ParseToken(s string) (Token, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || strconv.FormatUint(n, 10) != s {
		return 0, fmt.Errorf("fencing token %q is not a decimal number of 64 bits", s)
	}
	return Token(n), nil
}

// IsZero reports whether the token stands for none.
func (t Token) IsZero() bool { return t == 0 }

// String returns the decimal form.
func (t Token) String() string { return strconv.FormatUint(uint64(t), 10) }

// MarshalText implements encoding.TextMarshaler, which makes the token a
// string in JSON.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *Token) UnmarshalText(text []byte) error {
	parsed, err := ParseToken(string(text))
	if err != nil {
		return err
	}
	*t = parsed
	return nil
}
