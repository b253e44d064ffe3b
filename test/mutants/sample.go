package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/test/testenv"
)

// sampledDirs are the directories whose mutants a sample is taken of.
const sampledDirs = "fsm,raftstore,cluster,firewall,failover,lease,client/lease"

// stage is a run of tests that may notice a fault.
type stage struct {
	pkg, run string
	args     []string // more arguments of go test
}

// further returns the tests that judge what a package's own tests let pass, the cheap
// ones first: those of its directory, else of the next one above that has any. They are tests
// of seconds: what only attacks on real processes would notice survives.
func further(dir string) []stage {
	all := map[string][]stage{
		"client/lease": {simulated("Lease|Linearizable|Sidecars")},
		"cluster":      {simulated("Losses|Members|Moves|Contact|GossipKey|Confirm|Forwarded")},
		"failover":     {simulated("Failover|SilentAPI|SwitchedOn")},
		"firewall": {asRoot("./firewall/..."),
			simulated("Door|LateWrite|StoppedBetween|Flush|Woken|Restarted|Planned")},
		"firewall/floatingip": {asRoot("./firewall/floatingip")},
		"fsm":                 {{pkg: "./fsm", run: "."}, simulated(".")}, // the machine tests the domains below it
		"raftstore/leader":    {simulated("Losses|HandedOn|Maintenance|Observer|Demoted|Door|Planned|Clocks")},
		"lease":               {simulated("Lease|Linearizable|Sidecars")},
		"cluster/pki":         {{pkg: "./cluster", run: "."}},
		"raftstore": {simulated(
			"Losses|Five|Members|Snapshot|Terms|Confirm|Stopped|Absence|Unknown|Newer|Restore")},
	}
	for ; dir != "."; dir = path.Dir(dir) {
		if stages, ok := all[dir]; ok {
			return stages
		}
	}
	return nil
}

// simulated are tests of the simulation.
func simulated(run string) stage {
	return stage{pkg: "./test/simtest", run: run, args: []string{"-short"}}
}

// asRoot are tests in network namespaces.
func asRoot(pkg string) stage { return stage{pkg: pkg, run: "."} }

// Bounds of a mutated run: a fault may make tests wait for ever.
const (
	limitFactor = 3 // times what the run takes without the fault
	limitLeast  = 20 * time.Second
)

// worthNarrowing is how long a run takes of whose tests those alone judge a fault that execute
// it: to find these costs as much as some runs.
const worthNarrowing = 5 * time.Second

// sampler judges faults by the tests of their packages, and by those named above.
type sampler struct {
	*runner
	own    bool          // by a package's own tests alone
	narrow time.Duration // how long a run takes of whose tests only some judge a fault
	dirs   []string      // what the faults are taken of

	mu       sync.Mutex
	took     map[string]func() (time.Duration, error) // of each run of tests, without a fault
	recorded map[string]func() (coverage, error)      // by package of the tests; each made once
}

func newSampler(r *runner, own bool, dirs []string) *sampler {
	return &sampler{runner: r, own: own, narrow: worthNarrowing, dirs: dirs,
		took: make(map[string]func() (time.Duration, error)), recorded: make(map[string]func() (coverage, error))}
}

// sample chooses n of the faults; the same seed chooses the same ones of the same
// source.
func sample(all []fault, n int, seed uint64) []fault {
	chosen := make([]fault, 0, min(n, len(all)))
	for _, i := range rand.New(rand.NewPCG(seed, 0)).Perm(len(all))[:min(n, len(all))] {
		chosen = append(chosen, all[i])
	}
	slices.SortStableFunc(chosen, func(a, b fault) int {
		return cmp.Or(strings.Compare(a.file, b.file), a.start-b.start)
	})
	return chosen
}

// run chooses from the faults of the directories, and lists or judges those whose places match
// a pattern.
func (s *sampler) run(ctx context.Context, n int, seed uint64, pattern string, list bool,
	stdout, stderr io.Writer) int {
	places, err := regexp.Compile(pattern)
	if err != nil {
		fmt.Fprintln(stderr, "error: -run:", err)
		return 2
	}
	all, err := generate(s.root, s.dirs)
	if err != nil {
		fmt.Fprintln(stderr, "error:", err)
		return 2
	}
	elsewhere := func(f fault) bool { return !places.MatchString(f.at()) }
	chosen := slices.DeleteFunc(sample(all, n, seed), elsewhere)
	if len(chosen) == 0 {
		fmt.Fprintf(stderr, "error: nothing to mutate in %s at %q\n", strings.Join(s.dirs, ", "), pattern)
		return 2
	}
	fmt.Fprintf(stdout, "%d of %d generated mutants, seed %d\n", len(chosen), len(all), seed)
	if list {
		for _, f := range chosen {
			fmt.Fprintf(stdout, "%s: %s: %s\n", f.at(), f.kind, f.new)
		}
		return 0
	}
	return judgeSample(ctx, s, chosen, stdout)
}

// judgeFault runs the tests with the fault in, those of its package first, and stops at
// the first run that fails. why of a caught one names that run, of a survivor it
// is the difference.
func (s *sampler) judgeFault(ctx context.Context, f fault) (verdict, error) {
	content, diff, err := f.mutated(s.root)
	if err != nil {
		return verdict{}, err
	}
	own := stage{pkg: f.pkg(), run: "."}
	stages := []stage{own}
	if !s.own {
		stages = append(stages, slices.DeleteFunc(further(path.Dir(f.file)), func(of stage) bool {
			return of.mutant().baseline() == own.mutant().baseline()
		})...)
	}
	for i, of := range stages {
		of, took, err := s.chosen(ctx, of, f)
		if err != nil {
			return verdict{}, err
		}
		if i > 0 && of.run == noTest {
			continue // the first one tells whether the fault compiles
		}
		v, err := s.judgeBy(ctx, of, took, f, content)
		if err != nil || v.outcome != survived {
			return v, err
		}
	}
	return verdict{outcome: survived, why: diff}, nil
}

