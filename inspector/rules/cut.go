package rules

import (
	"encoding/json"
	"errors"

	"github.com/trivet-ha/trivet/inspector"
)

// maxDepth bounds how deep lists and dicts lie inside each other. A document of
// a ramdisk has less or it is refused; what Ironic tells of a node is not bounded
// elsewhere.
const maxDepth = 100

// errNotJSON is text that was not checked before it was cut.
var errNotJSON = errors.New("rules: a value is no JSON")

// part is one item of a list or dict as it is written.
type part struct{ name, value json.RawMessage } // no name: of a list

// cut appends the items of a list or dict to parts, and stops when there are
// more than most. Its text was checked, so what lies inside an item is stepped
// over by its brackets: package inspector checks all of it, again at each level
// into which rules look.
func cut(raw json.RawMessage, parts []part, most int) ([]part, error) {
	c := cutter{text: raw, at: 1}
	for len(parts) <= most {
		switch c.space(); c.peek() {
		case ']', '}':
			return parts, nil
		case ',':
			c.at++
			c.space()
		}
		var p part
		var err error
		if raw[0] == '{' {
			if p.name, err = c.item(); err != nil {
				return nil, err
			}
			c.space()
			c.at++ // the colon
			c.space()
		}
		if p.value, err = c.item(); err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// cutter steps over JSON text that was checked.
type cutter struct {
	text json.RawMessage
	at   int // offset of the next byte
}

// peek returns the next byte, 0 at the end.
func (c *cutter) peek() byte {
	if c.at < len(c.text) {
		return c.text[c.at]
	}
	return 0
}

func (c *cutter) space() {
	for b := c.peek(); b == ' ' || b == '\n' || b == '\r' || b == '\t'; b = c.peek() {
		c.at++
	}
}

// item steps over one value, which it returns.
func (c *cutter) item() (json.RawMessage, error) {
	from, end := c.at, c.at
	switch c.peek() {
	case '"':
		end = c.string(from)
	case '[', '{':
		var err error
		if end, err = c.nested(from); err != nil {
			return nil, err
		}
	default:
		for end < len(c.text) && !endsWord(c.text[end]) {
			end++
		}
	}
	if end == from || end > len(c.text) {
		return nil, errNotJSON
	}
	c.at = end
	return c.text[from:end:end], nil
}

// endsWord reports whether a byte stands behind a number, true, false or null.
func endsWord(b byte) bool {
	switch b {
	case ',', ':', ']', '}', ' ', '\n', '\r', '\t':
		return true
	}
	return false
}

// string returns where a string ends.
func (c *cutter) string(at int) int {
	for at++; at < len(c.text) && c.text[at] != '"'; at++ {
		if c.text[at] == '\\' {
			at++ // the byte after it ends no string
		}
	}
	return at + 1
}

// nested returns where a list or dict ends, which lies inside another one.
func (c *cutter) nested(at int) (end int, err error) {
	for depth := 1; at < len(c.text); {
		switch c.text[at] {
		case '"':
			at = c.string(at)
			continue
		case '[', '{':
			if depth++; depth > maxDepth {
				return 0, inspector.Failed("More than %d lists and dicts lie inside each other", maxDepth)
			}
		case ']', '}':
			if depth--; depth == 1 {
				return at + 1, nil
			}
		}
		at++
	}
	return 0, errNotJSON
}
