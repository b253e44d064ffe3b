// Command proof runs the long attacks on the promises, piece by piece, and keeps what
// each run found in docs/proof.json, of which the figures of docs/proof.md are made.
//
//	go run ./test/proof [-run REGEXP] [-for DURATION] [-again] [-list]
//
// Run it from the root of the module, as root. A piece is run again and again, each time
// with another seed, until what its runs have counted reaches its goal; pieces that have
// reached it are passed over, so that a run which was ended goes on where it was. A run
// that finds a fault is recorded as well, and ends the command with exit code 1. -for
// begins no run after that time, -again adds one run to pieces that have reached their
// goal, -list says how far each is.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// recordPath is where the runs are kept, from the root of the module.
const recordPath = "docs/proof.json"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], pieces(), os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the command without its process: the pieces are an argument, so that its test
// can hand in small ones.
func run(ctx context.Context, args []string, all []piece, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("proof", flag.ContinueOnError)
	flags.SetOutput(stderr)
	pattern := flags.String("run", "", "run only the pieces whose name matches this `regexp`")
	within := flags.Duration("for", 0, "begin no run after this time; 0 for no limit")
	again := flags.Bool("again", false, "add one run to each piece that has reached its goal")
	list := flags.Bool("list", false, "print how far each piece is, and run none")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	wanted, err := regexp.Compile(*pattern)
	if err != nil {
		fmt.Fprintln(stderr, "error: -run:", err)
		return 2
	}
	all = slices.DeleteFunc(slices.Clone(all), func(p piece) bool { return !wanted.MatchString(p.name) })
	if len(all) == 0 {
		fmt.Fprintf(stderr, "error: no piece matches %q\nhint: -list shows them all\n", *pattern)
		return 2
	}
	runs, err := readRuns(recordPath)
	if err != nil {
		fmt.Fprintln(stderr, "error:", err)
		return 1
	}
	if *list {
		for _, p := range all {
			fmt.Fprintf(stdout, "%-12s %s\n", p.name, progress(p, runs))
		}
		return 0
	}
	s := &session{stdout: stdout, stderr: stderr, began: time.Now(), within: *within}
	for _, p := range all {
		if err := s.reach(ctx, p, *again); err != nil {
			fmt.Fprintf(stderr, "error: %s: %v\n", p.name, err)
			return 1
		}
	}
	return 0
}

// session is one run of the command.
type session struct {
	stdout, stderr io.Writer
	began          time.Time
	within         time.Duration
}

// reach runs a piece until its goal is reached, or the session's time is over.
func (s *session) reach(ctx context.Context, p piece, again bool) error {
	for {
		runs, err := readRuns(recordPath)
		switch {
		case err != nil:
			return err
		case s.within > 0 && time.Since(s.began) >= s.within:
			fmt.Fprintf(s.stdout, "%-12s the time is over: %s\n", p.name, progress(p, runs))
			return nil
		case counted(p, runs) >= p.goal && !again:
			fmt.Fprintf(s.stdout, "%-12s %s\n", p.name, progress(p, runs))
			return nil
		}
		again = false
		seed, part := nextRun(p, runs)
		one, err := s.once(ctx, p, seed, part)
		if ctx.Err() != nil {
			return ctx.Err() // a run that was ended says nothing
		}
		if err != nil {
			return err
		}
		if err := appendRun(recordPath, one); err != nil {
			return err
		}
		if one.Failed != "" {
			return fmt.Errorf("the run with seed %d found something: %s", one.Seed, one.Failed)
		}
		if one.Figures[p.counts] <= 0 {
			return fmt.Errorf("the run with seed %d counted no %s", one.Seed, p.counts)
		}
	}
}

// once runs a piece once. The error is of the machine; what the run found is in Failed.
func (s *session) once(ctx context.Context, p piece, seed int, part string) (Run, error) {
	ctx, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	args, env := p.args(seed, part), p.environ(seed, part)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(append(os.Environ(), "CI=true"), env...)
	log := &output{counted: make(map[string]float64)}
	cmd.Stdout, cmd.Stderr = io.MultiWriter(s.stdout, log), io.MultiWriter(s.stderr, log)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	one := Run{Piece: p.name, Seed: seed, Part: part, Date: time.Now().UTC().Format(time.DateOnly)}
	commit, machine, err := whereabouts(ctx)
	if err != nil {
		return Run{}, err
	}
	one.Commit, one.Machine = commit, machine
	fmt.Fprintf(s.stdout, "%-12s seed %d: %s %s\n", p.name, seed, strings.Join(env, " "),
		strings.Join(args, " "))
	began := time.Now()
	if err := cmd.Run(); err != nil {
		one.Failed = fmt.Sprintf("%v: %s", err, log.last())
	}
	one.Seconds = int(time.Since(began).Seconds())
	one.Figures = log.counted
	for _, name := range p.zero {
		if n, known := one.Figures[name]; one.Failed == "" && (n != 0 || !known) {
			one.Failed = fmt.Sprintf("%s is %g, of %d figures", name, n, len(one.Figures))
		}
	}
	return one, nil
}
