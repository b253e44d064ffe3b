// Command stress runs tests again and again on a machine that it keeps busy: with
// -race and -shuffle=on, next to two busy loops per core. A test that depends on the
// speed of the machine, on the order of tests or on luck fails here first.
//
//	go run ./test/stress [-plain PACKAGES] [-count N] [-timeout D] [-within D] [PACKAGE...]
//
// What is tested inherits the environment: GOMAXPROCS=1 runs it on one processor,
// GOFLAGS=-tags=e2e adds the tests that start processes, and GOCACHE begins with
// another build cache. `make stress` calls it.
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
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// loopsPerCore are the busy loops: a test gets a third of a processor.
const loopsPerCore = 2

// options are the command's arguments and flags.
type options struct {
	packages []string      // patterns for go list
	plain    []string      // patterns of those that run without the race detector
	count    int           // rounds
	limit    time.Duration // of one package in one round
	within   time.Duration // of all rounds, 0 for no bound
}

func main() {
	var o options
	plain := flag.String("plain", "", "which of the packages run without the race detector, separated by spaces")
	flag.IntVar(&o.count, "count", 10, "how often")
	flag.DurationVar(&o.limit, "timeout", 30*time.Minute, "limit of one package in one round, which catches what hangs")
	flag.DurationVar(&o.within, "within", 0, "end the last round after this time; 0 for no limit")
	flag.Parse()
	o.plain, o.packages = strings.Fields(*plain), flag.Args()
	if len(o.packages) == 0 {
		o.packages = []string{"./..."}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// run carries out all rounds and returns an error if one of them failed.
func run(ctx context.Context, o options) error {
	if o.count < 1 {
		return errors.New("-count is at least 1")
	}
	groups, err := split(ctx, o)
	if err != nil {
		return err
	}
	began, limited := time.Now(), ctx
	if o.within > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, o.within)
		defer cancel()
	}
	defer load(loopsPerCore * runtime.NumCPU())()
	var r results
	for n := 0; n < o.count && limited.Err() == nil; n++ {
		for _, g := range groups {
			if err := g.test(limited, o, &r); err != nil {
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
