package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// detailLines is how much of a failing run's output is shown.
const detailLines = 30

// judgeAll judges the mutants in order, prints a line for each as soon as it
// is known, then the reasons behind every verdict that is not "caught". It
// returns the exit code.
func judgeAll(ctx context.Context, r *runner, mutants []Mutant, out io.Writer) int {
	row := rowFormat(mutants)
	fmt.Fprintf(out, row, "MUTANT", "PROMISE", "VERDICT", "TIME")
	var details strings.Builder
	var escaped []string
	for _, m := range mutants {
		start := time.Now()
		v, err := r.judge(ctx, m)
		if err != nil {
			fmt.Fprintf(out, "error: %s: %v\n", m.Name, err)
			return 1
		}
		fmt.Fprintf(out, row, m.Name, m.Promise, v.outcome, time.Since(start).Round(100*time.Millisecond))
		if v.outcome != caught {
			escaped = append(escaped, m.Name)
			fmt.Fprintf(&details, "\n%s: %s: %s\n%s\n", m.Name, v.outcome, v.why, tail(v.output, detailLines))
		}
	}
	fmt.Fprint(out, details.String())
	fmt.Fprintf(out, "\n%d of %d mutants caught\n", len(mutants)-len(escaped), len(mutants))
	if len(escaped) > 0 {
		fmt.Fprintf(out, "error: not caught: %s\n", strings.Join(escaped, ", "))
		return 1
	}
	return 0
}

func printList(out io.Writer, mutants []Mutant) {
	row := rowFormat(mutants)
	fmt.Fprintf(out, row, "MUTANT", "PROMISE", "FILE", "TEST")
	for _, m := range mutants {
		fmt.Fprintf(out, row, m.Name, m.Promise, m.File, m.baseline())
	}
}

// rowFormat is the format of a table row of four columns, as wide as the
// mutants need: rows appear one by one, so the widths are settled first.
func rowFormat(mutants []Mutant) string {
	name, promise, third := len("MUTANT"), len("PROMISE"), len(broken)
	for _, m := range mutants {
		name, promise, third = max(name, len(m.Name)), max(promise, len(m.Promise)), max(third, len(m.File))
	}
	return fmt.Sprintf("%%-%dv  %%-%dv  %%-%dv  %%v\n", name, promise, third)
}
