// Command stress runs tests again and again on a machine that it keeps busy: with
// -shuffle=on, next to two busy loops per core, optionally on one processor and
// from an empty build cache. A test that depends on the speed of the machine, on
// the order of tests or on luck fails here first. `make stress` calls it.
//
// The busy loops are threads of this process, so they end with it however it ends.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// options are the command's flags.
type options struct {
	packages string        // patterns for go list, separated by spaces
	plain    string        // patterns of those that run without the race detector
	divided  string        // patterns of those that run in parts
	parts    string        // regular expressions as for -run, separated by spaces
	count    int           // rounds
	loops    int           // busy loops per core
	single   bool          // GOMAXPROCS=1 for what is tested
	cold     bool          // begin with an empty build cache
	limit    time.Duration // of one package in one round
	within   time.Duration // of all rounds, 0 for no bound
}

func main() {
	var o options
	flag.StringVar(&o.packages, "packages", "./...", "what to test, as for go test")
	flag.StringVar(&o.plain, "plain", "", "which of the packages run without the race detector")
	flag.StringVar(&o.divided, "divided", "", "which of the packages run in parts")
	flag.StringVar(&o.parts, "parts", "", "the tests of each part, as for go test -run, separated by spaces")
	flag.IntVar(&o.count, "count", 10, "how often")
	flag.IntVar(&o.loops, "loops", 2, "busy loops per core")
	flag.BoolVar(&o.single, "single", false, "run what is tested with GOMAXPROCS=1")
	flag.BoolVar(&o.cold, "cold", false, "begin with an empty build cache")
	flag.DurationVar(&o.limit, "timeout", 5*time.Minute, "limit of one package in one round")
	flag.DurationVar(&o.within, "within", 0, "end the last round after this time; 0 for no limit")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// run carries out all rounds and returns an error if one of them failed.
func run(ctx context.Context, o options) (err error) {
	if o.count < 1 || o.loops < 0 || flag.NArg() > 0 {
		return errors.New("-count is at least 1, -loops at least 0, and there are no arguments")
	}
	if (o.divided == "") != (o.parts == "") {
		return errors.New("-divided and -parts go together")
	}
	groups, err := split(ctx, o)
	if err != nil {
		return err
	}
	env, clean, err := environment(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, clean()) }()
	began, limited := time.Now(), ctx
	if o.within > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, o.within)
		defer cancel()
	}
	defer load(o.loops * runtime.NumCPU())()
	var r results
	for n := 0; n < o.count && limited.Err() == nil; n++ {
		for _, g := range groups {
			if err := g.test(limited, o, env, &r); err != nil {
				return err
			}
		}
		state := "done"
		if limited.Err() != nil {
			state = "ended early"
		}
		fmt.Printf("round %d of %d %s, %v\n", n+1, o.count, state, time.Since(began).Round(time.Second))
	}
	r.report(os.Stdout, time.Since(began))
	switch {
	case len(r.failures) > 0:
		return fmt.Errorf("%d failures", len(r.failures))
	case ctx.Err() != nil:
		return errors.New("interrupted")
	}
	return nil
}

// environment is what go test runs in. clean removes the build cache that it made.
func environment(o options) (env []string, clean func() error, err error) {
	env, clean = os.Environ(), func() error { return nil }
	if o.single {
		env = append(env, "GOMAXPROCS=1")
	}
	if o.cold {
		dir, err := os.MkdirTemp("", "trivet-stress-")
		if err != nil {
			return nil, nil, fmt.Errorf("make a build cache: %w", err)
		}
		env, clean = append(env, "GOCACHE="+dir), func() error { return os.RemoveAll(dir) }
	}
	return env, clean, nil
}

// load keeps n processors busy until stop is called.
func load(n int) (stop func()) {
	runtime.GOMAXPROCS(n + runtime.NumCPU())
	var ended atomic.Bool
	var loops sync.WaitGroup
	for range n {
		loops.Go(func() {
			for !ended.Load() {
			}
		})
	}
	return func() {
		ended.Store(true)
		loops.Wait()
	}
}
