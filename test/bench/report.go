package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/trivet-ha/trivet/test/plot"
	"github.com/trivet-ha/trivet/test/testenv"
)

// Goal is a bound on a value.
type Goal struct {
	Limit float64
	Least bool // the value must be at least Limit, not at most
}

// AtMost is the goal of what should be small.
func AtMost(limit float64) Goal { return Goal{Limit: limit} }

// AtLeast is the goal of what should be large.
func AtLeast(limit float64) Goal { return Goal{Limit: limit, Least: true} }

// Met says whether a value reaches the goal.
func (g Goal) Met(value float64) bool {
	if g.Least {
		return value >= g.Limit
	}
	return value <= g.Limit
}

// MarshalText writes the goal as "<= 3", or ">= 1.5".
func (g Goal) MarshalText() ([]byte, error) {
	sign := "<="
	if g.Least {
		sign = ">="
	}
	return fmt.Appendf(nil, "%s %g", sign, g.Limit), nil
}

// Result is one measured figure.
type Result struct {
	Name  string   `json:"name"`  // begins with its area
	Value *float64 `json:"value"` // nil: not measured, Raw says why
	Unit  string   `json:"unit"`  // s, ms, MB; x for a ratio
	Goal  Goal     `json:"goal"`
	Met   bool     `json:"met"`
	Raw   string   `json:"-"` // the numbers behind the value, for the table
}

// Report gathers results. It is used by one goroutine.
type Report struct{ results []Result }

// Add records a measured figure with the raw numbers behind it.
func (r *Report) Add(name string, value float64, unit string, goal Goal, raw string) {
	r.results = append(r.results,
		Result{Name: name, Value: &value, Unit: unit, Goal: goal, Met: goal.Met(value), Raw: raw})
}

// Skip records that a figure could not be measured, which meets no goal.
func (r *Report) Skip(name, unit string, goal Goal, why string) {
	r.results = append(r.results, Result{Name: name, Unit: unit, Goal: goal, Raw: "skipped: " + why})
}

// Print writes the table.
func (r *Report) Print(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tVALUE\tGOAL\tMET\tRAW")
	for _, res := range r.results {
		value, met := "-", "no"
		if res.Value != nil {
			value = plot.Digits(*res.Value) + " " + res.Unit
		}
		if res.Met {
			met = "yes"
		}
		goal, _ := res.Goal.MarshalText() // never fails
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", res.Name, value, goal, met, res.Raw)
	}
	table.Flush()
}

// Save writes the results as JSON.
func (r *Report) Save(path string) error {
	results := r.results
	if results == nil {
		results = []Result{}
	}
	text, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the results: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	return nil
}

// printRecorded writes the table of the figures that tests of real processes have
// recorded, if there are any: make verify has them in dist/verify.
func printRecorded(w io.Writer) error {
	// the product's module; bench runs in its own
	path := cmp.Or(os.Getenv("TRIVET_FIGURES"), "../../dist/verify/figures.json")
	all, err := testenv.ReadFigures(path)
	if err != nil || len(all) == 0 {
		return err
	}
	fmt.Fprintln(w, "\nRecorded by make verify, the latest of each name:")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tVALUE\tGOAL\tMET\tWHEN\tTEST")
	for _, r := range all {
		met := "no"
		if r.Met {
			met = "yes"
		}
		fmt.Fprintf(table, "%s\t%s %s\t%s\t%s\t%s\t%s\n", r.Name, plot.Digits(r.Value), r.Unit, r.Goal, met,
			r.Time.UTC().Format(time.DateTime), r.Test)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the recorded figures: %w", err)
	}
	return nil
}
