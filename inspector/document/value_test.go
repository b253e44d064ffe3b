package document

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestNothingIsEmpty(t *testing.T) {
	for text, want := range map[string]bool{
		`null`: true, `""`: true, `" "`: false, `[]`: true, "[ \n]": true, `[0]`: false, `{}`: true, `{ }`: true,
		`{"a":null}`: false,
		`true`:       false, `false`: true, `0`: true, `-0.00e5`: true, `0e1`: true, `0.01`: false, `7`: false,
	} {
		if got := Checked(json.RawMessage(text)).Empty(); got != want {
			t.Errorf("%q is empty: %v", text, got)
		}
	}
}

func TestTextsArePrintedAsByPython(t *testing.T) {
	for text, want := range map[string]string{
		"eth0": `'eth0'`, "it's": `"it's"`, `a"b`: `'a"b'`, `it's "x"`: `'it\'s "x"'`,
		"a\\b\n\t\rc\x01\x7f": `'a\\b\n\t\rc\x01\x7f'`, "é\u00ad\u2028\U000e0001": `'é\xad\u2028\U000e0001'`, "": `''`,
	} {
		if got := ReprText(text); got != want {
			t.Errorf("%q becomes %s, want %s", text, got, want)
		}
	}
}

// What rules look at of one document is bounded, and so is the depth.
func TestSplitIsBounded(t *testing.T) {
	var problem *Problem
	many := json.RawMessage("[" + strings.Repeat("1,", maxValues) + "1]")
	if _, err := Bounded(many).Split(); !errors.As(err, &problem) ||
		!strings.Contains(problem.Text, "more than 500000 values") {
		t.Error(err)
	}
	if parts, err := Checked(many).Split(); err != nil || len(parts.Values) != maxValues+1 {
		t.Error(err)
	}
	parts, err := Bounded(json.RawMessage(`[` + strings.Repeat("[1,1,1],", maxValues/4) + `1]`)).Split()
	if err != nil {
		t.Fatal(err)
	}
	split := 0
	for _, part := range parts.Values {
		if _, err := part.Split(); err != nil {
			break
		}
		split++
	}
	if want := (maxValues - maxValues/4 - 1) / 3; split != want {
		t.Errorf("%d lists were split, want %d", split, want)
	}
	for depth, fine := range map[int]bool{maxDepth: true, maxDepth + 1: false} {
		_, err := Checked(json.RawMessage(strings.Repeat("[", depth) + strings.Repeat("]", depth))).Split()
		if (err == nil) != fine || err != nil && !errors.As(err, &problem) {
			t.Errorf("%d lists inside each other: %v", depth, err)
		}
	}
}
