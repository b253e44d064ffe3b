package cluster

import (
	"unicode/utf8"

	"github.com/trivet-ha/trivet/cli/term"
)

// canvas is the terminal that top draws on, with its keys. *term.FullScreen is one.
type canvas interface {
	Size() (cols, rows int)
	Draw(rows []string) error
	Keys() <-chan string
	Close() error // gives the terminal back; it may be called again
}

var _ canvas = (*term.FullScreen)(nil)

// markedRows are lines as rows of a terminal of so many columns.
func markedRows(lines []line, cols int, style term.Style) []string {
	return term.Each(lines, func(l line) string {
		row, left := "", cols
		for _, s := range l {
			text := term.Clipped(s.text, left)
			left -= utf8.RuneCountInString(text)
			row += markedAs(style, s.tone, text)
			if left == 0 || text != s.text {
				break // what follows has no room
			}
		}
		return row
	})
}

func markedAs(style term.Style, t tone, text string) string {
	switch t {
	case strong:
		return style.Bold(text)
	case doubtful:
		return style.Doubtful(text)
	case bad:
		return style.Bad(text)
	case inverse:
		return style.Inverse(text)
	}
	return text
}
