package cli

import (
	"io"
	"strings"
	"unicode/utf8"
)

// The values of --color.
const (
	colorAuto   = "auto" // on a terminal, unless NO_COLOR or TERM=dumb forbids it
	colorAlways = "always"
	colorNever  = "never"
)

var colorModes = []string{colorAuto, colorAlways, colorNever}

// SGR sequences of ECMA-48, which every terminal of the last decades knows.
const (
	sgrBold   = "\x1b[1m"
	sgrRed    = "\x1b[1;31m"
	sgrYellow = "\x1b[1;33m"
	sgrReset  = "\x1b[0m"
)

// style marks text for a terminal. The zero style returns text as it is. Tables
// align styled cells by what a reader sees of them.
type style struct{ on bool }

// styleOf decides whether text for w is styled.
func (p *program) styleOf(w io.Writer) style {
	switch p.color {
	case colorAlways:
		return style{on: true}
	case colorNever:
		return style{}
	}
	return style{on: p.variable("NO_COLOR", "") == "" && p.variable("TERM", "dumb") != "dumb" && isTerminal(w)}
}

// style is that of the data that a command prints.
func (p *program) style() style { return p.styleOf(p.out) }

// bad marks what is wrong: a person must act.
func (s style) bad(text string) string { return s.mark(sgrRed, text) }

// doubtful marks what may become wrong, or cannot be judged.
func (s style) doubtful(text string) string { return s.mark(sgrYellow, text) }

// bold marks the answer among the details.
func (s style) bold(text string) string { return s.mark(sgrBold, text) }

// mark leaves the empty text empty, so that callers can compare it.
func (s style) mark(sequence, text string) string {
	if !s.on || text == "" {
		return text
	}
	return sequence + text + sgrReset
}

// badIf marks text as bad where that is so.
func (s style) badIf(bad bool, text string) string {
	if bad {
		return s.bad(text)
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
