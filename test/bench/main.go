// Command bench measures Trivet against the goals it has set itself. It prints
// a table and writes results.json; README.md says how each figure is taken. A second
// table shows what tests have recorded.
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
	"runtime/pprof"
	"strings"
	"syscall"
	"time"

	"github.com/trivet-ha/trivet/app"
)

// options are the flags.
type options struct {
	area     string
	out      string
	dir      string
	binary   string
	trials   int
	nodes    int
	offs     int
	cut      time.Duration
	profiles string
	bare     string
	attack   bool
	least    time.Duration
	routes   string

	revision string // to compare with; empty: none
	turns    int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer app.BoundGarbage()()                                         // as trivet serve does
	err := errors.Join(os.Unsetenv("GOGC"), os.Unsetenv("GOMEMLIMIT")) // peers that see either bound nothing themselves
	if err == nil {
		err = run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// areas lists what can be measured; a new area is a file and a line here.
func areas() []Area {
	return []Area{logArea(), failureArea(), memoryArea(), apiArea(), contractArea(), gateArea(), leaseArea(), crowdArea(),
		haconfigArea(), failoverArea(), growthArea(), pageArea(), recorderArea()}
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	var names []string
	for _, a := range areas() {
		names = append(names, a.Name)
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.area, "area", "", "measure one area: "+strings.Join(names, ", ")+" (default all)")
	flags.StringVar(&o.out, "out", "results.json", "where the results are written")
	flags.StringVar(&o.dir, "dir", os.TempDir(), "on whose disk the peers keep their logs")
	flags.StringVar(&o.binary, "trivet", "", "measure this binary (default: build one)")
	flags.IntVar(&o.trials, "trials", 30, "leaders killed, and leaders stopped")
	flags.IntVar(&o.nodes, "nodes", 10_000,
		"introspected by area api, and a tenth of what area growth grows to; the goals are those of 10,000")
	flags.IntVar(&o.offs, "power-offs", 30, "machines that lose their power in area failover")
	flags.DurationVar(&o.cut, "cut", 8*time.Minute, "when area failover gives up waiting for a pod")
	flags.StringVar(&o.routes, "routes", "",
		"ask only for routes of area crowd whose names match this regular expression, as GET /metrics does")
	flags.DurationVar(&o.least, "least", 5*time.Second, "how long each attack of area crowd lasts at the least")
	flags.StringVar(&o.profiles, "profiles", "",
		"write CPU profiles into this directory: of this process, which runs the peers of area log, and of the peers of areas api and lease at work")
	flags.BoolVar(&o.attack, "attack", false, "measure nothing, and be an attacker of area crowd, as standard input says")
	flags.StringVar(&o.bare, "bare", "", "measure nothing, and be the bare server of area haconfig at this address")
	short := flags.Bool("short", false,
		"see only that every area runs: one trial, few nodes and attacks; the figures mean nothing")
	flags.StringVar(&o.revision, "compare", "", "measure this `revision` as well, in turns, and print both")
	flags.IntVar(&o.turns, "turns", 3, "how often -compare measures each area of both")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if *short {
		o.trials, o.nodes, o.offs, o.least, o.routes = 1, 500, 1, 200*time.Millisecond, shortRoutes
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.turns < 1 || o.turns > 100:
		return o, fmt.Errorf("-turns %d: from 1 to 100", o.turns)
	case o.trials < 1 || o.trials > 1000:
		return o, fmt.Errorf("-trials %d: from 1 to 1000", o.trials)
	case o.nodes < 100 || o.nodes > 10_000: // the growth is to ten times that, and a cluster has 100,000 records at most
		return o, fmt.Errorf("-nodes %d: from 100 to 10000", o.nodes)
	case o.offs < 1 || o.offs > 1000:
		return o, fmt.Errorf("-power-offs %d: from 1 to 1000", o.offs)
	case o.cut < time.Minute || o.cut > 20*time.Minute: // a watch lasts longer
		return o, fmt.Errorf("-cut %v: from 1m to 20m", o.cut)
	}
	return o, nil
}

// shortRoutes are those of area crowd that -short attacks: one of each class; and few ramdisks.
const shortRoutes = `^(GET /metrics|GET /v1/introspection|POST /v1/continue|GET /v1/events|ramdisks from \d+)$`

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if o.attack {
		return serveAttack(ctx, os.Stdin, stdout)
	}
	if o.bare != "" {
		return serveBare(ctx, o.bare)
	}
	if o.profiles != "" {
		var stop func() error // no := below, which would give the deferred function an err of its own
		if stop, err = startProfile(o.profiles); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	work, err := os.MkdirTemp(o.dir, "trivet-bench-*")
	if err != nil {
		return fmt.Errorf("make a working directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if err := onDisk(work); err != nil {
		return err
	}
	if o.revision != "" {
		return compare(ctx, o, work, stdout, stderr)
	}
	report := &Report{}
	failed := measure(ctx, o, work, report, stderr)
	report.Print(stdout)
	return errors.Join(failed, report.Save(o.out), printRecorded(stdout))
}

// measure runs the areas asked for; one that fails does not keep the others
// from running.
func measure(ctx context.Context, o options, work string, report *Report, stderr io.Writer) error {
	routes, err := regexp.Compile(o.routes)
	if err != nil {
		return fmt.Errorf("-routes: %w", err)
	}
	bench := &Bench{Report: report, Dir: work, Routes: routes, Least: o.least, Trials: o.trials, Nodes: o.nodes,
		PowerOffs: o.offs, Cut: o.cut, Profiles: o.profiles, Out: o.out, binary: o.binary, stderr: stderr}
	var failed []error
	known := false
	for _, a := range areas() {
		if o.area != "" && o.area != a.Name {
			continue
		}
		known = true
		began := time.Now()
		bench.Say("%s: %s", a.Name, a.About)
		if err := a.Measure(ctx, bench); err != nil {
			failed = append(failed, fmt.Errorf("area %s: %w", a.Name, err))
		}
		bench.Say("%s: took %v", a.Name, time.Since(began).Round(time.Second))
	}
	if !known {
		return fmt.Errorf("no area is called %q", o.area)
	}
	return errors.Join(failed...)
}

// startProfile begins a profile of this process in a directory, which it makes.
func startProfile(dir string) (stop func() error, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	f, err := os.Create(filepath.Join(dir, "bench.pprof"))
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(fmt.Errorf("profile: %w", err), f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}
