package hardware

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
)

const (
	// maxParts bounds the parts of one kind, as those of two documents are compared pair by
	// pair. Large servers have 96 memory modules, a few hundred disks with two paths to each, and
	// 300 PCI functions; virtual ones make thousands.
	maxParts = 4096
	// maxText bounds one value, in bytes; the longest that agents send is a path of
	// 120 bytes.
	maxText = 256
)

// value is a part of a document, as encoding/json decodes it. Its methods take
// what has another type than expected for what is not there.
type value struct{ v any }

// decodeDocument decodes a document. Numbers stay as they are written.
func decodeDocument(document []byte) (value, error) {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	var v map[string]any
	if err := decoder.Decode(&v); err != nil {
		return value{}, fmt.Errorf("read the document: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return value{}, errors.New("read the document: more follows its end")
	}
	return value{v}, nil
}

// at returns the member at a path such as inventory.boot.
func (v value) at(path string) value {
	for name := range strings.SplitSeq(path, ".") {
		members, _ := v.v.(map[string]any)
		v = value{members[name]}
	}
	return v
}

// list returns the elements of a list, and whether it is one.
func (v value) list() ([]value, bool) {
	elements, ok := v.v.([]any)
	list := make([]value, len(elements))
	for i := range list {
		list[i] = value{elements[i]}
	}
	return list, ok
}

// text returns a text, a number or a truth as a line of text, "" for all else.
func (v value) text() string {
	switch v := v.v.(type) {
	case string:
		return line(v)
	case json.Number:
		return clip(v.String())
	case bool:
		if v {
			return "yes"
		}
		return "no"
	default:
		return ""
	}
}

// line makes one line of a text: what is not printed is a space, and several are
// one, as makers fill serial numbers and models up.
func line(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(clip(text), " "))
	return strings.Join(strings.Fields(text), " ")
}

func clip(text string) string { return text[:min(len(text), maxText)] }
