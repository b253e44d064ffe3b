package rules

import (
	"errors"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/inspector"
)

const formatDocument = `{"i":42,"neg":-7,"f":3.14159,"s":"text","u":"hé","n":null,"t":true,"l":["a",{"b":"c"},3],"d":{"k":"v","0":"zero","a b":"sp"},"big":10000000000000000000000000,"zero":0,"fl":1e20,"sm":1e-7,"w":6,"e":"","z":-0.0,"mm":65536, "q":"it's", "wh":100.0}`

// Every format gives what str.format of Python 3.11 gives, and fails where it
// fails; a key that is not there, and an attribute, are the data's problem.
func TestFormatsArePythons(t *testing.T) {
	data := mustParse(t, formatDocument)
	for _, line := range vectors(t, "format.jsonl") {
		f, outcome := text(t, line[0]), text(t, line[1])
		got, err := format(f, data)
		var problem *inspector.Problem
		switch {
		case outcome == "OK":
			if want := text(t, line[2]); err != nil || got != want {
				t.Errorf("%q: %q, %v; want %q", f, got, err, want)
			}
		case text(t, line[2]) == "KeyError":
			want := "Invalid formatting variable key provided in value " + f + ": " + text(t, line[3])
			if !errors.As(err, &problem) || problem.Text != want {
				t.Errorf("%q: %q, %v, want %s", f, got, err, want)
			}
		case text(t, line[2]) == "AttributeError":
			if !errors.As(err, &problem) || !strings.Contains(problem.Text, "may not be read") {
				t.Errorf("%q: %q, %v", f, got, err)
			}
		default:
			if want := text(t, line[2]) + ": " + text(t, line[3]); exceptionText(err) != want {
				t.Errorf("%q: %q, %v, want %s", f, got, err, want)
			}
		}
	}
}
