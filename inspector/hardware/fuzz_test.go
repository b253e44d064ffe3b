package hardware_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/trivet-ha/trivet/inspector/hardware"
)

// FuzzDocument reads what a lying ramdisk sends: nothing panics, what is told is
// printable and bounded, and a document does not differ from itself.
func FuzzDocument(f *testing.F) {
	f.Add(raw())
	f.Add(
		[]byte(
			`{"inventory": {"disks": [{"serial": "a\u001b[2J"}, {"serial": 1e999}, null, []], "interfaces": {}}, "data": [[["memory"], "bank:0"]], "extra": {"memory": {"bank:0": {"size": {}}}}}`))
	f.Fuzz(func(t *testing.T, document []byte) {
		m, err := hardware.Of(document)
		if err != nil {
			return
		}
		for _, p := range m.Parts {
			if text := p.Name(); strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) ||
				len(text) > 2048 {
				t.Errorf("a part is called %q", text)
			}
		}
		if changes := hardware.Compare(m, m); len(changes) > 0 {
			t.Errorf("a document differs from itself: %v", changes)
		}
	})
}
