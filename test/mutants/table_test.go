package main

import (
	"reflect"
	"strings"
	"testing"
)

func TestRowsAreRead(t *testing.T) {
	const text = `# These open the gate too early.

# A comment within.
mutant: token-not-compared
promise: 3
file: gate.go
test: . ^TestOldTokenStaysOut$
args: -short -count=3
says: an older token opened the gate: 3 < 4
 func open() bool {
-	return token >= floor
+	return true
 
 }

mutant: second
`
	rows, err := parseRows("gate.diff", []byte(text))
	want := []Mutant{{
		Name: "token-not-compared", Promise: "3", File: "gate.go",
		Old: "func open() bool {\n\treturn token >= floor\n\n}\n", New: "func open() bool {\n\treturn true\n\n}\n",
		Package: ".", Run: "^TestOldTokenStaysOut$", Args: []string{"-short", "-count=3"},
		Assertion: "an older token opened the gate: 3 < 4",
	}, {Name: "second"}}
	if err != nil || !reflect.DeepEqual(rows, want) {
		t.Errorf("%v\n%+v, want\n%+v", err, rows, want)
	}
}

func TestBadRowsAreNamed(t *testing.T) {
	for text, told := range map[string]string{
		"promise: 3\n":                    `gate.diff:1: a row begins with "mutant: NAME"`,
		"mutant: a\n\n-\tx\n":             `gate.diff:3: a row begins with "mutant: NAME"`,
		"mutant: a\nreason: b\n":          `gate.diff:2: "reason: b" is no line of a row`,
		"mutant: a\ntest: ./gate\n":       "gate.diff:2: a test is a package and a regular expression",
		"mutant: a\npromise: 3\nno row\n": `gate.diff:3: "no row" is no line of a row`,
	} {
		if _, err := parseRows("gate.diff", []byte(text)); err == nil || !strings.Contains(err.Error(), told) {
			t.Errorf("%q: %v, want %q", text, err, told)
		}
	}
}
