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

// A list counts each of its parts once, by the newest run that found nothing; what is not a
// list counts all. The goal of the faults is the record.
func TestAListCountsEachPartOnce(t *testing.T) {
	run := func(seed int, n float64, failed string) Run {
		return Run{Piece: "x", Seed: seed, Failed: failed, Figures: map[string]float64{"n": n}}
	}
	runs := []Run{run(1, 5, ""), run(2, 7, ""), run(1+parts, 6, ""), run(2+parts, 100, "it found something")}
	for list, want := range map[bool]float64{true: 13, false: 18} {
		if got := counted(piece{name: "x", counts: "n", list: list}, runs); got != want {
			t.Errorf("list %v: %v are counted, want %v", list, got, want)
		}
	}
	record, err := os.ReadFile("../mutants/faults.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pieces() {
		if rows := float64(bytes.Count(record, []byte("\nmutant: "))); p.name == "faults" && p.goal != rows {
			t.Errorf("the goal of piece faults is %v, and %v are recorded with a mutant", p.goal, rows)
		}
	}
}

// A list goes on with the part whose newest good run is the oldest, one that failed among them.
func TestAListGoesOnWithItsOldestPart(t *testing.T) {
	var runs []Run
	for seed := 1; seed <= 2*parts-5; seed++ {
		runs = append(runs, Run{Piece: "x", Seed: seed})
	}
	runs[parts+4].Failed = "exit status 1" // the second run of the fifth part
	for _, want := range []int{25, 26, 27, 28, 29, 30, 31} {
		seed := nextSeed(piece{name: "x", list: true}, runs)
		if seed != want {
			t.Fatalf("seed %d, want %d", seed, want)
		}
		runs = append(runs, Run{Piece: "x", Seed: seed})
	}
	if seed := nextSeed(piece{name: "x"}, runs); seed != 32 {
		t.Errorf("no list: seed %d", seed)
	}
}
