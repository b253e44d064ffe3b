// Command gate runs what decides whether a change lands, and what a builder runs for
// the parts that a change touches. CONTRIBUTING.md has the table of the three tiers;
// the Makefile calls this command.
//
//	gate lint              tier 1: formatting, vet, staticcheck, the structure of the house
//	gate test [-times N]   tier 1: all tests that need no other process, then some under the race detector
//	gate affected          the targets of tier 2 that the change since the last landed commit touches
//	gate verify [TARGET…]  run these targets, or the affected ones, or all with -all
//
// Run it from the root of the module. It exits with 0 when all passed, with 1 for the
// change, with 75 for the environment (disk full, killed) and with 2 on wrong usage.
// Where TRIVET_GATE_REPORT names a file, lint and test append their summary to it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Exit codes. exitEnvironment is EX_TEMPFAIL of sysexits.h: try again elsewhere or later.
const (
	exitPassed      = 0
	exitChange      = 1
	exitUsage       = 2
	exitEnvironment = 75
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string) int {
	if len(args) == 0 {
		return usage("name what to run: lint, test, affected or verify")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	times := flags.Int("times", 0, "test: list the `N` slowest tests")
	base := flags.String("base", "", "affected, verify: the `COMMIT` that has landed; empty: found in the history")
	all := flags.Bool("all", false, "verify: run all targets")
	switch err := flags.Parse(args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		return exitPassed
	case err != nil:
		return exitUsage
	}
	if flags.NArg() > 0 && args[0] != "verify" {
		return usage("%s takes no argument %q", args[0], flags.Arg(0))
	}
	switch args[0] {
	case "lint":
		return lint(ctx, *base)
	case "test":
		return test(ctx, *times)
	case "affected":
		return printAffected(ctx, *base)
	case "verify":
		return verify(ctx, *base, flags.Args(), *all)
	}
	return usage("nothing is called %q here: there are lint, test, affected and verify", args[0])
}

func usage(format string, args ...any) int {
	fmt.Fprintf(os.Stderr, "error: "+format+"\n", args...)
	return exitUsage
}
