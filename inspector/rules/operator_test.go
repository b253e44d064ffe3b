package rules

import (
	"fmt"
	"strings"
	"testing"
)

func operatorNamed(t testing.TB, name string) operator {
	t.Helper()
	for _, o := range operators {
		if o.name == name {
			return o
		}
	}
	t.Fatal(name)
	return operator{}
}

// Every operator decides as the original does, and fails where it fails.
func TestOperatorsAreTheOriginals(t *testing.T) {
	for _, line := range vectors(t, "operators.jsonl") {
		name, want, field, outcome := text(t, line[0]), mustParse(t, string(line[1])), mustParse(t, string(line[2])), string(line[3])
		room := maxProgram
		check, err := operatorNamed(t, name).prepare(want, &room)
		if err != nil {
			t.Errorf("%s %s: %v", name, line[1], err)
			continue
		}
		holds, err := check(field)
		got := fmt.Sprint(holds)
		if err != nil {
			got = `"EXC ` + exceptionText(err) + `"`
		}
		if got != outcome && !known(name, line[1], line[2]) && "\"EXC "+exceptionText(err)+"\"" != strings.ReplaceAll(outcome, `\"`, `"`) {
			t.Errorf("%s %s of %s: %s, want %s", name, line[1], line[2], got, outcome)
		}
	}
}

// known are departures: an empty pattern is no IndexError, and digits are ASCII.
func known(name string, want, field []byte) bool {
	return name == "matches" && string(want) == `""` || name == "eq" && string(field) == `"\u0663"`
}
