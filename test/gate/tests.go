package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/trivet-ha/trivet/test/archtest"
)

const modulePath = archtest.Module

const (
	// packageLimit ends a package that hangs. It is no measure of speed.
	packageLimit = 30 * time.Minute
	// killAfter is how long go test and the tests that it runs may take to end once
	// they are interrupted.
	killAfter = 20 * time.Second
	// mostAgain is how many failed tests are run again. Where more fail, it is not luck.
	mostAgain = 5
)

// slow lists the packages that take longest. They are tested first, so that no core is
// idle at the end.
var slow = []string{"test/simtest", "cli", "app", "fsm", "inspector", "cluster", "failover", "api"}

// raced lists the packages with goroutines of their own, and those below them. Their
// tests run under the race detector, too; the longest is first.
var raced = []string{"api", "raftstore/...", "cluster", "firewall", "lease/...", "client/lease", "api/events", "app",
	"app/admin", "app/health", "internal/httpserver"}

// racedSimulation is the part of the simulation that runs under the race detector; the
// whole takes too long there.
const racedSimulation = `^Test(Losses|LeasesAreLinearizable|HistoryIsLinearizable|FailoverSurvives|IntrospectionsSurvive|OneDoor|ElectorsNeverContradict|` +
	`GossipKeyIsRotatedThroughLosses|MembersComeAndGoWhileLeadersDie|EventsReachEveryClientOnce|ManyEventsReachEveryClientOnce|RelaysSurvive|` +
	`DiscoverySurvives|PeerLeavesAmidWork|MaintenanceHandsTheDoorOn|Failovers|OverlappingFaults)$`

// racedBudget is how much of it: leader losses and schedules of overlapping faults.
var racedBudget = []string{"TRIVET_SIM_LOSSES=40", "TRIVET_SIM_SCHEDULES=2"}

// suite is what is tested: runs of go test in the directory of a module. A test in a
// bubble, by package, has no second run.
type suite struct {
	dir     string
	runs    []goTest
	bubbles map[string][]string
}

// tier1 runs all tests without the race detector, then some with it. What has a tag e2e
// is not among them, and lint has tested the structure of the house.
func tier1(ctx context.Context) (suite, error) {
	tree, err := archtest.Load(".")
	if err != nil {
		return suite{}, err
	}
	packages, err := packagesBut(ctx, "test/archtest")
	return suite{dir: ".", bubbles: archtest.BubbleTests(tree), runs: []goTest{
		{args: inOrder(packages)},
		{race: true, args: prefixed(raced)},
		{race: true, env: racedBudget, args: []string{"-run", racedSimulation, "./test/simtest"}},
	}}, err
}

// test runs tier 1's tests, and each that failed once more alone.
func test(ctx context.Context, times int) int {
	s := &stage{name: "test", began: time.Now()}
	all, err := tier1(ctx)
	if err != nil {
		s.failed = append(s.failed, err.Error())
		return s.finish(ctx)
	}
	r := newResults(os.Stdout)
	all.run(ctx, r, s)
	for _, key := range r.slowest(times) {
		fmt.Printf("%7.1f s  %s\n", r.took[key], strings.TrimPrefix(key, modulePath+"/"))
	}
	fmt.Printf("\n%d packages, %d tests passed, %d failed\n", r.packages, r.tests, len(r.failures))
	return s.finish(ctx)
}

// run makes the runs and notes in s what failed, and what failed at first only.
func (all suite) run(ctx context.Context, r *results, s *stage) {
	for _, g := range all.runs {
		g.dir = all.dir
		if err := runTests(ctx, r, g); err != nil {
			s.failed = append(append(s.failed, err.Error()), r.unusual...)
		}
		all.withoutCrash(ctx, r, g, s)
	}
	flaky := all.again(ctx, r)
	for i, f := range r.failures {
		what := f.what()
		if f.race {
			what += " (under -race)"
		}
		if flaky[i] {
			s.notes = append(s.notes, fmt.Sprintf("FLAKY %s: it failed, then passed alone; first: %s", what, f.First))
		} else {
			s.failed = append(s.failed, what+": "+f.First)
		}
	}
}

// detectorCrash matches what a test binary prints when the race detector itself crashes.
var detectorCrash = regexp.MustCompile(`(?m)^(SIGSEGV: segmentation violation\nPC=|.*ThreadSanitizer: CHECK failed)`)

