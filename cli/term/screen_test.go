package term

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
)

// steering are texts that machines may write, with all that makes a terminal do more than show.
var steering = []string{
	"\x1b]0;title\x07", "\x1b[2J", "\x1b[8m", "c1 \u009b2J", "back\u202efed", "\u2066isolate\u2069",
	"zero\u200bwidth\u200d\ufeff", "del \x7f\b", "tag \U000e0041", "\u2028line",
	"\x00nul",
}

// Nothing that is written to a terminal steers it, by whichever method, in whichever pieces.
// A document that is JSON is the same document there.
func TestScreenIsNotSteered(t *testing.T) {
	for _, said := range steering {
		document, err := json.Marshal(map[string]string{"text": said})
		if err != nil {
			t.Fatal(err)
		}
		raw := bytes.NewBufferString("{\"text\":\r\n\"")
		for _, r := range said { // JSON allows all but the lowest as they are
			if r < ' ' {
				piece, _ := json.Marshal(string(r))
				raw.Write(piece[1 : len(piece)-1])
			} else {
				raw.WriteRune(r)
			}
		}
		raw.WriteString("\"}\r\n")
		for name, text := range map[string]string{"text": said, "document": string(document), "raw document": raw.String(),
			"latin 1": "\x9b2J"} {
			for method, write := range map[string]func(*screen) error{
				"write":   func(s *screen) error { _, err := s.Write([]byte(text)); return err },
				"string":  func(s *screen) error { _, err := io.WriteString(s, text); return err },
				"copy":    func(s *screen) error { _, err := io.Copy(s, struct{ io.Reader }{strings.NewReader(text)}); return err },
				"letters": func(s *screen) error { return inLetters(s, text) },
			} {
				var out bytes.Buffer
				if err := write(&screen{out: &out}); err != nil {
					t.Error(err)
				}
				if strings.ContainsFunc(out.String(), func(r rune) bool { return !steersNothing(r) }) {
					t.Errorf("screen: %s, %s: %q came through as %q", name, method, text, out.String())
				}
				var read map[string]string
				if name == "raw document" && (json.Unmarshal(out.Bytes(), &read) != nil || read["text"] != said) {
					t.Errorf("screen: %s: the document %q reads as %q", method, out.String(), read["text"])
				}
			}
		}
	}
}

func inLetters(w io.Writer, text string) error {
	for i := range len(text) {
		if n, err := w.Write([]byte{text[i]}); err != nil || n != 1 {
			return err
		}
	}
	return nil
}

// What this package itself writes comes through.
func TestScreenShowsItsOwn(t *testing.T) {
	style := Style{on: true}
	want := "\r\x1b[K" + style.Bad("bad") + style.Doubtful("ä") + style.Bold("😀") + "\ttab\n"
	var out bytes.Buffer
	if _, err := io.WriteString(&screen{out: &out}, want); err != nil || out.String() != want {
		t.Errorf("%q, %v", out.String(), err)
	}
	if w := OnScreen(&out); w != io.Writer(&out) || OffScreen(w) != w {
		t.Error("what is no terminal is not written to as it is")
	}
}
