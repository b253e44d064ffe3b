package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the figures of docs/proof.md again")

// TestPageHasTheRuns: the figures of docs/proof.md are those of docs/proof.json.
func TestPageHasTheRuns(t *testing.T) {
	const path = "../../docs/proof.md"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	runs, err := readRuns("../../" + recordPath)
	if err != nil {
		t.Fatal(err)
	}
	want, err := withRuns(string(page), pieces(), runs)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(page) != want {
		t.Errorf("%s does not say what the runs found: run 'make proof-page'", path)
	}
	for _, r := range runs {
		if known := fmt.Sprintf(beginMark, r.Piece); !strings.Contains(string(page), known) {
			t.Errorf("a run of %s, seed %d: there is no such piece", r.Piece, r.Seed)
		}
	}
}

// TestPieces: each has what a run needs, and its own name.
func TestPieces(t *testing.T) {
	names := make(map[string]bool)
	for _, p := range pieces() {
		if p.name == "" || names[p.name] || p.counts == "" || p.unit == "" || p.goal <= 0 || p.limit <= 0 ||
			(p.tests == nil) == (p.other == nil) {
			t.Errorf("%+v", p)
		}
		names[p.name] = true
		all := strings.Join(append(p.args(777), p.environ(777)...), " ")
		if !p.unseeded && all == strings.Join(append(p.args(778), p.environ(778)...), " ") {
			t.Errorf("%s draws the same each time: %s", p.name, all)
		}
	}
}

func TestNumbers(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", 0.75: "0.75",
		1234.5678: "1,234.56"} {
		if got := number(n); got != want {
			t.Errorf("%g is written %q, want %q", n, got, want)
		}
	}
}
