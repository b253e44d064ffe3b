// Command mutants proves that the tests of the promises can fail: it breaks
// the product on purpose, one row of a table at a time (rows/*.diff), and demands that
// the named test fails and says why in the expected words.
//
//	go run ./test/mutants [-run REGEXP] [-part K/N] [-changed COMMIT] [-tested] [-list] [-timeout D]
//
// Run it from the root of the module. The source is never changed: a mutated copy is
// compiled in a temporary directory. It exits 0 when every mutant was caught, 1 when one
// survived or could not be judged, 2 on wrong usage. With -changed it judges the rows
// that a change since the commit touches, and exits 0 where it touches none.
//
//	go run ./test/mutants -sample N [-seed S] [-of DIR,DIR] [-own] [-list] [-timeout D]
//
// generates mutants instead, judges N of them that the seed chooses, and reports
// which survive and what share was caught. It exits 0 when all were judged: some
// mutants change nothing that a test could notice, and a reader has to say which.
//
//	go run ./test/mutants -fault N
//	go run ./test/mutants -fault M-N
//	go run ./test/mutants -fault all
//
// takes the mend of a fault of docs/faults.md out and shows the fault by the test that
// guards the mend. It exits 0 when the fault was shown, or all of those numbers were.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	mutants, err := table()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	code := run(ctx, os.Args[1:], ".", mutants, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the command without its process: the module's root and the table are
// arguments, so that its test can hand in small ones.
func run(ctx context.Context, args []string, root string, mutants []Mutant, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(stderr)
	pattern := flags.String("run", "", "judge only the mutants whose name, or place in a sample, matches this `regexp`")
	part := flags.String("part", "0/1", "judge only the `K/N`th part: every Nth mutant, from the Kth on")
	base := flags.String("changed", "",
		"judge only the mutants whose file, test's package or row changed between this `commit` and the working tree")
	tested := flags.Bool("tested", false,
		"the tests have just passed here as they are: see none of them pass again without its mutants")
	list := flags.Bool("list", false, "print the mutants and judge none")
	timeout := flags.Duration("timeout", 5*time.Minute, "bound of one test run")
	size := flags.Int("sample", 0, "generate mutants and judge this many of them instead of those of the table")
	seed := flags.Uint64("seed", 1, "what chooses the sample")
	of := flags.String("of", sampledDirs, "the directories whose packages, and those below, the sample is taken of")
	own := flags.Bool("own", false,
		"judge the sample by the packages' own tests alone, which is quicker and lets more survive")
	fault := flags.String("fault", "", "show the fault of docs/faults.md with this `number`, or those from M to N")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "error: there are no arguments, so what is %q?\nhint: -run REGEXP chooses mutants\n",
			flags.Arg(0))
		return 2
	}
	absolute, err := filepath.Abs(root)
	if err != nil {
		fmt.Fprintln(stderr, "error: find the root of the module:", err)
		return 1
	}
	programs, err := os.MkdirTemp("", "trivet-mutants-")
	if err != nil {
		fmt.Fprintln(stderr, "error: make a directory for programs of tests:", err)
		return 1
	}
	defer os.RemoveAll(programs)
	r := &runner{root: absolute, timeout: *timeout, tested: *tested, relinker: newRelinker(absolute, programs),
		baselines: make(map[string]func() error)}
	if *fault != "" {
		return showFault(ctx, r, *fault, mutants, stdout, stderr)
	}
	if *size > 0 {
		s := newSampler(r, *own, strings.Split(*of, ","))
		return s.run(ctx, *size, *seed, *pattern, *list, stdout, stderr)
	}
	mutants, err = choose(mutants, *pattern, *part)
	if err != nil {
		fmt.Fprintln(stderr, "error:", err)
		return 2
	}
	if *base != "" {
		all := len(mutants)
		if mutants, err = changedSince(ctx, absolute, *base, mutants); err != nil {
			fmt.Fprintln(stderr, "error: -changed:", err)
			return 2
		}
		fmt.Fprintf(stdout, "%d of %d mutants to judge: their file, package or row changed since %s\n", len(mutants), all,
			*base)
		if len(mutants) == 0 {
			return 0
		}
	}
	if *list {
		printList(stdout, mutants)
		return 0
	}
	return judgeAll(ctx, r, mutants, stdout)
}

// changedSince returns the mutants that a change since a commit touches.
func changedSince(ctx context.Context, root, base string, mutants []Mutant) ([]Mutant, error) {
	files, err := changedFiles(ctx, root, base)
	if err != nil {
		return nil, err
	}
	before, err := rowsAt(ctx, root, base)
	if err != nil {
		return nil, err
	}
	return affected(mutants, before, files), nil
}

// choose returns the mutants of one part whose names match a pattern.
func choose(mutants []Mutant, pattern, part string) ([]Mutant, error) {
	wanted, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("-run: %w", err)
	}
	mutants, err = share(mutants, part)
	if err != nil {
		return nil, fmt.Errorf("-part: %w", err)
	}
	mutants = slices.DeleteFunc(mutants, func(m Mutant) bool { return !wanted.MatchString(m.Name) })
	if len(mutants) == 0 {
		return nil, fmt.Errorf("no mutant matches %q\nhint: -list shows them all", pattern)
	}
	return mutants, nil
}

// share returns one of n parts of the mutants: neighbours in the table, which
// break the same code, are spread over them.
func share(mutants []Mutant, part string) (out []Mutant, err error) {
	var k, n int
	if _, err := fmt.Sscanf(part, "%d/%d", &k, &n); err != nil || n < 1 || k < 0 || k >= n ||
		part != fmt.Sprintf("%d/%d", k, n) {
		return nil, fmt.Errorf("%q is no part: write K/N, K from 0 to N-1", part)
	}
	for i := k; i < len(mutants); i += n {
		out = append(out, mutants[i])
	}
	return out, nil
}
