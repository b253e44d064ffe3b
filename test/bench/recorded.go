package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/trivet-ha/trivet/test/testenv"
)

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
		fmt.Fprintf(table, "%s\t%s %s\t%s\t%s\t%s\t%s\n", r.Name, digits(r.Value), r.Unit, r.Goal, met,
			r.Time.UTC().Format(time.DateTime), r.Test)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the recorded figures: %w", err)
	}
	return nil
}
