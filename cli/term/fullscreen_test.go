package term

import (
	"slices"
	"strings"
	"testing"
)

func TestKeysAreNamed(t *testing.T) {
	for typed, want := range map[string]string{
		"q":                      "q",
		"/aé机\x7f\r":             "/ a é 机 rub out enter",
		"\x1b":                   KeyEscape,
		"\x1b[A\x1bOB\x1b[5~":    "up down page up",
		"\x1b[6~\x1b[H\x1b[4~":   "page down home end",
		"\x03":                   KeyInterrupt,
		"\x1b[1;5A\x1b[200~q":    "q", // with Ctrl; a paste begins
		"\x1b[":                  "escape [",
		"\x1bO":                  "escape O",
		"\x1b[999999999":         "",
		"\xff\x00\x01\t\u202eq":  "q",
		"\x1b[?1;2c\x1b[24;80Rx": "x", // answers of a terminal
	} {
		if got := strings.Join(keysOf(typed), " "); got != want {
			t.Errorf("keys-are-named: %q: %q, want %q", typed, got, want)
		}
	}
}

// FuzzKeys: no key steers a terminal, and each byte is looked at once.
func FuzzKeys(f *testing.F) {
	f.Add("\x1b[A\x1b")
	f.Fuzz(func(t *testing.T, typed string) {
		for _, key := range keysOf(typed) {
			if key == "" || key != string(Escaped([]byte(key))) {
				t.Errorf("%q of %q", key, typed)
			}
		}
	})
}

func TestEverySequenceIsOneKey(t *testing.T) {
	var all, want []string
	for typed, key := range sequences() {
		all, want = append(all, typed), append(want, key)
	}
	if got := keysOf(strings.Join(all, "")); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
