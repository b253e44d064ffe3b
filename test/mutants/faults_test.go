package main

import (
	"bytes"
	"flag"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of docs/faults.md again")

// leastFaults is how many the record had when it was begun: a fault does not leave it.
const leastFaults = 192

// TestRecordOfFaults: each row is whole, each number stands once and none was left out,
// as it is when a row is removed, and each mutant is in the table and shows one fault.
func TestRecordOfFaults(t *testing.T) {
	faults := theRecord(t)
	if len(faults) < leastFaults {
		t.Errorf("%d faults are recorded; there were %d: a row stays, and says why its fault is not shown", len(faults),
			leastFaults)
	}
	mutants := theTable(t)
	commit := regexp.MustCompile("^[0-9a-f]{8} [^`|]+: [^`|]+$")
	shown := make(map[string]int)
	numbers := make([]int, 0, len(faults))
	for _, f := range faults {
		numbers = append(numbers, f.Number)
		if _, known := finder(f.Found); !known {
			t.Errorf("fault %d: found by %q, which is no word of finders", f.Number, f.Found)
		}
		if f.Part == "" || !strings.HasSuffix(f.Could, ".") || strings.Contains(f.Could, "|") {
			t.Errorf("fault %d: %q below %q is no sentence of a part", f.Number, f.Could, f.Part)
		}
		if !slices.Contains(releases, f.Since) {
			t.Errorf("fault %d: since %q, want one of %q", f.Number, f.Since, releases)
		}
		if !commit.MatchString(f.Mended) {
			t.Errorf("fault %d: mended in %q, want eight digits of a hash and the commit's subject", f.Number, f.Mended)
		}
		if (f.Mutant == "") == (f.NotShown == "") {
			t.Errorf("fault %d: it has a mutant, or says why it is not shown", f.Number)
		}
		if f.Mutant == "" {
			continue
		}
		if _, known := mutantOf(f, mutants); !known {
			t.Errorf("fault %d: no row of the table is called %s", f.Number, f.Mutant)
		}
		if other := shown[f.Mutant]; other != 0 {
			t.Errorf("fault %d: %s shows fault %d already", f.Number, f.Mutant, other)
		}
		shown[f.Mutant] = f.Number
	}
	slices.Sort(numbers)
	for i, n := range numbers {
		if n != i+1 {
			t.Fatalf("fault %d is missing or stands twice: numbers begin with 1 and are never used again", i+1)
		}
	}
}

// TestPageOfFaults compares the tables of docs/faults.md with the record (make faults).
func TestPageOfFaults(t *testing.T) {
	const path = "../../docs/faults.md"
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := withTables(string(got), theRecord(t), theTable(t))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(got) != want {
		t.Errorf("the tables of %s are not those of the record: run 'make faults'", path)
	}
	if _, err := withTables("no mark", nil, nil); err == nil {
		t.Error("a page without marks was taken")
	}
}

func theRecord(t *testing.T) []Fault {
	t.Helper()
	faults, err := record()
	if err != nil {
		t.Fatal(err)
	}
	return faults
}

func TestFaultsAreRead(t *testing.T) {
	const text = `# For readers.

part: The gate

fault: 2
could: An older token opened the gate.
since: v0.1.0
found: reading
mended: 0123abcd gate: compare tokens
mutant: token-not-compared

fault: 1
# Within a row.
not-shown: it needs hands
`
	faults, err := parseFaults("faults.txt", []byte(text))
	want := []Fault{{2, "The gate", "An older token opened the gate.", "v0.1.0", "reading",
		"0123abcd gate: compare tokens", "token-not-compared", ""}, {Number: 1, Part: "The gate", NotShown: "it needs hands"}}
	if err != nil || !reflect.DeepEqual(faults, want) {
		t.Errorf("%v\n%+v, want\n%+v", err, faults, want)
	}
	for text, told := range map[string]string{
		"could: A.\n":                    `faults.txt:1: a row begins with "fault: NUMBER"`,
		"fault: 1\n\nsince: v0.1.0\n":    `faults.txt:3: a row begins with "fault: NUMBER"`,
		"fault: one\n":                   `faults.txt:1: "one" is no number of a fault`,
		"fault: 0\n":                     `faults.txt:1: "0" is no number of a fault`,
		"fault: 1\nreason: none\n":       `faults.txt:2: "reason" is no key of a fault`,
		"fault: 1\npart: Within a row\n": `faults.txt:2: "part" is no key of a fault`,
	} {
		if _, err := parseFaults("faults.txt", []byte(text)); err == nil || !strings.Contains(err.Error(), told) {
			t.Errorf("%q: %v, want %q", text, err, told)
		}
	}
}

// TestTables: a fault that is not shown stands in a table of its own, with the reason.
func TestTables(t *testing.T) {
	m := caughtRow()
	got := tables([]Fault{
		{1, "The gate", "It opened.", "v0.1.0", "reading", "0123abcd gate: compare", m.Name, ""},
		{2, "The gate", "It creaked.", "v0.2.0", "attack", "0123abcd gate: oil", "", "it needs hands"},
		{3, "The wall", "It fell.", "v0.2.0", "attack", "0123abcd wall: mortar", m.Name, ""},
		{4, "The gate", "It shut.", "v0.2.0", "reading", "0123abcd gate: hinges", m.Name, ""},
	}, []Mutant{m})
	for _, want := range []string{
		"| reading | 2 | 1 | 1 | 0 |\n", "| an attack from outside | 2 | 0 | 2 | 0 |\n", "| all | 4 | 1 | 3 | 0 |\n",
		"\n## The gate\n\n| fault |",
		"\n| 1 | It opened. | v0.1.0 | reading | `0123abcd gate: compare` | . `TestOldTokenStaysOut` |\n" +
			"| 4 | It shut. | v0.2.0 | reading | `0123abcd gate: hinges` | . `TestOldTokenStaysOut` |\n" +
			"\n## The wall\n", // the rows of a part together
		"\n| 2 | It creaked. | v0.2.0 | an attack from outside | `0123abcd gate: oil` | it needs hands |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}

// TestReproWithoutARun is what repro says where it runs no test.
func TestReproWithoutARun(t *testing.T) {
	faults := []Fault{
		{1, "The gate", "It opened.", "v0.1.0", "reading", "0123abcd gate: compare", "gone", ""},
		{2, "The gate", "It creaked.", "v0.2.0", "attack", "0123abcd gate: oil", "", "it needs hands"},
	}
	for number, want := range map[string]struct {
		code int
		told []string
	}{
		"":  {2, []string{"   1  It opened.\n   2  It creaked.\n", `error: there is no fault ""`}},
		"0": {2, []string{"   1  It opened.\n", `error: there is no fault "0"`}},
		"x": {2, []string{"   1  It opened.\n", `error: there is no fault "x"`}},
		"1": {1, []string{"fault 1: It opened.\nsince v0.1.0; found by reading; mended in 0123abcd gate: compare\n",
			`there is no mutant "gone"`}},
		"2": {1, []string{"fault 2: It creaked.\n", "error: fault 2 is not shown: it needs hands\n"}},
	} {
		var out, errs bytes.Buffer
		code := repro(t.Context(), nil, number, faults, []Mutant{caughtRow()}, &out, &errs)
		for _, told := range want.told {
			if code != want.code || !strings.Contains(out.String()+errs.String(), told) {
				t.Errorf("fault %q: exit %d, want %d with %q in:\n%s%s", number, code, want.code, told, &out, &errs)
			}
		}
	}
}
