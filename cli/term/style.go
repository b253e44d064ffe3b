package term

import (
	"io"
	"strings"
	"unicode/utf8"
)

// The values of --color.
const (
	ColorAuto   = "auto" // on a terminal, unless NO_COLOR or TERM=dumb forbids it
	ColorAlways = "always"
	ColorNever  = "never"
)

// ColorModes are the values of --color.
var ColorModes = []string{ColorAuto, ColorAlways, ColorNever}

// SGR sequences of ECMA-48, which every terminal of the last decades knows.
const (
	sgrBold    = "\x1b[1m"
	sgrRed     = "\x1b[1;31m"
	sgrYellow  = "\x1b[1;33m"
	sgrInverse = "\x1b[7m"
	sgrReset   = "\x1b[0m"
)

// Style marks text for a terminal. The zero Style returns text as it is. Tables
// align styled cells by what a reader sees of them.
type Style struct{ on bool }

// StyleOf decides whether text for w is styled.
func (t *Terminal) StyleOf(w io.Writer) Style {
	switch t.Color {
	case ColorAlways:
		return Style{on: true}
	case ColorNever:
		return Style{}
	}
	return Style{on: t.Variable("NO_COLOR", "") == "" && t.Variable("TERM", "dumb") != "dumb" && IsTerminal(w)}
}

// Style is that of the data that a command prints.
func (t *Terminal) Style() Style { return t.StyleOf(t.Out) }

// Bad marks what is wrong: a person must act.
func (s Style) Bad(text string) string { return s.mark(sgrRed, text) }

// Doubtful marks what may become wrong, or cannot be judged.
func (s Style) Doubtful(text string) string { return s.mark(sgrYellow, text) }

// Bold marks the answer among the details.
func (s Style) Bold(text string) string { return s.mark(sgrBold, text) }

// Inverse marks a title.
func (s Style) Inverse(text string) string { return s.mark(sgrInverse, text) }

// mark leaves the empty text empty, so that callers can compare it.
func (s Style) mark(sequence, text string) string {
	if !s.on || text == "" {
		return text
	}
	return sequence + text + sgrReset
}

// BadIf marks text as bad where that is so.
func (s Style) BadIf(bad bool, text string) string {
	if bad {
		return s.Bad(text)
	}
	return text
}

// visibleWidth counts the characters of text without its SGR sequences.
func visibleWidth(text string) int {
	width := 0
	for text != "" {
		plain, rest, found := strings.Cut(text, "\x1b[")
		width += utf8.RuneCountInString(plain)
		if !found {
			break
		}
		_, text, _ = strings.Cut(rest, "m")
	}
	return width
}
