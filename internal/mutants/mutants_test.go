package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// TestTableFitsTheSource fails as soon as a change moves the text of a row,
// long before the mutants themselves are run.
func TestTableFitsTheSource(t *testing.T) {
	names := make(map[string]bool)
	for _, m := range table() {
		if names[m.Name] {
			t.Errorf("%s: the name is used twice", m.Name)
		}
		names[m.Name] = true
		if m.Name == "" || m.Promise == "" || m.Package == "" || m.Run == "" || m.Assertion == "" {
			t.Errorf("%s: a field is empty: %+v", m.Name, m)
		}
		if _, err := m.mutated("../.."); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
	}
}

// caughtRow is a mutant of the fixture that its test notices; the cases of
// TestVerdicts vary it.
func caughtRow() Mutant {
	return Mutant{
		Name: "token-not-compared", Promise: "3", File: "gate.go",
		Old: "return token >= floor", New: "return true",
		Package: ".", Run: "^TestOldTokenStaysOut$", Assertion: "an older token opened the gate",
	}
}

func TestVerdicts(t *testing.T) {
	cases := []struct {
		name    string
		change  func(*Mutant)
		outcome outcome
		code    int
		told    string
	}{
		{"caught", func(*Mutant) {}, caught, 0, "1 of 1 mutants caught"},
		{"survived", func(m *Mutant) { m.Old, m.New = "return 3", "return 4" }, survived, 1, "not caught: token-not-compared"},
		{"does not compile", func(m *Mutant) { m.New = "return" }, broken, 1, "it does not compile"},
		{"assertion missing", func(m *Mutant) { m.Assertion = "the gate stood open" }, wrongReason, 1, `never says "the gate stood open"`},
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

func TestOneSurvivorFailsTheRun(t *testing.T) {
	survivor := caughtRow()
	survivor.Name, survivor.Old, survivor.New = "width", "return 3", "return 4"
	var out, errs bytes.Buffer
	code := run(t.Context(), nil, "testdata/gate", []Mutant{survivor, caughtRow()}, &out, &errs)
	if code != 1 || !strings.Contains(out.String(), "1 of 2 mutants caught") || !strings.Contains(out.String(), "not caught: width\n") {
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
	if code != 1 || !strings.Contains(out.String(), "2 of 3 mutants caught") || !strings.Contains(out.String(), "not caught: gone\n") {
		t.Errorf("exit %d:\n%s%s", code, &out, &errs)
	}
}

func TestUsage(t *testing.T) {
	cases := []struct {
		args []string
		code int
		told string
	}{
		{[]string{"-list"}, 0, "token-not-compared"},
		{[]string{"-list", "-run", "^token"}, 0, "^TestOldTokenStaysOut$"},
		{[]string{"-list", "-part", "0/2"}, 0, "token-not-compared"},
		{[]string{"-list", "-part", "1/2"}, 2, "no mutant matches"},
		{[]string{"-list", "-part", "2/2"}, 2, "write K/N"},
		{[]string{"-list", "-part", "1/2x"}, 2, "write K/N"},
		{[]string{"-run", "^gate"}, 2, "no mutant matches"},
		{[]string{"-run", "("}, 2, "error: -run: error parsing regexp"},
		{[]string{"-h"}, 0, "judge only the mutants"},
		{[]string{"token"}, 2, "no arguments"},
		{[]string{"-fast"}, 2, "flag provided but not defined"},
	}
	for _, c := range cases {
		var out, errs bytes.Buffer
		code := run(t.Context(), c.args, "testdata/gate", []Mutant{caughtRow()}, &out, &errs)
		if code != c.code || !strings.Contains(out.String()+errs.String(), c.told) {
			t.Errorf("%v: exit %d, want %d with %q in:\n%s%s", c.args, code, c.code, c.told, &out, &errs)
		}
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

func TestOutputKeepsTheNewestBytes(t *testing.T) {
	var l lastBytes
	for range 3 {
		l.Write(bytes.Repeat([]byte("."), maxOutput))
	}
	l.Write([]byte("the end"))
	if len(l.kept) > 2*maxOutput || !bytes.HasSuffix(l.kept, []byte("the end")) {
		t.Errorf("%d bytes kept, bound %d", len(l.kept), 2*maxOutput)
	}
}
