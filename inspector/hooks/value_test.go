package hooks

import (
	"encoding/json"
	"testing"
)

func TestQuotedAsPythonDoes(t *testing.T) {
	for text, want := range map[string]string{
		"eth0": `'eth0'`, "it's": `"it's"`, `a"b`: `'a"b'`, `it's "x"`: `'it\'s "x"'`, "a\\b\nc\x01\x7f": `'a\\b\nc\x01\x7f'`, "é": `'é'`, "": `''`,
	} {
		if got := quoted(text); got != want {
			t.Errorf("%q becomes %s, want %s", text, got, want)
		}
	}
}

func TestNothingIsEmpty(t *testing.T) {
	for text, want := range map[string]bool{
		``: true, `null`: true, `""`: true, `" "`: false, `[]`: true, "[ \n]": true, `[0]`: false, `{}`: true, `{ }`: true, `{"a":null}`: false,
		`true`: false, `false`: true, `0`: true, `-0.00e5`: true, `0e1`: true, `0.01`: false, `7`: false,
	} {
		if got := isEmpty(json.RawMessage(text)); got != want {
			t.Errorf("%q is empty: %v", text, got)
		}
	}
}
