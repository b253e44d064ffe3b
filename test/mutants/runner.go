package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// outcome is the verdict on one mutant.
type outcome string

const (
	caught      outcome = "caught"        // the test failed with the assertion
	survived    outcome = "SURVIVED"      // the test passed
	wrongReason outcome = "WRONG REASON"  // the test failed without the assertion
	broken      outcome = "BROKEN MUTANT" // it could not be built or does not fit the source
	baselineBad outcome = "BAD BASELINE"  // the test does not pass, or does not exist, without the mutant
)

const (
	maxOutput   = 4 << 20          // bytes of a test's output that are kept, the newest
	killGrace   = 30 * time.Second // beyond -timeout, for building and for go test's own stop
	buildBudget = 10 * time.Minute // a cold cache compiles every dependency first
)

// verdict is an outcome with the reason and the output behind it. The reason of caught is
// the line that says the assertion; its output is not kept.
type verdict struct {
	outcome outcome
	why     string
	output  string
}

// runner judges mutants of the module in root. It may be used concurrently:
// what judges is tests in virtual time, which do not feel a neighbour.
type runner struct {
	root     string
	timeout  time.Duration
	tested   bool     // every test passes without a mutant: it was seen
	env      []string // of the tests; nil is that of this process
	relinker *relinker

	mu        sync.Mutex
	baselines map[string]func() error // of each unmutated run, which is made once
}

// judge runs the mutant's test without and with the fault. Its error says
// that judging itself was impossible or interrupted.
func (r *runner) judge(ctx context.Context, m Mutant) (verdict, error) {
	source, err := m.mutated(r.root)
	if err != nil {
		return verdict{outcome: broken, why: err.Error()}, nil
	}
	if err := r.checkBaseline(ctx, m); err != nil {
		return verdict{outcome: baselineBad, why: err.Error()}, ctx.Err()
	}
	output, err := r.test(ctx, m, source, r.timeout)
	if ctx.Err() != nil {
		return verdict{}, ctx.Err()
	}
	return verdictOf(m, output, err), nil
}

func verdictOf(m Mutant, output string, err error) verdict {
	switch {
	case strings.Contains(output, "[build failed]"), strings.Contains(output, "[setup failed]"):
		return verdict{broken, "it does not compile", output}
	case err == nil:
		return verdict{survived, "the test passes with the fault in", output}
	case !strings.Contains(output, m.Assertion):
		return verdict{wrongReason, fmt.Sprintf("the test fails (%v) but never says %q", err, m.Assertion), output}
	}
	return verdict{outcome: caught, why: lineWith(output, m.Assertion)}
}

// lineWith returns the line of an output that holds a text.
func lineWith(output, text string) string {
	for line := range strings.Lines(output) {
		if strings.Contains(line, text) {
			return strings.TrimSpace(line)
		}
	}
	return text // it stands on several lines
}

// checkBaseline demands that the test exists and passes unmutated; the same
// run is done once however many mutants share it. Where all tests have passed
// already it is not done: a test that does not exist lets its mutants survive.
func (r *runner) checkBaseline(ctx context.Context, m Mutant) error {
	if r.tested {
		return nil
	}
	key := m.baseline()
	r.mu.Lock()
	run, known := r.baselines[key]
	if !known {
		run = sync.OnceValue(func() error { return r.baseline(ctx, m) })
		r.baselines[key] = run
	}
	r.mu.Unlock()
	return run()
}

func (r *runner) baseline(ctx context.Context, m Mutant) error {
	output, err := r.test(ctx, m, nil, r.timeout)
	switch {
	case err != nil:
		return fmt.Errorf("without the mutant, go test %s: %w\n%s", m.baseline(), err, tail(output, 20))
	case strings.Contains(output, "no tests to run"), strings.Contains(output, "[no test files]"):
		return fmt.Errorf("go test %s runs no test", m.baseline())
	}
	return nil
}

// test runs the mutant's test with source in the place of its file, or as it is where
// that is nil, and returns what it printed; the error is the test's failure.
func (r *runner) test(ctx context.Context, m Mutant, source []byte, limit time.Duration) (string, error) {
	dir, err := os.MkdirTemp("", "trivet-mutant-")
	if err != nil {
		return "", fmt.Errorf("make a directory for the mutant: %w", err)
	}
	defer os.RemoveAll(dir)
	original := filepath.Join(r.root, filepath.FromSlash(m.File))
	var overlay []string
	if source != nil {
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(original)), source, 0o600); err != nil {
			return "", fmt.Errorf("write mutated source: %w", err)
		}
	}
	p, err := r.relinker.program(ctx, m.Package)
	if err == nil && source != nil {
		p, err = p.relink(ctx, dir, original)
	}
	switch {
	case err == nil:
		return r.run(ctx, limit, p.dir, p.file, m.args("-test.", limit)...)
	case !errors.Is(err, errNotRelinked):
		return "", err
	case source != nil:
		file, err := writeOverlay(dir, original)
		if err != nil {
			return "", err
		}
		overlay = []string{"-overlay=" + file}
	}
	args := slices.Concat([]string{"test", "-tags=e2e", "-vet=off"}, overlay, m.args("-", limit), []string{m.Package})
	return r.run(ctx, buildBudget+limit, r.root, "go", args...)
}

// args are the arguments of go test, with the prefix that tells them from others'.
func (m Mutant) args(prefix string, limit time.Duration) []string {
	args := []string{prefix + "count=1", prefix + "timeout=" + limit.String(), prefix + "run=" + m.Run}
	for _, more := range m.Args {
		args = append(args, prefix+strings.TrimPrefix(more, "-"))
	}
	return args
}

// run runs a command that runs tests, and returns what it printed.
func (r *runner) run(ctx context.Context, limit time.Duration, dir, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit+killGrace)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, r.env
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // go test stops its children
	cmd.WaitDelay = killGrace
	var output lastBytes
	cmd.Stdout, cmd.Stderr = &output, &output
	err := cmd.Run()
	return string(output.kept), err
}

// writeOverlay writes the file that tells the compiler to read the mutated source,
// which is in dir, in place of the original.
func writeOverlay(dir, original string) (string, error) {
	overlay := filepath.Join(dir, "overlay.json")
	content, err := json.Marshal(
		map[string]map[string]string{"Replace": {original: filepath.Join(dir, filepath.Base(original))}})
	if err != nil {
		return "", fmt.Errorf("encode overlay: %w", err)
	}
	if err := os.WriteFile(overlay, content, 0o600); err != nil {
		return "", fmt.Errorf("write overlay: %w", err)
	}
	return overlay, nil
}

// lastBytes keeps the newest maxOutput bytes written to it, so that a mutant
// that floods its log cannot fill the memory.
type lastBytes struct{ kept []byte }

func (l *lastBytes) Write(p []byte) (int, error) {
	l.kept = append(l.kept, p...)
	if len(l.kept) > 2*maxOutput {
		l.kept = bytes.Clone(l.kept[len(l.kept)-maxOutput:])
	}
	return len(p), nil
}

// tail returns the last n lines of s.
func tail(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
