package rules

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/inspector/document"
)

const formatDocument = `{"i":42,"neg":-7,"f":3.14159,"s":"text","u":"hé","n":null,"t":true,"l":["a",{"b":"c"},3],"d":{"k":"v","0":"zero","a b":"sp"},"big":10000000000000000000000000,"zero":0,"fl":1e20,"sm":1e-7,"w":6,"e":"","z":-0.0,"mm":65536, "q":"it's", "wh":100.0}`

// Every format that is taken gives what str.format of Python 3.11 gives, and fails
// where it fails; a key that is not there is the data's problem. All others are
// refused when the rule is made.
func TestFormatsArePythons(t *testing.T) {
	data, taken := mustParse(t, formatDocument), 0
	simple := regexp.MustCompile(`^([^{}]|{{|}}|{data(\[[^]]+\])*(![rs])?(:([^{}]?[<>^][1-9]\d*)?)?})*$`)
	for _, line := range vectors(t, "format.jsonl") {
		source, outcome := text(t, line[0]), text(t, line[1])
		f, err := parseFormat(source)
		if !simple.MatchString(source) {
			_, made := Parse(fmt.Appendf(nil, `{"actions":[{"action":"set-attribute","path":"/a","value":{"k":[%s]}}]}`,
				line[0]))
			if err == nil || made == nil ||
				!strings.Contains(made.Error(), "invalid value "+source+": cannot be read from {") &&
					!strings.Contains(made.Error(), "cannot be read from }") {
				t.Errorf("%q: %v, %v", source, err, made)
			}
			continue
		}
		if taken++; err != nil {
			t.Errorf("%q is refused: %v", source, err)
			continue
		}
		got, err := f.fillIn(data)
		if outcome == "OK" {
			outcome = text(t, line[2])
			if err != nil || got != outcome {
				t.Errorf("%q: %q, %v; want %q", source, got, err, outcome)
			}
			continue
		}
		want := text(t, line[2]) + ": " + text(t, line[3])
		key, isKey := strings.CutPrefix(want, "KeyError: ")
		var problem *document.Problem
		switch {
		case isKey && (!errors.As(err, &problem) ||
			problem.Text != "Invalid formatting variable key provided in value "+source+": "+key):
			t.Errorf("%q: %q, %v, want the key %s", source, got, err, key)
		case !isKey && exceptionText(err) != want:
			t.Errorf("%q: %q, %v, want %s", source, got, err, want)
		}
	}
	if taken < 60 {
		t.Errorf("%d formats are taken", taken)
	}
}

// A width is bounded, and what a width may be.
func TestWidths(t *testing.T) {
	for text, want := range map[string]string{
		"{data[i]:>4096}": strings.Repeat(" ", 4094) + "42", "{data[s]:é^7}": "étexté" + "é", "{data[t]:<3}|": "1  |",
		"{data[t]!s:<5}|": "True |", "{data[s]:>2}": "text",
		"{data[i]:>4097}": "", "{data[i]:>04}": "", "{data[i]:>}": "", "{data[i]:8}": "", "{data[i]:>+8}": "",
		"{data[i]:>99999999999999999999}": "", "{data[i]:>8d}": "", "{data[i]:=8}": "",
	} {
		f, err := parseFormat(text)
		if want == "" {
			if err == nil {
				t.Errorf("%s is taken", text)
			}
			continue
		}
		if got, failed := f.fillIn(mustParse(t, formatDocument)); err != nil || failed != nil || got != want {
			t.Errorf("%s: %q, %v, %v", text, got, err, failed)
		}
	}
}

// A value that has become too large is not formatted to its end: a rule that names a long
// text thousands of times costs no more than its bound, also in lists of lists.
func TestFormattingEndsAtItsBound(t *testing.T) {
	long := strings.Repeat("x", maxFormatted)
	for shape, element := range map[string]string{
		"[%s]": `"{data[t]}"`, "{%s}": `"name-%d":"{data[t]}"`, "[[],%s]": `["{data[t]}"]`,
	} {
		var elements []string
		for i := range 1000 {
			elements = append(elements, strings.ReplaceAll(element, "%d", strconv.Itoa(i)))
		}
		value := fmt.Sprintf(shape, strings.Join(elements, ","))
		calls := 0
		_, err := formatAll(mustParse(t, value), func(text string) (string, error) {
			if calls++; text == "{data[t]}" {
				return long, nil
			}
			return text, nil
		})
		if err == nil || !strings.Contains(err.Error(), "when it is formatted") || calls > 10 {
			t.Errorf("%s: %d texts were formatted, %v", shape, calls, err)
		}
	}
}
