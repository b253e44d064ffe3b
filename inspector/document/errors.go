package document

import (
	"fmt"
	"strings"
)

// Problem is a failure that is the data's or the node's own: the callback is answered 400 with the
// text as it is.
type Problem struct{ Text string }

// Error implements error.
func (p *Problem) Error() string { return p.Text }

// Failed makes a Problem.
func Failed(format string, args ...any) error { return &Problem{fmt.Sprintf(format, args...)} }

// Exception is a failure for which the contract has the name of one of the original's
// exceptions: the callback is answered 500 with both.
type Exception struct {
	Class string // as KeyError
	Text  string
}

// Error implements error.
func (e *Exception) Error() string { return e.Text }

// Raise fails as the original would: unexpectedly, with an exception of a class.
func Raise(class, format string, args ...any) error {
	return &Exception{Class: class, Text: fmt.Sprintf(format, args...)}
}

// maxQuoted is how much of a value a text of an error repeats, in bytes.
const maxQuoted = 512

// Clip makes a text of the data fit for the text of an error.
func Clip(text string) string {
	if len(text) <= maxQuoted {
		return text
	}
	return strings.ToValidUTF8(text[:maxQuoted], "") + "…"
}
