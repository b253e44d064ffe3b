//go:build e2e

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestVerdicts(t *testing.T) {
	cases := []struct {
		name    string
		change  func(*Mutant)
		outcome outcome
		code    int
		told    string
	}{
		{"caught", func(*Mutant) {}, caught, 0, "1 of 1 mutants caught"},
		{"survived", func(m *Mutant) { m.Old, m.New = "return 3", "return 4" }, survived, 1,
			"not caught: token-not-compared"},
		{"does not compile", func(m *Mutant) { m.New = "return" }, broken, 1, "it does not compile"},
		{"assertion missing", func(m *Mutant) { m.Assertion = "the gate stood open" }, wrongReason, 1,
			`never says "the gate stood open"`},
		{"baseline fails", func(m *Mutant) { m.Run = "^TestAlwaysFails$" }, baselineBad, 1, "broken without any mutant"},
		{"baseline runs nothing", func(m *Mutant) { m.Run = "^TestGone$" }, baselineBad, 1, "runs no test"},
		{"old text gone", func(m *Mutant) { m.Old = "return token > floor" }, broken, 1, "stands 0 times"},
		{"old text twice", func(m *Mutant) { m.Old = "token" }, broken, 1, "times in gate.go, not once"},
		{"nothing changed", func(m *Mutant) { m.New = m.Old }, broken, 1, "the new text is the old text"},
		{"file gone", func(m *Mutant) { m.File = "door.go" }, broken, 1, "door.go"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := caughtRow()
			c.change(&m)
			var out, errs bytes.Buffer
			code := run(t.Context(), []string{"-timeout=1m"}, "testdata/gate", []Mutant{m}, &out, &errs)
			if code != c.code || !strings.Contains(out.String(), string(c.outcome)) || !strings.Contains(out.String(), c.told) {
				t.Errorf("exit %d, want %d with verdict %q and %q in:\n%s%s", code, c.code, c.outcome, c.told, &out, &errs)
			}
		})
	}
}

// TestRepro: a fault is shown by the line of its test that fails; one whose test does not
// notice is not shown, and neither is one whose test would skip here.
func TestRepro(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Mutant)
		code   int
		told   string
	}{
		{"shown", func(*Mutant) {}, 0, "gate_test.go:"},
		{"survives", func(m *Mutant) { m.Old, m.New = "return 3", "return 4" }, 1, "error: fault 1 was not shown: SURVIVED"},
		{"skips", func(m *Mutant) { m.Run = "^TestNeedsRoot$" }, 1, "error: fault 1 was not shown: BAD BASELINE"},
	} {
		m := caughtRow()
		c.change(&m)
		root, err := filepath.Abs("testdata/gate")
		if err != nil {
			t.Fatal(err)
		}
		r := &runner{root: root, timeout: time.Minute, relinker: newRelinker(root, t.TempDir()),
			baselines: make(map[string]func() error)}
		faults := []Fault{{1, "The gate", "It opened.", "v0.1.0", "reading", "0123abcd gate: compare", m.Name, ""}}
		var out, errs bytes.Buffer
		code := repro(t.Context(), r, "1", faults, []Mutant{m}, &out, &errs)
		table := []Mutant{m, {Name: "of no fault"}}
		for numbers, want := range map[string]int{"all": c.code, "1-30": c.code, "2-30": 2} {
			if code := repro(t.Context(), r, numbers, faults, table, &bytes.Buffer{}, &errs); code != want {
				t.Errorf("%s: %s: exit %d, want %d", c.name, numbers, code, want)
			}
		}
		if told := out.String() + errs.String(); code != c.code || !strings.Contains(told, c.told) ||
			c.code == 0 && !strings.Contains(told, m.Assertion) {
			t.Errorf("%s: exit %d, want %d with %q in:\n%s", c.name, code, c.code, c.told, told)
		}
	}
}

// TestMendsAreCommits looks in the history, where there is one, for each commit that the
// record names.
func TestMendsAreCommits(t *testing.T) {
	const first = "15109834^{commit}" // the first release
	if out, err := exec.CommandContext(t.Context(), "git", "cat-file", "-e", first).CombinedOutput(); err != nil {
		t.Skipf("this clone has not the whole history: %v %s", err, out)
	}
	for _, f := range theRecord(t) {
		hash, subject, _ := strings.Cut(f.Mended, " ")
		got, err := exec.CommandContext(t.Context(), "git", "show", "-s", "--format=%s", hash, "--").Output()
		if err != nil || strings.TrimSpace(string(got)) != subject {
			t.Errorf("fault %d: commit %s is %q (%v), not %q", f.Number, hash, got, err, subject)
		}
	}
}

func TestOneSurvivorFailsTheRun(t *testing.T) {
	survivor := caughtRow()
	survivor.Name, survivor.Old, survivor.New = "width", "return 3", "return 4"
	var out, errs bytes.Buffer
	code := run(t.Context(), nil, "testdata/gate", []Mutant{survivor, caughtRow()}, &out, &errs)
	if code != 1 || !strings.Contains(out.String(), "1 of 2 mutants caught") ||
		!strings.Contains(out.String(), "not caught: width\n") {
		t.Errorf("exit %d:\n%s%s", code, &out, &errs)
	}
}

