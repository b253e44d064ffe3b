package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/inspector/document"
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
		name, want, field, outcome := text(t, line[0]), mustParse(t, string(line[1])), mustParse(t, string(line[2])),
			string(line[3])
		room := maxProgram
		check, err := operatorNamed(t, name).prepare(want, &room)
		if refused(string(line[1])) {
			if err == nil {
				t.Errorf("%s %s is taken", name, line[1])
			}
			continue
		}
		if err != nil {
			t.Errorf("%s %s: %v", name, line[1], err)
			continue
		}
		holds, err := check(field)
		got := fmt.Sprint(holds)
		if err != nil {
			got = `"EXC ` + exceptionText(err) + `"`
		}
		if got != outcome && !known(name, line[1], line[2]) &&
			"\"EXC "+exceptionText(err)+"\"" != strings.ReplaceAll(outcome, `\"`, `"`) {
			t.Errorf("%s %s of %s: %s, want %s", name, line[1], line[2], got, outcome)
		}
	}
}

// known are departures: an empty pattern is no IndexError, and digits are ASCII.
func known(name string, want, field []byte) bool {
	return name == "matches" && string(want) == `""` || name == "eq" && string(field) == `"\u0663"`
}

// refused are patterns that RE2 does not take.
func refused(want string) bool {
	return slices.Contains([]string{`"[^\\W_]+"`, `"(?x) a b # c"`, `"\\u0041"`, `"[\\b]"`}, want)
}

// A pattern that RE2 takes means what it means to Python.
func TestPatternsArePythons(t *testing.T) {
	for _, c := range []struct {
		op, pattern, text string
		want              bool
	}{
		{"contains", `^\w+\s\w+$`, "Straße\u00a0é", true}, {"contains", `^[\w\s.-]+$`, "ß\u3000.-", true},
		{"contains", `\D`, "٣", false},
		{"contains", `\W`, "é_٣", false}, {"contains", `\S`, "\u00a0\v", false}, {"contains", `[^\d]`, "٣", false},
		{"contains", `\\d`, `\d`, true},
		{"matches", "a", "a\n", true}, {"matches", "a", "a\n\n", false}, {"matches", "a$|b", "ax", false},
		{"contains", "(?m)^b$", "a\nb\nc", true}, {"contains", "^b$", "a\nb\nc", false},
		{"contains", `a\Z`, "a\n", false}, {"contains", `a\$$`, "a$", true}, {"contains", "[$]", "$", true},
		{"contains", `[\]$]a`, "]a", true},
		{"contains", "^a{,2}$", "aaa", false}, {"contains", "^a{,}$", "aaa", true}, {"contains", "a{,b}", "a{,b}", true},
		{"contains", `\{,2}`, "{,2}", true},
		{"contains", "[[:digit:]]", "1", false}, {"contains", "[]-a]", "^", true}, {"contains", "[^]]", "]", false},
		{"contains", "(?i)É", "é", true},
		{"matches", "a|b", "axx", true}, {"matches", "a|b", "bxx", false}, {"matches", "(?i)A|B", "b", true},
		{"contains", "(?i:A)b", "aB", false},
	} {
		room := maxProgram
		check, err := operatorNamed(t, c.op).prepare(document.OfText(c.pattern), &room)
		if err != nil {
			t.Errorf("%s: %v", c.pattern, err)
			continue
		}
		if got, err := check(document.OfText(c.text)); err != nil || got != c.want {
			t.Errorf("%q %s %s: %v, %v", c.text, c.op, c.pattern, got, err)
		}
	}
}

// What a pattern may not have is refused when the rule is made, with what it may.
func TestPatternsThatRE2HasNot(t *testing.T) {
	const may = "value has the syntax of RE2: write it without"
	for pattern, want := range map[string]string{
		"a(?=b)": "(?=", "a(?!b)": "(?!", "(?<=a)b": "(?<=", "(?<!a)b": "(?<!", `(a)\1`: `\1`, "(?P<n>a)(?P=n)": "(?P",
		"(?>a)":         "(?>",
		"(a)?(?(1)b|c)": "(?(", "a++": "++", "a{1,2}+": "{1,2}+", "a?+": "?+", `\N{DIGIT ONE}`: `\N`, "(?x)a b": "(?x",
		"(?a)a": "(?a", "a(?#b)": "(?#",
		`[\S\s]`: `\S is not supported at position 1`, `é[^\W]`: `\W is not supported at position 3`, `[a\D]`: `\D`,
		`\Qa$\E`: `\Q`, `[\Z]`: `\z`, `\q`: `\q`,
		`a\`: "trailing backslash", "a)(b": "unexpected )",
		"é(?i)b": "global flags not at the start of the expression at position 1", "(": "missing closing )",
	} {
		for _, op := range []string{"matches", "contains"} {
			_, err := Parse(fmt.Appendf(nil,
				`{"actions":[{"action":"example"}],"conditions":[{"op":%q,"field":"a","value":%s}]}`, op, document.Quote(pattern)))
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), may) ||
				!strings.Contains(err.Error(), "operator "+op) {
				t.Errorf("%s: %v", pattern, err)
			}
		}
	}
}
