package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestGenerate lists every fault of the fixture.
func TestGenerate(t *testing.T) {
	all, err := generate("testdata/sampled", []string{"door"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range all {
		got = append(got, fmt.Sprintf("%d: %s: %s", f.line, f.kind, strings.Join(strings.Fields(f.new), " ")))
		if f.file != "door/door.go" {
			t.Errorf("a fault of %s", f.file)
		}
		if _, diff, err := f.mutated("testdata/sampled"); err != nil || !strings.HasPrefix(diff, "-") ||
			!strings.Contains(diff, "\n+") {
			t.Errorf("%s: %v:\n%s", f.at(), err, diff)
		}
	}
	want := []string{
		"16: constant halved: (1) / 2",
		"16: constant doubled: 2 * (1)",
		"17: constant halved: (4) / 2",
		"17: constant doubled: 2 * (4)",
		"24: refusal removed: false && (token < floor)",
		"24: refusal negated: !(token < floor)",
		"24: comparison: <=",
		"32: defer removed: if false { defer func() { known = known && s != \"\" }() }",
		"32: comparison: ==",
		"34: refusal removed: false && (s == name)",
		"34: comparison: !=",
		"36: refusal removed: false && (len(s) > spare)",
		"36: refusal negated: !(len(s) > spare)",
		"36: comparison: >=",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestSampleIsOfItsSeed: a seed chooses the same faults each time, and another seed
// others.
func TestSampleIsOfItsSeed(t *testing.T) {
	all, err := generate("testdata/sampled", []string{"door"})
	if err != nil {
		t.Fatal(err)
	}
	first := sample(all, 5, 7)
	if !slices.Equal(first, sample(all, 5, 7)) {
		t.Error("the same seed chose other faults")
	}
	if slices.Equal(first, sample(all, 5, 8)) {
		t.Error("another seed chose the same faults")
	}
	if n := len(sample(all, 1000, 7)); n != len(all) {
		t.Errorf("%d faults were chosen of %d", n, len(all))
	}
}
