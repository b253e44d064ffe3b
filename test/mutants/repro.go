package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/internal/bounds"
	"github.com/trivet-ha/trivet/test/testwait"
)

// maxShown bounds the failing test's line that is shown, in bytes.
const maxShown = 400

// showFault is repro with the faults of the record.
func showFault(ctx context.Context, r *runner, number string, mutants []Mutant, out, errs io.Writer) int {
	faults, err := record()
	if err != nil {
		fmt.Fprintln(errs, "error: read the record of faults:", err)
		return 1
	}
	return repro(ctx, r, number, faults, mutants, out, errs)
}

// repro takes the mend of a fault out and shows the fault by the test that guards the
// mend; "M-N" judges the mutants of the faults with those numbers, "all" those of all. It
// returns 0 when the fault was shown, 1 when it was not, and 2, after the list of all
// faults, when there is none with that number.
func repro(ctx context.Context, r *runner, number string, faults []Fault, mutants []Mutant, out, errs io.Writer) int {
	if from, to, ok := numbersOf(number); ok {
		r.env = ofCI()
		mutants = slices.DeleteFunc(slices.Clone(mutants), func(m Mutant) bool {
			return !slices.ContainsFunc(faults, func(f Fault) bool {
				return f.Mutant == m.Name && from <= f.Number && f.Number <= to
			})
		})
		if len(mutants) == 0 {
			fmt.Fprintf(errs, "error: no fault of %s has a mutant\n", number)
			return 2
		}
		return judgeAll(ctx, r, mutants, out)
	}
	n, err := strconv.Atoi(number)
	i := slices.IndexFunc(faults, func(f Fault) bool { return f.Number == n })
	if err != nil || i < 0 {
		for _, f := range faults {
			fmt.Fprintf(out, "%4d  %s\n", f.Number, f.Could)
		}
		fmt.Fprintf(errs, "error: there is no fault %q: choose a number of the list\n", number)
		return 2
	}
	f := faults[i]
	who, _ := finder(f.Found)
	fmt.Fprintf(out, "fault %d: %s\nsince %s; found by %s; mended in %s\n", f.Number, f.Could, f.Since, who, f.Mended)
	if f.Mutant == "" {
		fmt.Fprintf(errs, "error: fault %d is not shown: %s\n", f.Number, f.NotShown)
		return 1
	}
	m, known := mutantOf(f, mutants)
	if !known {
		fmt.Fprintf(errs, "error: show fault %d: there is no mutant %q\n", f.Number, f.Mutant)
		return 1
	}
	fmt.Fprintf(out, "mutant %s takes the mend out of %s\ngo test -tags e2e %s -run '%s', with the mend and without:\n",
		m.Name, m.File, strings.Join(slices.Concat(m.Args, []string{m.Package}), " "), m.Run)
	r.env = ofCI()
	began := time.Now()
	v, err := r.judge(ctx, m)
	switch {
	case err != nil:
		fmt.Fprintf(errs, "error: show fault %d: %v\n", f.Number, err)
		return 1
	case v.outcome != caught:
		fmt.Fprintf(errs, "error: fault %d was not shown: %s: %s\n%s\n", f.Number, v.outcome, v.why,
			tail(v.output, detailLines))
		return 1
	}
	fmt.Fprintf(out, "  %s\nshown in %v: the test passes with the mend, and without it fails as above\n",
		bounds.Excerpt(v.why, maxShown), time.Since(began).Round(100*time.Millisecond))
	return 0
}

// numbersOf returns the first and the last number of "M-N" or "all".
func numbersOf(text string) (from, to int, ok bool) {
	if text == "all" {
		return 1, math.MaxInt, true
	}
	_, err := fmt.Sscanf(text, "%d-%d", &from, &to)
	return from, to, err == nil && text == fmt.Sprintf("%d-%d", from, to)
}

// ofCI is the environment in which a test that lacks root or a program fails, where it
// would skip (testenv.Missing), and one that waits in vain says so.
func ofCI() []string { return append(os.Environ(), "CI=true", testwait.ShortWaits+"=1") }
