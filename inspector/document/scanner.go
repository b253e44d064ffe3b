package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// maxDepth bounds how deep arrays and objects lie inside each other. What
// ramdisks send has six levels.
const maxDepth = 100

// errEndsEarly is text that stops inside a value.
var errEndsEarly = errors.New("it ends too early")

// scanner reads JSON text (RFC 8259) from left to right, checking it, and
// splits it without decoding it: a callback's 30 KB are read several times on
// their way, and encoding/json takes about five times as long for each.
type scanner struct {
	text  []byte
	at    int // offset of the next byte
	depth int // arrays and objects around it
	// limits is set for text from outside.
	limits *jsonLimits
}

// Pick decodes some members of a JSON object as encoding/json does: those for
// whose name into returns a pointer. The others are stepped over; a name with
// escapes is none of those that are wanted.
func Pick(raw json.RawMessage, into func(name []byte) any) error {
	s := scanner{text: raw}
	return s.only(func() error {
		return s.object(func(quoted, value []byte) error {
			name := quoted[1 : len(quoted)-1]
			field := into(name)
			if field == nil {
				return nil
			}
			if err := json.Unmarshal(value, field); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	})
}

// only reads one thing with nothing but white space around it.
func (s *scanner) only(read func() error) error {
	s.space()
	if err := read(); err != nil {
		return err
	}
	s.space()
	if s.at < len(s.text) {
		return s.errorf("nothing may follow")
	}
	return nil
}

func (s *scanner) errorf(format string, args ...any) error {
	if s.at >= len(s.text) {
		return errEndsEarly
	}
	return fmt.Errorf("byte %d: %s", s.at+1, fmt.Sprintf(format, args...))
}

// peek returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return 0
}

func (s *scanner) space() {
	for s.at < len(s.text) && isSpace(s.text[s.at]) {
		s.at++
	}
}

func isSpace(b byte) bool { return b == ' ' || b == '\n' || b == '\r' || b == '\t' }

// accept steps over a byte if it comes next.
func (s *scanner) accept(b byte) bool {
	if s.at >= len(s.text) || s.text[s.at] != b {
		return false
	}
	s.at++
	return true
}

// value steps over one value.
func (s *scanner) value() error {
	switch b := s.peek(); {
	case b == '"':
		from := s.at
		if err := s.string(); err != nil || s.limits == nil {
			return err
		}
		return s.long(from)
	case b == '{':
		return s.object(nil)
	case b == '[':
		return s.array(nil)
	case b == '-' || isDigit(b):
		from := s.at
		if err := s.number(); err != nil || s.limits == nil {
			return err
		}
		return s.figure(from)
	case b == 't':
		return s.literal("true")
	case b == 'f':
		return s.literal("false")
	case b == 'n':
		return s.literal("null")
	default:
		return s.errorf("expected a value")
	}
}

// object steps over an object and passes its members to each, if that is not nil:
// each name as it stands, in quotes.
func (s *scanner) object(each func(quoted, value []byte) error) error {
	var names *objectNames
	if s.limits != nil {
		names = s.limits.enter()
		defer s.limits.leave(names)
	}
	return s.nested('{', '}', func() error {
		from := s.at
		if err := s.string(); err != nil {
			return err
		}
		name := s.text[from:s.at]
		if s.limits != nil {
			if err := s.member(names, name); err != nil {
				return err
			}
		}
		s.space()
		if !s.accept(':') {
			return s.errorf("expected a colon")
		}
		s.space()
		from = s.at
		if err := s.value(); err != nil {
			return err
		}
		if each == nil {
			return nil
		}
		return each(name, s.text[from:s.at:s.at])
	})
}

// array steps over an array and passes its elements to each, if that is not nil.
// They have no names.
func (s *scanner) array(each func(none, value []byte) error) error {
	return s.nested('[', ']', func() error {
		from := s.at
		if err := s.value(); err != nil || each == nil {
			return err
		}
		return each(nil, s.text[from:s.at:s.at])
	})
}

// nested steps over a list of items with commas between them.
func (s *scanner) nested(open, shut byte, item func() error) error {
	if !s.accept(open) {
		return s.errorf("expected %q", string(open))
	}
	if s.depth == maxDepth {
		return s.errorf("more than %d arrays and objects inside each other", maxDepth)
	}
	s.depth++
	defer func() { s.depth-- }()
	s.space()
	if s.accept(shut) {
		return nil
	}
	for {
		s.space()
		if err := item(); err != nil {
			return err
		}
		s.space()
		if s.accept(shut) {
			return nil
		}
		if !s.accept(',') {
			return s.errorf("expected a comma or %q", string(shut))
		}
	}
}

// string steps over a string.
func (s *scanner) string() error {
	if !s.accept('"') {
		return s.errorf("expected a string")
	}
	for {
		at := s.at // a variable of its own makes the loop twice as fast
		for at < len(s.text) && s.text[at] >= ' ' && s.text[at] != '"' && s.text[at] != '\\' {
			at++
		}
		s.at = at
		switch {
		case s.accept('"'):
			return nil
		case s.peek() != '\\':
			return s.errorf("a control character inside a string")
		}
		if err := s.escape(); err != nil {
			return err
		}
	}
}

func (s *scanner) escape() error {
	s.at++
	switch s.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.at++
		return nil
	case 'u':
		s.at++
		for range 4 {
			if !isHex(s.peek()) {
				return s.errorf("expected four hexadecimal digits")
			}
			s.at++
		}
		return nil
	default:
		return s.errorf("no such escape")
	}
}

