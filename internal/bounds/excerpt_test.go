package bounds

import (
	"strings"
	"testing"
)

// A text that fits stays, a longer one is cut between characters and marked, and what is
// no UTF-8 does not get through.
func TestExcerpt(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"", 4, ""},
		{"abcd", 4, "abcd"},
		{"abcde", 4, "a…"},
		{"éé", 4, "éé"},
		{"ééé", 5, "é…"},
		{"ééé", 4, "…"},
		{"a\xffb", 4, "a?b"},
		{"a\xffbcdef", 6, "a?b…"},
		{strings.Repeat("é", 9), 1, "…"},
	} {
		if got := Excerpt(c.text, c.most); got != c.want {
			t.Errorf("%q in %d bytes: %q, want %q", c.text, c.most, got, c.want)
		}
	}
}
