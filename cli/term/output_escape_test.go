package term

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// What a machine wrote steers no terminal, in no format, and is the same for a program.
func TestDocumentsSteerNoTerminal(t *testing.T) {
	for _, said := range []string{"plain ä 😀", "red \x1b[31m \x07", "back\u202efed", "c1 \u009b2J", "tag \U000e0041",
		"line\nand\ttab", "\u2066isolate\u200b"} {
		for format, decode := range map[string]func([]byte, any) error{"json": json.Unmarshal, "yaml": yaml.Unmarshal} {
			var out bytes.Buffer
			if err := (&Terminal{Out: &out, Format: format}).Show(map[string]string{"text": said}, nil); err != nil {
				t.Fatal(err)
			}
			if strings.ContainsFunc(out.String(), func(r rune) bool { return !steersNothing(r) }) {
				t.Errorf("output-escapes: %s prints %q", format, out.String())
			}
			var read map[string]string
			if err := decode(out.Bytes(), &read); err != nil || read["text"] != said {
				t.Errorf("output-escapes: %s of %q reads as %q, %v", format, said, read["text"], err)
			}
		}
	}
}