// judgeBy runs tests with a fault in. It may make them wait for ever, so they have three times
// what they take without it. A run that ends by that counts where they are as fast as ever, and
// is made once more where the machine has become slower since they were measured.
func (s *sampler) judgeBy(ctx context.Context, of stage, took time.Duration, f fault, source []byte) (v verdict,
	err error) {
	m := of.mutant()
	m.File, m.Args = f.file, append([]string{"-failfast"}, m.Args...)
	for err == nil {
		output, failed := s.test(ctx, m, source, limitLeast+limitFactor*took)
		switch {
		case ctx.Err() != nil:
			return verdict{}, ctx.Err()
		case strings.Contains(output, "[build failed]"), strings.Contains(output, "[setup failed]"):
			return verdict{outcome: broken, why: "it does not compile", output: output}, nil
		case failed == nil:
			return verdict{outcome: survived}, nil
		case !strings.Contains(output, timedOut):
			return verdict{outcome: caught, why: m.Package}, nil
		}
		before := took
		if took, err = s.measure(ctx, of); err == nil && took <= before {
			return verdict{outcome: caught, why: m.Package}, nil
		}
	}
	return verdict{}, err
}

// chosen returns the tests of a stage that a fault is judged by, and how long they take without
// it: all, or of a long run those that execute it.
func (s *sampler) chosen(ctx context.Context, of stage, f fault) (stage, time.Duration, error) {
	took, err := s.duration(ctx, of)
	if err != nil || took < s.narrow || strings.HasSuffix(of.pkg, "...") {
		return of, took, err
	}
	functions, err := f.functions(s.root)
	if err != nil {
		return stage{}, 0, err
	}
	s.mu.Lock()
	record, known := s.recorded[of.pkg]
	if !known {
		record = sync.OnceValues(func() (coverage, error) { return s.record(ctx, of, s.dirs) })
		s.recorded[of.pkg] = record
	}
	s.mu.Unlock()
	all, err := record()
	if err != nil {
		return stage{}, 0, err
	}
	return all.narrowed(of, functions)
}

// timedOut is what a program of tests says that ends by its time limit.
const timedOut = "panic: test timed out after"

// mutant is the run of tests.
func (s stage) mutant() Mutant { return Mutant{Package: s.pkg, Run: s.run, Args: s.args} }

// duration returns how long a run of tests takes without a fault, measured once.
func (s *sampler) duration(ctx context.Context, of stage) (time.Duration, error) {
	key := of.mutant().baseline()
	s.mu.Lock()
	run, known := s.took[key]
	if !known {
		run = sync.OnceValues(func() (time.Duration, error) { return s.measure(ctx, of) })
		s.took[key] = run
	}
	s.mu.Unlock()
	return run()
}

// measure makes a run of tests without a fault, which must pass, and returns how long that
// takes; their program is built before.
func (s *sampler) measure(ctx context.Context, of stage) (time.Duration, error) {
	m := of.mutant()
	if _, err := s.relinker.program(ctx, m.Package); err != nil && !errors.Is(err, errNotRelinked) {
		return 0, err
	}
	start := time.Now()
	output, err := s.test(ctx, m, nil, s.timeout)
	switch {
	case err != nil:
		return 0, fmt.Errorf("without a mutant, go test %s: %w\n%s", m.baseline(), err, tail(output, detailLines))
	case strings.Contains(output, "no tests to run"):
		return 0, fmt.Errorf("go test %s runs no test", m.baseline())
	}
	return time.Since(start), nil
}

// judgeSample judges the faults, prints a line for each in order, then what
// survived, and the share that was caught. It returns the exit code: survivors are
// for a reader to judge, since some change nothing that could be noticed.
func judgeSample(ctx context.Context, s *sampler, chosen []fault, out io.Writer) int {
	place := len("PLACE")
	for _, f := range chosen {
		place = max(place, len(f.at()))
	}
	row := fmt.Sprintf("%%-%dv  %%-%dv  %%-%dv  %%-8v  %%v\n", place, len(kindDoubled), len(broken))
	fmt.Fprintf(out, row, "PLACE", "KIND", "VERDICT", "TIME", "BY")
	var survivors strings.Builder
	count := make(map[outcome]int)
	var judging sync.WaitGroup
	defer judging.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	judge := func(ctx context.Context, i int) (verdict, error) { return s.judgeFault(ctx, chosen[i]) }
	for i, result := range judgeEach(ctx, len(chosen), judge, &judging) {
		f, v := chosen[i], <-result
		if v.err != nil {
			fmt.Fprintf(out, "error: %s: %v\n", f.at(), v.err)
			return 1
		}
		count[v.outcome]++
		by := v.why
		if v.outcome == survived {
			by = ""
			fmt.Fprintf(&survivors, "\n%s: %s\n%s", f.at(), f.kind, v.why)
		}
		fmt.Fprintf(out, row, f.at(), f.kind, v.outcome, v.took.Round(100*time.Millisecond), by)
	}
	fmt.Fprint(out, survivors.String())
	judged := count[caught] + count[survived]
	fmt.Fprintf(out, "\n%d of %d caught (%.1f %%); %d do not compile\n", count[caught], judged,
		100*float64(count[caught])/float64(max(judged, 1)), count[broken])
	fmt.Fprintln(out, testenv.CountLine("mutants.judged", float64(judged)))
	fmt.Fprintln(out, testenv.CountLine("mutants.survived", float64(count[survived])))
	return 0
}
