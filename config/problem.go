package config

import (
	"fmt"
	"strings"
)

// Kind of place a value comes from. The zero Kind is the default.
type Kind uint8

// The places, weakest first.
const (
	FromDefault Kind = iota
	FromFile
	FromEnv
	FromFlag
)

// Origin is the place a value comes from.
type Origin struct {
	Kind Kind
	Name string // of the file, the variable or the flag
	Line int    // in the file, first is 1; 0 when it has none
}

// String names the place as a person would look for it: "trivet.yaml:12",
// "TRIVET_API_LISTEN", "--data-dir", "default".
func (o Origin) String() string {
	switch {
	case o.Kind == FromDefault:
		return "default"
	case o.Kind == FromFile && o.Line > 0:
		return fmt.Sprintf("%s:%d", o.Name, o.Line)
	}
	return o.Name
}

// Problem is one thing that is wrong, or worth a warning.
type Problem struct {
	Where Origin // FromDefault when nothing was written
	Key   string // path of the option; "" when it is about the file as a whole
	What  string // what is wrong
	Do    string // what to do about it
}

// String is "file:line: key: what is wrong; what to do".
func (p Problem) String() string {
	var b strings.Builder
	if p.Where.Kind != FromDefault {
		b.WriteString(p.Where.String() + ": ")
	}
	if p.Key != "" {
		b.WriteString(p.Key + ": ")
	}
	b.WriteString(p.What)
	if p.Do != "" {
		b.WriteString("; " + p.Do)
	}
	return b.String()
}

// Problems are all that is wrong, in the order of the sources and their lines.
type Problems []Problem

// Error lists the problems, one a line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// err is nil when there are none; a nil slice in an error interface is not nil.
func (ps Problems) err() error {
	if len(ps) == 0 {
		return nil
	}
	return ps
}

// fault is what is wrong with a value, before it is known where it stands.
type fault struct{ what, do string }

func (f *fault) at(where Origin, key string) Problem {
	return Problem{Where: where, Key: key, What: f.what, Do: f.do}
}