// TestWhatWasTestedIsNotTestedAgain leaves the runs without a mutant out; that a
// test is not there is noticed nevertheless.
func TestWhatWasTestedIsNotTestedAgain(t *testing.T) {
	unseen, gone := caughtRow(), caughtRow()
	unseen.Name, unseen.Run, unseen.Assertion = "unseen", "^TestAlwaysFails$", "broken without any mutant"
	gone.Name, gone.Run = "gone", "^TestGone$"
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"-tested"}, "testdata/gate", []Mutant{caughtRow(), unseen, gone}, &out, &errs)
	if code != 1 || !strings.Contains(out.String(), "2 of 3 mutants caught") ||
		!strings.Contains(out.String(), "not caught: gone\n") {
		t.Errorf("exit %d:\n%s%s", code, &out, &errs)
	}
}

func TestInterruptedRunIsNoSuccess(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	if code := run(ctx, nil, "testdata/gate", []Mutant{caughtRow()}, &out, &errs); code != 1 {
		t.Errorf("exit %d, want 1:\n%s", code, &out)
	}
}

// TestSampleIsJudged judges every fault of the fixture: one function is tested, one
// is not, and one fault does not compile.
func TestSampleIsJudged(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"-sample=1000", "-of=door", "-timeout=1m"}, "testdata/sampled", nil, &out,
		&errs); code != 0 {
		t.Fatalf("exit %d:\n%s%s", code, &out, &errs)
	}
	judged := out.String()
	for _, want := range []string{
		"14 of 14 generated mutants, seed 1",
		"3 of 13 caught (23.1 %); 1 do not compile",
		"\ndoor/door.go:36: refusal removed\n-\tcase len(s) > spare:\n+\tcase false && (len(s) > spare):\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, &out)
		}
	}
	out.Reset()
	if code := run(t.Context(), []string{"-sample=1000", "-of=door", "-run=:36$", "-list"}, "testdata/sampled", nil, &out,
		&errs); code != 0 || strings.Count(out.String(), "door/door.go:") != 3 {
		t.Errorf("the mutants of a line: exit %d:\n%s%s", code, &out, &errs)
	}
	for line := range strings.SplitSeq(judged, "\n") {
		if tested := strings.HasPrefix(line, "door/door.go:24 "); tested && !strings.Contains(line, string(caught)) {
			t.Errorf("a tested refusal was not caught: %s", line)
		}
	}
}

// TestChosenTestsJudgeAlike: the verdicts are those of all tests where a fault is judged by the
// tests alone that execute it.
func TestChosenTestsJudgeAlike(t *testing.T) {
	root, err := filepath.Abs("testdata/sampled")
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{root: root, timeout: time.Minute, relinker: newRelinker(root, t.TempDir())}
	s := newSampler(r, false, []string{"door"})
	s.narrow = 0
	var out, errs bytes.Buffer
	if code := s.run(t.Context(), 1000, 1, "", false, &out, &errs); code != 0 ||
		!strings.Contains(out.String(), "3 of 13 caught (23.1 %); 1 do not compile") {
		t.Errorf("exit %d:\n%s%s", code, &out, &errs)
	}
	all, err := generate(root, s.dirs)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		want := noTest
		if f.line == 24 {
			want = "^(TestEnter)$"
		}
		if of, _, err := s.chosen(t.Context(), stage{pkg: f.pkg(), run: "."}, f); err != nil || of.run != want {
			t.Errorf("%s is judged by %q (%v), want %q", f.at(), of.run, err, want)
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
}

// TestChangedSinceACommit judges the row of a file that git does not track yet, and
// none once it is committed.
func TestChangedSinceACommit(t *testing.T) {
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS("testdata/gate")); err != nil {
		t.Fatal(err)
	}
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git",
			append([]string{"-C", root, "-c", "user.name=t", "-c", "user.email=t@example.test"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("init", "-q")
	git("commit", "-q", "--allow-empty", "-m", "nothing")
	m := caughtRow()
	text := fmt.Sprintf("mutant: %s\npromise: %s\nfile: %s\ntest: %s %s\nsays: %s\n-%s\n+%s\n", m.Name, m.Promise, m.File,
		m.Package, m.Run, m.Assertion, m.Old, m.New)
	mutants, err := parseRows("gate.diff", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	judge := func(wanted string, want int) {
		t.Helper()
		var out, errs bytes.Buffer
		code := run(t.Context(), []string{"-changed=HEAD", "-list"}, root, mutants, &out, &errs)
		if code != want || !strings.Contains(out.String()+errs.String(), wanted) {
			t.Errorf("exit %d, want %d with %q in:\n%s%s", code, want, wanted, &out, &errs)
		}
	}
	judge("1 of 1 mutants to judge", 0)
	row := filepath.Join(root, "test/mutants/rows")
	if err := os.MkdirAll(row, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(row, "gate.diff"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	git("add", ".")
	git("commit", "-q", "-m", "all")
	judge("0 of 1 mutants to judge", 0)
	if err := os.Remove(filepath.Join(root, "gate_test.go")); err != nil {
		t.Fatal(err)
	}
	judge("1 of 1 mutants to judge", 0)
	if err := os.RemoveAll(filepath.Join(root, ".git")); err != nil {
		t.Fatal(err)
	}
	judge("error: -changed: git diff", 2)
}
