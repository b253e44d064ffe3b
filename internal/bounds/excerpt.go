// Package bounds reads and quotes what others wrote within bounds: small files, and excerpts of texts.
package bounds

import (
	"strings"
	"unicode/utf8"
)

// mark stands for what was cut off.
const mark = "…"

// Excerpt returns a text as valid UTF-8. Of one that has more than most bytes it returns the
// beginning, cut between characters, and a mark within those bytes.
func Excerpt(text string, most int) string {
	if len(text) <= most {
		return strings.ToValidUTF8(text, "?")
	}
	end := max(most-len(mark), 0)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.ToValidUTF8(text[:end], "?") + mark
}
