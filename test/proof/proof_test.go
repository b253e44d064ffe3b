package main

import (
	"bytes"
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
		all := strings.Join(append(p.args(777, "1-2"), p.environ(777, "1-2")...), " ")
		if !p.unseeded && all == strings.Join(append(p.args(778, "3-4"), p.environ(778, "3-4")...), " ") {
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

// A list counts each of its parts once, by the newest run that found nothing, and no part of
// another length; what is not a list counts all. The faults are those of the record.
func TestAListCountsEachPartOnce(t *testing.T) {
	run := func(seed int, part string, n float64, failed string) Run {
		return Run{Piece: "x", Seed: seed, Part: part, Failed: failed, Figures: map[string]float64{"n": n}}
	}
	runs := []Run{run(1, "1-30", 5, ""), run(2, "31-40", 7, ""), run(3, "1-30", 6, ""), run(4, "31-50", 3, ""),
		run(5, "1-30", 100, "it found something")}
	for last, want := range map[int]float64{50: 9, 40: 13, 0: 21} {
		if got := counted(piece{name: "x", counts: "n", last: last}, runs); got != want {
			t.Errorf("a list of %d: %v are counted, want %v", last, got, want)
		}
	}
	record, err := os.ReadFile("../mutants/faults.txt")
	if err != nil {
		t.Fatal(err)
	}
	faults, shown := bytes.Count(record, []byte("\nfault: ")), bytes.Count(record, []byte("\nmutant: "))
	for _, p := range pieces() {
		if p.name == "faults" && (p.goal != float64(shown) || p.last != faults) {
			t.Errorf("the goal of piece faults is %v of %d, and of %d that are recorded %d have a mutant",
				p.goal, p.last, faults, shown)
		}
	}
}

// A list goes on with a part that no good run has had, then with the one that was run longest
// ago: a part that grew is run again before the others.
func TestAListGoesOnWithWhatWasNotRun(t *testing.T) {
	list := piece{name: "x", last: 70}
	runs := []Run{
		{Piece: "x", Seed: 1, Part: "1-30"}, {Piece: "x", Seed: 2, Part: "31-60", Failed: "exit status 1"},
		{Piece: "x", Seed: 3, Part: "61-65"},
	}
	for i, want := range []string{"31-60", "61-70", "1-30", "31-60"} {
		seed, part := nextRun(list, runs)
		if seed != i+4 || part != want {
			t.Fatalf("seed %d, part %s, want %d, %s", seed, part, i+4, want)
		}
		runs = append(runs, Run{Piece: "x", Seed: seed, Part: part})
	}
	if seed, part := nextRun(piece{name: "x"}, runs); seed != 8 || part != "" {
		t.Errorf("no list: seed %d, part %q", seed, part)
	}
}
