// Package valid checks what may go into the log, cuts texts that are too long for it, and
// collects what contradicts itself in the state.
//
// What it accepts is part of the format: a looser rule needs a new kind of entry
// (fsm/DESIGN.md).
package valid

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Bounds of what names a peer.
const (
	maxID = 64
	// MaxAddress is the greatest length of an address, in bytes.
	MaxAddress = 260
	// MaxIP is the greatest length of an IP address as text, in bytes.
	MaxIP = 64
)

// Length checks the length of a text in bytes.
func Length(what, text string, least, most int) error {
	if len(text) < least || len(text) > most {
		return fmt.Errorf("%s has %d bytes, allowed are %d to %d", what, len(text), least, most)
	}
	return nil
}

// Count checks how many things an entry lists, which are at least one.
func Count(n, most int, things string) error {
	if n < 1 || n > most {
		return fmt.Errorf("%d %s, allowed are 1 to %d", n, things, most)
	}
	return nil
}

// Each returns what is wrong with the first of a list that check does not accept.
func Each[T any](all []T, check func(T) error) error {
	for _, one := range all {
		if err := check(one); err != nil {
			return err
		}
	}
	return nil
}

// Once checks that an entry names no thing twice.
func Once(thing string, names []string) error {
	if len(slices.Compact(slices.Sorted(slices.Values(names)))) < len(names) {
		return errors.New(thing + " is named twice")
	}
	return nil
}

// Word checks the length of a text and its characters.
func Word(what, text string, least, most int, allowed func(byte) bool) error {
	return cmp.Or(Length(what, text, least, most), Chars(what, text, allowed))
}

// Chars checks that a text consists of the given class of characters.
func Chars(what, text string, allowed func(byte) bool) error {
	for i := range len(text) {
		if !allowed(text[i]) {
			return fmt.Errorf("%s %q has a character that is not allowed", what, text)
		}
	}
	return nil
}

// ID accepts what may stand in a certificate, a path and a URL.
func ID(what, id string) error {
	return Word(what, id, 1, maxID, func(b byte) bool {
		return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '-' || b == '_' || b == '.'
	})
}

// Address accepts host:port and nothing. Whether the host exists is not
// for a state machine to ask.
func Address(address string) error {
	if address == "" {
		return nil
	}
	i := strings.LastIndexByte(address, ':')
	port, err := strconv.ParseUint(address[i+1:], 10, 16)
	if i < 0 || err != nil || port == 0 || len(address) > MaxAddress || strings.ContainsAny(address, " /@") {
		return fmt.Errorf("address %q is not host:port", address)
	}
	return nil
}

// Text checks a foreign text. CBOR holds UTF-8 alone, and a NUL would end a
// part of a key.
func Text(what, text string, least, most int) error {
	if !utf8.ValidString(text) {
		return fmt.Errorf("%s is not UTF-8", what)
	}
	if strings.IndexByte(text, 0) >= 0 {
		return fmt.Errorf("%s has a NUL", what)
	}
	return Length(what, text, least, most)
}

// Cut shortens a text in UTF-8 to at most so many bytes, between two characters, and ends
// it with a mark where something is missing. Members store what it returns: it never changes.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	const more = "…"
	at := most - len(more)
	for !utf8.RuneStart(text[at]) {
		at--
	}
	return text[:at] + more
}

// Millis accepts a wall clock in Unix milliseconds, and 0 for none.
func Millis(millis int64) error {
	if millis < 0 {
		return errors.New("a wall clock before 1970")
	}
	return nil
}

// MAC reports whether s is six bytes in lower case with colons.
func MAC(s string) bool {
	if len(s) != 17 {
		return false
	}
	for i := range len(s) {
		if i%3 == 2 && s[i] != ':' || i%3 != 2 && !isHex(s[i]) {
			return false
		}
	}
	return true
}

func isHex(b byte) bool { return '0' <= b && b <= '9' || 'a' <= b && b <= 'f' }

// IPChar reports whether a byte may stand in an IP address in lower case.
func IPChar(b byte) bool { return isHex(b) || b == '.' || b == ':' }

// Node accepts a UUID as Ironic writes it, so that a node has one name.
func Node(node string) error {
	if id, err := uuid.Parse(node); err != nil || id.String() != node {
		return fmt.Errorf("node %q is not a UUID in lower case", node)
	}
	return nil
}

// maxProblems bounds how many contradictions Check names.
const maxProblems = 20

// Problems collects contradictions.
type Problems struct {
	list []error
	more int
}

// Addf notes a contradiction.
func (p *Problems) Addf(format string, args ...any) {
	if len(p.list) == maxProblems {
		p.more++
		return
	}
	p.list = append(p.list, fmt.Errorf(format, args...))
}

// Want notes a problem unless ok.
func (p *Problems) Want(ok bool, format string, args ...any) {
	if !ok {
		p.Addf(format, args...)
	}
}

// Invalid notes an error, if it is one, behind the words that say what it is of.
func (p *Problems) Invalid(err error, of string, args ...any) {
	if err != nil {
		p.Addf(of+"%v", append(args, err)...)
	}
}

// Err returns all that was noted as one error, nil if nothing was.
func (p *Problems) Err() error {
	if p.more > 0 {
		p.list = append(p.list, fmt.Errorf("and %d more", p.more))
	}
	return errors.Join(p.list...)
}
