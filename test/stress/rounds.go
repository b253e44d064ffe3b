package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// group is the packages that one go test runs.
type group struct {
	race     bool
	packages []string
}

// split lists the packages, those without the race detector apart.
func split(ctx context.Context, o options) ([]group, error) {
	all, err := list(ctx, o.packages)
	if err != nil {
		return nil, err
	}
	without, err := list(ctx, o.plain)
	if err != nil {
		return nil, err
	}
	race, plain := group{race: true}, group{}
	for _, p := range all {
		if slices.Contains(without, p) {
			plain.packages = append(plain.packages, p)
		} else {
			race.packages = append(race.packages, p)
		}
	}
	groups := slices.DeleteFunc([]group{race, plain}, func(g group) bool { return len(g.packages) == 0 })
	if len(groups) == 0 {
		return nil, fmt.Errorf("no package matches %q", o.packages)
	}
	return groups, nil
}

// list returns the packages that patterns name.
func list(ctx context.Context, patterns []string) ([]string, error) {
	if len(patterns) == 0 {
		return nil, nil
	}
	cmd := exec.CommandContext(ctx, "go", append([]string{"list"}, patterns...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w", strings.Join(patterns, " "), err)
	}
	return strings.Fields(string(out)), nil
}

// killAfter is how long go test and the tests that it runs may take to end once
// they are interrupted.
const killAfter = 10 * time.Second

// test runs the group once. A test that is under way when ctx ends is stopped and
// does not count. The error is of go test itself.
func (g group) test(ctx context.Context, o options, r *results) error {
	if ctx.Err() != nil {
		return nil
	}
	args := []string{"test", "-json", "-shuffle=on", "-count=1", "-timeout", o.limit.String()}
	if g.race {
		args = append(args, "-race")
	}
	// In another order each time: a run that has a limit is not always of the first ones.
	packages := slices.Clone(g.packages)
	rand.Shuffle(len(packages), func(i, k int) { packages[i], packages[k] = packages[k], packages[i] })
	cmd := exec.CommandContext(ctx, "go", append(args, packages...)...)
	cmd.Stderr = os.Stderr
	// The tests are children of go test: the signal goes to all of them.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = killAfter
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("go test: %w", err)
	}
	read := r.read(ctx, out)
	err = cmd.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what a test left behind, mostly nothing
	var exit *exec.ExitError
	if ctx.Err() != nil || errors.As(err, &exit) && exit.Exited() {
		err = nil // it stopped, or said which tests failed
	}
	return errors.Join(read, err)
}

// event is a line of go test -json.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64 // seconds
}

// results gathers what all rounds said.
type results struct {
	runs     map[string]int           // by package
	longest  map[string]time.Duration // by package
	failures []string
	said     map[string]*bytes.Buffer // by package and test that runs now
}

// maxOutput bounds what is remembered of what one test says.
const maxOutput = 1 << 20

// read follows the events of one go test until out ends.
func (r *results) read(ctx context.Context, out io.Reader) error {
	r.said = make(map[string]*bytes.Buffer)
	if r.runs == nil {
		r.runs, r.longest = make(map[string]int), make(map[string]time.Duration)
	}
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				fmt.Printf("%s", line) // of the compiler
			} else if ctx.Err() == nil {
				r.note(e)
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, os.ErrClosed):
			return nil
		case err != nil:
			return fmt.Errorf("read from go test: %w", err)
		}
	}
}

func (r *results) note(e event) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "output", "build-output":
		said := r.said[key]
		if said == nil {
			said = new(bytes.Buffer)
			r.said[key] = said
		}
		if said.Len() < maxOutput {
			said.WriteString(e.Output)
		}
	case "pass", "skip", "fail":
		if e.Action == "fail" {
			r.failures = append(r.failures, strings.TrimSpace(key))
			fmt.Printf("FAIL %s after %.1f s\n", key, e.Elapsed)
			if said := r.said[key]; said != nil {
				fmt.Printf("%s\n", said)
			}
			if e.Test == "" {
				r.printUnfinished(os.Stdout, e.Package)
			}
		}
		delete(r.said, key)
		if e.Test == "" && e.Action != "skip" {
			r.runs[e.Package]++
			r.longest[e.Package] = max(r.longest[e.Package], time.Duration(e.Elapsed*float64(time.Second)))
		}
	}
}

// printUnfinished prints what the tests of a package said that had neither passed nor
// failed when the package failed: the process died while they ran, and what it said
// of that stands there.
func (r *results) printUnfinished(w io.Writer, pkg string) {
	for _, key := range slices.Sorted(maps.Keys(r.said)) {
		if strings.HasPrefix(key, pkg+" Test") {
			fmt.Fprintf(w, "unfinished: %s\n%s\n", key, r.said[key])
			delete(r.said, key)
		}
	}
}

// report prints how often each package ran and how it went.
func (r *results) report(w io.Writer, wall time.Duration) {
	runs, failures, failed := 0, 0, make(map[string]int)
	for _, f := range r.failures {
		if !strings.Contains(f, " ") { // a package, which its tests come before
			failed[f]++
			failures++
		}
	}
	slowest := slices.SortedFunc(maps.Keys(r.runs), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.longest[b], r.longest[a]), cmp.Compare(a, b))
	})
	fmt.Fprintf(w, "\n%8s %8s %10s  %s\n", "runs", "failed", "longest", "package")
	for _, p := range slowest {
		runs += r.runs[p]
		fmt.Fprintf(w, "%8d %8d %10v  %s\n", r.runs[p], failed[p], r.longest[p].Round(100*time.Millisecond), p)
	}
	fmt.Fprintf(w, "\nstress: %d runs of %d packages, %d failures, %v\n", runs, len(r.runs), failures,
		wall.Round(time.Second))
	for _, f := range r.failures {
		fmt.Fprintln(w, "failed:", f)
	}
}
