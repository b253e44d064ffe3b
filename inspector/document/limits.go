package document

import (
	"bytes"
	"strconv"
)

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
