package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trivet-ha/trivet/test/testenv"
)

// detailLines is how much of a failing run's output is shown.
const detailLines = 30

// atOnce is how many mutants are judged at a time: while one is linked, which
// takes one processor, the other is tested.
const atOnce = 2

// judged is what became of a mutant.
type judged struct {
	verdict
	err  error
	took time.Duration
}

// judgeEach begins to judge n mutants in order and returns a channel for each.
// The caller waits for judging before it goes.
func judgeEach(ctx context.Context, n int, judge func(ctx context.Context, i int) (verdict, error),
	judging *sync.WaitGroup) []chan judged {
	results := make([]chan judged, n)
	for i := range results {
		results[i] = make(chan judged, 1)
	}
	var next atomic.Int64
	for range atOnce {
		judging.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				start := time.Now()
				v, err := judge(ctx, i)
				results[i] <- judged{v, err, time.Since(start)}
			}
		})
	}
	return results
}

// judgeAll judges the mutants, prints a line for each in order, then the reasons
// behind every verdict that is not "caught". It returns the exit code.
func judgeAll(ctx context.Context, r *runner, mutants []Mutant, out io.Writer) int {
	var judging sync.WaitGroup
	defer judging.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	row := rowFormat(mutants)
	fmt.Fprintf(out, row, "MUTANT", "PROMISE", "VERDICT", "TIME")
	var details strings.Builder
	var escaped []string
	judge := func(ctx context.Context, i int) (verdict, error) { return r.judge(ctx, mutants[i]) }
	for i, result := range judgeEach(ctx, len(mutants), judge, &judging) {
		m, v := mutants[i], <-result
		if v.err != nil {
			fmt.Fprintf(out, "error: %s: %v\n", m.Name, v.err)
			return 1
		}
		fmt.Fprintf(out, row, m.Name, m.Promise, v.outcome, v.took.Round(100*time.Millisecond))
		if v.outcome != caught {
			escaped = append(escaped, m.Name)
			fmt.Fprintf(&details, "\n%s: %s: %s\n%s\n", m.Name, v.outcome, v.why, tail(v.output, detailLines))
		}
	}
	fmt.Fprint(out, details.String())
	fmt.Fprintf(out, "\n%d of %d mutants caught\n", len(mutants)-len(escaped), len(mutants))
	fmt.Fprintln(out, testenv.CountLine("mutants.caught", float64(len(mutants)-len(escaped))))
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
