//go:build e2e

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/testenv"
)

// TestMain is also the piece that the tests below run.
func TestMain(m *testing.M) {
	if seed := os.Getenv("PROOF_TEST_SEED"); seed != "" {
		os.Exit(actPiece(seed))
	}
	os.Exit(m.Run())
}

// actPiece counts three, and finds something with seed 3.
func actPiece(seed string) int {
	fmt.Println("an attack with seed", seed)
	for name, n := range map[string]float64{"small.counted": 3, "small.longest_s": 0.5, "small.wrong": 0} {
		fmt.Println(testenv.CountLine(name, n))
	}
	if seed == "3" {
		fmt.Println("two hosts answered")
		return 1
	}
	return 0
}

// inRepository lets a test run the command in a repository of its own.
func inRepository(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.Mkdir("docs", 0o700); err != nil {
		t.Fatal(err)
	}
	commit := []string{"-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "--allow-empty", "-m", "t"}
	for _, args := range [][]string{{"init", "-q"}, commit} {
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
}

func smallPiece(t *testing.T, goal float64) piece {
	t.Helper()
	program, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	return piece{name: "small", env: []string{"PROOF_TEST_SEED=" + seedMark}, other: []string{program},
		counts: "small.counted", unit: "things", goal: goal, zero: []string{"small.wrong"}, limit: time.Minute}
}

// TestPiecesGoOnWhereTheyWere: runs are added until the goal is reached, each with a seed
// of its own, and no more are made after it; a run that found something ends the command,
// is kept, and counts nothing.
func TestPiecesGoOnWhereTheyWere(t *testing.T) {
	small := smallPiece(t, 5)
	inRepository(t)
	try := func(goal float64, args ...string) (int, string) {
		small.goal = goal
		var out, errs bytes.Buffer
		code := run(t.Context(), args, []piece{small}, &out, &errs)
		return code, out.String() + errs.String()
	}
	kept := func() (runs []Run) {
		t.Helper()
		text, err := os.ReadFile(recordPath)
		if err == nil {
			err = json.Unmarshal(text, &runs)
		}
		if err != nil {
			t.Fatal(err)
		}
		return runs
	}
	if code, out := try(5); code != 0 || len(kept()) != 2 || kept()[1].Seed != 2 ||
		!strings.Contains(out, "6 of 5 things") {
		t.Fatalf("%d, %+v: %s", code, kept(), out)
	}
	if code, out := try(5); code != 0 || len(kept()) != 2 {
		t.Fatalf("again: %d, %+v: %s", code, kept(), out)
	}
	if code, out := try(12, "-for", "1ns"); code != 0 || len(kept()) != 2 || !strings.Contains(out, "the time is over") {
		t.Fatalf("without time: %d, %+v: %s", code, kept(), out)
	}
	code, out := try(12)
	if code != 1 || len(kept()) != 3 || !strings.Contains(out, "two hosts answered") ||
		!strings.Contains(kept()[2].Failed, "two hosts answered") {
		t.Fatalf("with a fault: %d, %+v: %s", code, kept(), out)
	}
	if code, out := try(12); code != 0 || len(kept()) != 5 || counted(small, kept()) != 12 {
		t.Fatalf("after it: %d, %+v: %s", code, kept(), out)
	}
	page, err := withRuns("a\n<!-- runs:small -->\nold\n<!-- end -->\nb\n", []piece{small}, kept())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a\n<!-- runs:small -->\n", "**12** things, goal 12: reached.", "4 runs",
		"small.longest_s 0.5", "Seed 3 found a fault", "<!-- end -->\nb\n"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in:\n%s", want, page)
		}
	}
	if _, err := withRuns("no place", []piece{small}, kept()); err == nil {
		t.Error("a page without a place was taken")
	}
}

// TestFiguresThatAreToBeZero: one that is not, or that a run does not report, is a fault.
func TestFiguresThatAreToBeZero(t *testing.T) {
	small := smallPiece(t, 1)
	inRepository(t)
	for _, zero := range []string{"small.counted", "small.unknown"} {
		small.zero = []string{zero}
		var out, errs bytes.Buffer
		if code := run(t.Context(), nil, []piece{small}, &out, &errs); code != 1 || !strings.Contains(errs.String(), zero) {
			t.Errorf("%s: %d: %s", zero, code, errs.String())
		}
	}
}
