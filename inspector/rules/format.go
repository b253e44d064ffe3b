package rules

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/trivet-ha/trivet/inspector/document"
)

// Bounds of formats.
const (
	maxFormatted = 64 << 10 // bytes of one text
	maxWidth     = 4096     // characters to which a value is padded
)

// format is a text with fields, which are filled in from the data. It is what
// published rules use of Python's str.format(data=…).
type format struct {
	text   string // all of it, for messages
	pieces []piece
}

// piece is literal text and the field behind it.
type piece struct {
	literal string
	isField bool
	keys    []string // of data[…][…]
	as      byte     // r or s, as behind !; 0: neither
	align   byte     // <, > or ^ in the width; 0: there is no width
	fill    rune
	width   int
}

// parseFormat reads a format. What this version cannot fill in is refused.
func parseFormat(text string) (format, error) {
	f := format{text: text}
	for rest := text; rest != ""; {
		at := strings.IndexAny(rest, "{}")
		if at < 0 {
			f.pieces = append(f.pieces, piece{literal: rest})
			break
		}
		if strings.HasPrefix(rest[at+1:], rest[at:at+1]) { // doubled, it is itself
			f.pieces = append(f.pieces, piece{literal: rest[:at+1]})
			rest = rest[at+2:]
			continue
		}
		p, after, ok := parsePiece(rest[at:])
		if !ok {
			return f,
				invalidf(
					"invalid value %s: cannot be read from %s on; a field is {data[key][0]}, with !s or !r and a width as :>8 behind it if need be, and a brace that is none is doubled",
					document.Clip(text), document.Clip(rest[at:]))
		}
		p.literal, rest = rest[:at], after
		f.pieces = append(f.pieces, p)
	}
	return f, nil
}

// parsePiece reads one field, from its brace on.
func parsePiece(text string) (p piece, rest string, ok bool) {
	p.isField = true
	if rest, ok = strings.CutPrefix(text, "{data"); !ok {
		return p, rest, false
	}
	for strings.HasPrefix(rest, "[") {
		key, after, closed := strings.Cut(rest[1:], "]")
		if key == "" || !closed {
			return p, rest, false
		}
		p.keys, rest = append(p.keys, key), after
	}
	if strings.HasPrefix(rest, "!r") || strings.HasPrefix(rest, "!s") {
		p.as, rest = rest[1], rest[2:]
	}
	padding, rest, ok := strings.Cut(rest, "}")
	return p, rest, ok && p.pad(padding)
}

// pad reads how wide a field is at least, as in :*>8. Nothing is any width.
func (p *piece) pad(text string) bool {
	text, there := strings.CutPrefix(text, ":")
	if !there || text == "" {
		return text == ""
	}
	p.fill = ' '
	if r, size := utf8.DecodeRuneInString(text); size < len(text) && strings.IndexByte("<>^", text[size]) >= 0 {
		p.fill, text = r, text[size:]
	}
	p.align = text[0]
	var err error
	p.width, err = strconv.Atoi(text[1:])
	return strings.IndexByte("<>^", p.align) >= 0 && isDigits(text[1:]) && text[1] > '0' && err == nil &&
		p.width <= maxWidth
}

func isDigits(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// fillIn returns the text with its fields filled in.
func (f format) fillIn(data *document.Value) (string, error) {
	var out strings.Builder
	for _, p := range f.pieces {
		out.WriteString(p.literal)
		if p.isField {
			filled, err := f.field(p, data)
			if err != nil {
				return "", err
			}
			out.WriteString(filled)
		}
		if out.Len() > maxFormatted {
			return "", document.Failed("The value %s has more than %d bytes when it is formatted", document.Clip(f.text),
				maxFormatted)
		}
	}
	return out.String(), nil
}

// field makes the text of one field.
func (f format) field(p piece, v *document.Value) (string, error) {
	for _, key := range p.keys {
		var err error
		if v, err = f.item(v, key); err != nil {
			return "", err
		}
	}
	if p.as == 'r' {
		text, err := document.Repr(v)
		return p.padded(text), err
	}
	if p.as == 0 && p.align != 0 {
		switch kind := v.Kind(); kind {
		case document.Bool:
			if v.Empty() {
				return p.padded("0"), nil
			}
			return p.padded("1"), nil
		case document.None, document.List, document.Dict:
			return "", document.Raise("TypeError", "unsupported format string passed to %v.__format__", kind)
		}
	}
	text, err := document.Str(v)
	return p.padded(text), err
}

// padded brings a text to the width.
func (p piece) padded(text string) string {
	missing := max(p.width-utf8.RuneCountInString(text), 0)
	before := map[byte]int{'>': missing, '^': missing / 2}[p.align]
	return strings.Repeat(string(p.fill), before) + text + strings.Repeat(string(p.fill), missing-before)
}

// unknown is the contract's text for a key that is not there.
func (f format) unknown(key string) error {
	return document.Failed("Invalid formatting variable key provided in value %s: %s", document.Clip(f.text),
		document.Clip(key))
}

// item is v[key], where digits are an index.
func (f format) item(v *document.Value, key string) (*document.Value, error) {
	isIndex := strings.Trim(key, "0123456789") == ""
	at, err := strconv.Atoi(key)
	if isIndex && err != nil {
		return nil, document.Raise("ValueError", "Too many decimal digits in format string")
	}
	of, listed := map[document.Kind]string{document.List: "list", document.Text: "string"}[v.Kind()]
	switch {
	case v.Kind() == document.Dict && isIndex:
		return nil, f.unknown(strconv.Itoa(at)) // JSON has no names that are numbers
	case v.Kind() == document.Dict:
		found, err := v.Member(key)
		if err == nil && found == nil {
			err = f.unknown(document.ReprText(key))
		}
		return found, err
	case !isIndex || !listed:
		return nil, noKeys(v)
	}
	found, err := element(v, at)
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, document.Raise("IndexError", "%s index out of range", of)
	}
	return found[0], nil
}

// formatAll fills in every text in a value: names and values of dicts, elements of
// lists.
func formatAll(v *document.Value, fillIn func(text string) (string, error)) (*document.Value, error) {
	switch v.Kind() {
	case document.Text:
		text, err := fillIn(v.Text())
		return document.OfText(text), err
	case document.List, document.Dict:
	default:
		return v, nil
	}
	inside, err := v.Split()
	if err != nil {
		return nil, err
	}
	whole := document.NewCollection(v.Kind())
	for name, kid := range inside.All() {
		if v.Kind() == document.Dict {
			if name, err = fillIn(name); err != nil {
				return nil, err
			}
		}
		formatted, err := formatAll(kid, fillIn)
		if err != nil {
			return nil, err
		}
		if err := addTo(whole, name, formatted); err != nil {
			return nil, err
		}
	}
	return document.Checked(whole.JSON()), nil
}

// addTo adds a value to a list or dict whose size is looked at with each, since a rule may name a
// long text thousands of times. Of a name that occurs twice the last value counts.
func addTo(c *document.Collection, name string, v *document.Value) error {
	c.Add(name, v.Raw())
	if c.Size() > 4*maxFormatted {
		return document.Failed("A value has more than %d bytes when it is formatted", 4*maxFormatted)
	}
	return nil
}
