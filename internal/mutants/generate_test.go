package main

import (
	"bytes"
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
		if _, diff, err := f.mutated("testdata/sampled"); err != nil || !strings.HasPrefix(diff, "-") || !strings.Contains(diff, "\n+") {
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

// TestSampleIsJudged judges every fault of the fixture: one function is tested, one
// is not, and one fault does not compile.
func TestSampleIsJudged(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"-sample=1000", "-of=door", "-timeout=1m"}, "testdata/sampled", nil, &out, &errs); code != 0 {
		t.Fatalf("exit %d:\n%s%s", code, &out, &errs)
	}
	for _, want := range []string{
		"14 of 14 generated mutants, seed 1",
		"3 of 13 caught (23.1 %); 1 do not compile",
		"\ndoor/door.go:36: refusal removed\n-\tcase len(s) > spare:\n+\tcase false && (len(s) > spare):\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, &out)
		}
	}
	for line := range strings.SplitSeq(out.String(), "\n") {
		if tested := strings.HasPrefix(line, "door/door.go:24 "); tested && !strings.Contains(line, string(caught)) {
			t.Errorf("a tested refusal was not caught: %s", line)
		}
	}
}

// TestSampleWithoutABaseline: what the tests say of a fault means nothing where they
// fail without it.
func TestSampleWithoutABaseline(t *testing.T) {
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"-sample=1", "-of=."}, "testdata/gate", nil, &out, &errs)
	if code != 1 || !strings.Contains(out.String(), "without a mutant") {
		t.Errorf("exit %d:\n%s%s", code, &out, &errs)
	}
	if code := run(t.Context(), []string{"-sample=1", "-of=gone"}, "testdata/gate", nil, &out, &errs); code != 2 {
		t.Errorf("a directory that does not exist: exit %d", code)
	}
}