// withoutCrash runs once more, with one processor, the tests of each package with bubbles
// in which the race detector crashed, and takes what comes of it. All timers of a bubble
// share one context of the detector, which breaks where two processors run timers that
// are due at one instant (https://go.dev/issue/78156).
func (all suite) withoutCrash(ctx context.Context, r *results, g goTest, s *stage) {
	for _, f := range slices.Clone(r.failures) {
		crashed := g.race && f.race && f.Test == "" && detectorCrash.MatchString(f.log)
		name := strings.TrimPrefix(f.Package, modulePath+"/")
		if !crashed || len(all.bubbles[name]) == 0 {
			continue
		}
		r.failures = slices.DeleteFunc(r.failures,
			func(o failure) bool { return o.race && o.Test == "" && o.Package == f.Package })
		s.notes = append(s.notes, "CRASH "+name+": the race detector crashed, and its tests ran again with one processor")
		alone := g
		alone.args = append(slices.DeleteFunc(slices.Clone(g.args), isPattern), "-cpu", "1", f.Package)
		if err := runTests(ctx, r, alone); err != nil {
			s.failed = append(s.failed, err.Error())
		}
	}
}

// isPattern says whether an argument of go test names packages.
func isPattern(arg string) bool { return strings.HasPrefix(arg, "./") }

// packagesBut lists the packages of the module without one.
func packagesBut(ctx context.Context, without string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "./...")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, firstError(said.String()))
	}
	return slices.DeleteFunc(strings.Fields(string(out)), func(p string) bool { return p == modulePath+"/"+without }), nil
}

// inOrder puts the slow packages first.
func inOrder(packages []string) []string {
	rank := func(p string) int {
		if at := slices.Index(slow, strings.TrimPrefix(p, modulePath+"/")); at >= 0 {
			return at
		}
		return len(slow)
	}
	slices.SortStableFunc(packages, func(a, b string) int { return rank(a) - rank(b) })
	return packages
}

func prefixed(dirs []string) (patterns []string) {
	for _, dir := range dirs {
		patterns = append(patterns, "./"+dir)
	}
	return patterns
}

// goTest is one run of go test.
type goTest struct {
	dir   string
	race  bool
	env   []string      // next to this process's
	limit time.Duration // of one package; 0 is packageLimit
	args  []string
}

// runTests runs go test once and follows what it tells. Its error is of go test itself;
// failed tests are in r.
func runTests(ctx context.Context, r *results, g goTest) error {
	if ctx.Err() != nil {
		return nil // the summary says so
	}
	args := []string{"test", "-json", "-count=1", "-vet=off", "-timeout", cmp.Or(g.limit, packageLimit).String()}
	if g.race {
		args = append(args, "-race")
	}
	r.race = g.race
	cmd := exec.CommandContext(ctx, "go", append(args, g.args...)...)
	cmd.Dir, cmd.Stderr, cmd.Env = g.dir, os.Stderr, append(os.Environ(), g.env...)
	// The tests are children of go test: the signal goes to all of them.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = killAfter
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	failed := len(r.failures)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("go test: %w", err)
	}
	read := r.follow(out)
	err = cmd.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what a test left behind, mostly nothing
	if len(r.failures) > failed || ctx.Err() != nil {
		err = nil // the summary says why
	}
	if err != nil {
		err = fmt.Errorf("go test: %w", err)
	}
	return errors.Join(read, err)
}

// again runs each failed test once more alone, as it ran before, and returns the indexes
// of the failures whose test passed. A test in a bubble has no second run: its time is
// virtual, so that it fails for a reason in the code. Neither has a package that ended
// before all its tests had run.
func (all suite) again(ctx context.Context, r *results) map[int]bool {
	flaky := make(map[int]bool)
	if len(r.failures) > mostAgain {
		return flaky
	}
	for i, f := range r.failures {
		died := slices.ContainsFunc(r.failures,
			func(other failure) bool { return other.Package == f.Package && other.Test == "" })
		if died || slices.Contains(all.bubbles[strings.TrimPrefix(f.Package, modulePath+"/")], f.Test) {
			continue
		}
		fmt.Printf("\n== %s once more, alone\n", f.what())
		second := newResults(r.out)
		err := runTests(ctx, second,
			goTest{dir: all.dir, race: f.race, args: []string{"-run", "^" + regexp.QuoteMeta(f.Test) + "$", f.Package}})
		flaky[i] = err == nil && len(second.failures) == 0 && second.tests == 1
	}
	return flaky
}