// number steps over a number; how large it is does not matter here.
func (s *scanner) number() error {
	s.accept('-')
	if !s.accept('0') {
		if err := s.digits(); err != nil {
			return err
		}
	}
	if s.accept('.') {
		if err := s.digits(); err != nil {
			return err
		}
	}
	if b := s.peek(); b == 'e' || b == 'E' {
		s.at++
		if !s.accept('+') {
			s.accept('-')
		}
		return s.digits()
	}
	return nil
}

// digits steps over at least one digit.
func (s *scanner) digits() error {
	if !isDigit(s.peek()) {
		return s.errorf("expected a digit")
	}
	for isDigit(s.peek()) {
		s.at++
	}
	return nil
}

func (s *scanner) literal(word string) error {
	if !bytes.HasPrefix(s.text[s.at:], []byte(word)) {
		if len(s.text)-s.at < len(word) && bytes.HasPrefix([]byte(word), s.text[s.at:]) {
			return errEndsEarly
		}
		return s.errorf("expected a value")
	}
	s.at += len(word)
	return nil
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

func isHex(b byte) bool {
	return isDigit(b) || 'a' <= b && b <= 'f' || 'A' <= b && b <= 'F'
}

// appendCompact appends a value that was stepped over, without its white space.
func appendCompact(out, value []byte) []byte {
	from, inside := 0, false
	for i := 0; i < len(value); i++ {
		switch b := value[i]; {
		case b == '"':
			inside = !inside
		case inside && b == '\\':
			i++ // the byte after it ends no string
		case !inside && isSpace(b):
			out = append(out, value[from:i]...)
			from = i + 1
		}
	}
	return append(out, value[from:]...)
}

// Bounds of documents from outside, besides those of all JSON. What ramdisks
// send has a few thousand members, and no text of more than a page but its logs.
const (
	maxMembers = 100_000 // of all objects
	maxKeys    = 1000    // of the document itself
	maxString  = 1 << 20 // bytes of a string
	maxFigures = 400     // bytes of a number: more than a float64 needs
	safeDigits = 300     // that cannot be out of its range without an exponent
	fewNames   = 32      // that are compared one by one
)

// jsonLimits is what text from outside must keep besides the grammar: what everybody
// who reads it later takes for granted. It belongs to a scanner.
type jsonLimits struct {
	members int
	names   [][]byte // of the objects around the scanner's place, outermost first
	logs    bool     // the value comes next that may be long
}

// objectNames are the names of one object so far.
type objectNames struct {
	base int             // of its names in jsonLimits.names
	many map[string]bool // once they are more than a few
}

// enter begins an object, and leave ends it.
func (d *jsonLimits) enter() *objectNames { return &objectNames{base: len(d.names)} }

func (d *jsonLimits) leave(o *objectNames) { d.names = d.names[:o.base] }

// member checks a name, which the scanner has just stepped over.
func (s *scanner) member(o *objectNames, name []byte) error {
	d := s.limits
	if d.members++; d.members > maxMembers {
		return s.errorf("more than %d members of objects", maxMembers)
	}
	if bytes.IndexByte(name, '\\') >= 0 {
		name = strconv.AppendQuote(nil, unquote(name))
	}
	if o.known(d.names[o.base:], name) {
		return s.errorf("the key %.100s is there twice", name)
	}
	d.names = append(d.names, name)
	if s.depth == 1 && len(d.names) > maxKeys {
		return s.errorf("more than %d keys", maxKeys)
	}
	d.logs = s.depth == 1 && string(name) == `"`+Logs+`"`
	return nil
}

// known reports whether an object has a name already.
func (o *objectNames) known(names [][]byte, name []byte) bool {
	if len(names) < fewNames {
		for _, other := range names {
			if bytes.Equal(other, name) {
				return true
			}
		}
		return false
	}
	if o.many == nil {
		o.many = make(map[string]bool)
		for _, other := range names {
			o.many[string(other)] = true
		}
	}
	known := o.many[string(name)]
	o.many[string(name)] = true
	return known
}

// long checks a string that begins at from, which the scanner has just stepped
// over.
func (s *scanner) long(from int) error {
	if s.at-from <= maxString || s.limits.logs && s.depth == 1 {
		return nil
	}
	return s.errorf("a string of more than %d bytes", maxString)
}

// figure checks a number likewise.
func (s *scanner) figure(from int) error {
	number := s.text[from:s.at]
	if len(number) > maxFigures {
		return s.errorf("a number of more than %d digits", maxFigures)
	}
	if len(number) > safeDigits || bytes.ContainsAny(number, "eE") {
		if _, err := strconv.ParseFloat(string(number), 64); err != nil {
			return s.errorf("the number %.50s is out of range", number)
		}
	}
	return nil
}
