package rules

import (
	"fmt"
	"regexp/syntax"
	"strings"
)

// What \d, \w and \s stand for inside a class: in Python's patterns, unlike in
// RE2's, they are about Unicode.
const (
	digits      = `\p{Nd}`
	asciiDigits = `0-9`
	words       = `\p{L}\p{N}_`
	asciiWords  = `0-9A-Za-z_`
	spaces      = `\t-\r\x{1c}-\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}`
	asciiSpaces = `\t-\r\x{20}`
)

// members returns what a category's small letter stands for inside a class.
func members(r rune, ascii bool) string {
	switch {
	case r == 'd' && ascii:
		return asciiDigits
	case r == 'd':
		return digits
	case r == 'w' && ascii:
		return asciiWords
	case r == 'w':
		return words
	case ascii:
		return asciiSpaces
	default:
		return spaces
	}
}

// category returns the class of \d, \D, \w, \W, \s or \S.
func category(r rune, ascii bool) string {
	if r < 'a' {
		return "[^" + members(r|0x20, ascii) + "]"
	}
	return "[" + members(r, ascii) + "]"
}

// class reads a set of characters.
func (t *translator) class(m modes) error {
	at := t.at
	t.at++
	var set strings.Builder
	set.WriteByte('[')
	if t.has("^") {
		set.WriteByte('^')
	}
	for first := true; ; first = false {
		switch {
		case t.at >= len(t.text):
			return t.errorf(at, "unterminated character set")
		case !first && t.has("]"):
			t.out.WriteString(set.String() + "]")
			return nil
		}
		if err := t.span(&set, m); err != nil {
			return err
		}
	}
}

// span reads one character, category, or range of a class.
func (t *translator) span(set *strings.Builder, m modes) error {
	at := t.at
	low, isCategory, err := t.end(set, m)
	if err != nil {
		return err
	}
	if t.peek(0) != '-' || t.peek(1) == ']' || t.peek(1) == 0 {
		if !isCategory {
			fmt.Fprintf(set, `\x{%x}`, low)
		}
		return nil
	}
	t.at++
	high, alsoCategory, err := t.end(set, m)
	if err != nil {
		return err
	}
	if isCategory || alsoCategory || high < low {
		return t.errorf(at, "bad character range %s", string(t.text[at:t.at]))
	}
	fmt.Fprintf(set, `\x{%x}-\x{%x}`, low, high)
	return nil
}

// end reads one end of a range: a character, or a category, which is added to
// the set at once.
func (t *translator) end(set *strings.Builder, m modes) (r rune, isCategory bool, err error) {
	r = t.peek(0)
	if r != '\\' {
		t.at++
		return r, false, nil
	}
	switch escaped := t.peek(1); {
	case escaped == 'b':
		t.at += 2
		return '\b', false, nil
	case escaped != 0 && strings.ContainsRune("dws", escaped):
		set.WriteString(members(escaped, m.ascii))
		t.at += 2
		return 0, true, nil
	case escaped != 0 && strings.ContainsRune("DWS", escaped):
		set.WriteString(others(escaped|0x20, m.ascii))
		t.at += 2
		return 0, true, nil
	}
	r, err = t.character()
	return r, false, err
}

// others writes out what a category does not hold: RE2 has no name for that
// inside a class.
func others(r rune, ascii bool) string {
	class, err := syntax.Parse("[^"+members(r, ascii)+"]", syntax.Perl)
	if err != nil {
		return "" // the classes above are all well formed, see the tests
	}
	var set strings.Builder
	for i := 0; i+1 < len(class.Rune); i += 2 {
		fmt.Fprintf(&set, `\x{%x}-\x{%x}`, class.Rune[i], class.Rune[i+1])
	}
	return set.String()
}
