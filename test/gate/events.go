package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

// event is a line of `go test -json` (see `go doc test2json`).
type event struct {
	Action, Package, Test, Output string
	ImportPath, FailedBuild       string // of the compiler
	Elapsed                       float64
}

// failure is a test, or a package whose tests could not run to their end.
type failure struct {
	Package string // import path
	Test    string // top-level; empty: the package itself
	First   string // first error
	race    bool
	log     string
}

// what names the failed test in a summary.
func (f failure) what() string {
	return strings.TrimSpace(strings.TrimPrefix(f.Package, modulePath+"/") + " " + f.Test)
}

// results is what one or more runs of `go test` told. It is not for concurrent use.
type results struct {
	out      io.Writer
	race     bool // of the run that is followed
	failures []failure
	packages int // that ran
	tests    int // top-level, that passed
	took     map[string]float64
	unusual  []string // output of go test itself that is no event

	said    map[string]*bytes.Buffer // by package and top-level test, or by import path that is compiled
	running map[string]bool
}

func newResults(out io.Writer) *results {
	return &results{out: out, took: make(map[string]float64), said: make(map[string]*bytes.Buffer),
		running: make(map[string]bool)}
}

// maxLog bounds what is kept of what one test prints.
const maxLog = 256 << 10

// follow reads the events of one `go test -json` until r ends. It prints a line for
// each package, and what a failed test said.
func (r *results) follow(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) == nil {
				r.note(e)
			} else {
				r.unusual = append(r.unusual, strings.TrimSpace(string(line)))
				fmt.Fprintf(r.out, "%s", line)
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, os.ErrClosed):
			return nil
		case err != nil:
			return fmt.Errorf("read the events of go test: %w", err)
		}
	}
}

func (r *results) note(e event) {
	top, _, sub := strings.Cut(e.Test, "/")
	key := e.Package + " " + top
	if e.Package == "" {
		key = e.ImportPath
	}
	switch e.Action {
	case "run":
		r.running[key] = true
	case "output", "build-output":
		if e.Test == "" && packageLine.MatchString(e.Output) {
			fmt.Fprint(r.out, e.Output)
			return
		}
		r.say(key, e.Output)
	case "pass", "skip", "fail":
		if !sub {
			r.end(e, key)
		}
	}
}

// packageLine is what go test prints for a package that has ended.
var packageLine = regexp.MustCompile(`^(ok  |FAIL)\t`)

func (r *results) say(key, text string) {
	said := r.said[key]
	if said == nil {
		said = new(bytes.Buffer)
		r.said[key] = said
	}
	if said.Len() < maxLog {
		said.WriteString(text)
	}
}

// end notes that a top-level test, or a package (no test), has ended.
func (r *results) end(e event, key string) {
	delete(r.running, key)
	log := ""
	if said := r.said[key]; said != nil {
		log = said.String()
		delete(r.said, key)
	}
	switch {
	case e.Test != "":
		r.took[key] = max(r.took[key], e.Elapsed)
		if e.Action == "fail" {
			r.fail(failure{Package: e.Package, Test: e.Test, First: firstError(log), log: log})
		} else {
			r.tests++
		}
	case e.Action == "fail":
		r.packages++
		r.endOfPackage(e, log)
	case e.Action == "pass":
		r.packages++
	}
}

// endOfPackage records a package that failed, unless a test of it says why and all
// others had their turn.
func (r *results) endOfPackage(e event, log string) {
	if built := r.said[e.FailedBuild]; e.FailedBuild != "" && built != nil {
		log = built.String() + log
	}
	for _, key := range slices.Sorted(maps.Keys(r.running)) {
		if test, ok := strings.CutPrefix(key, e.Package+" "); ok {
			delete(r.running, key)
			if said := r.said[key]; said != nil {
				log += said.String()
				delete(r.said, key)
			}
			r.fail(failure{Package: e.Package, First: "the package ended while " + test + " ran: " + firstError(log), log: log})
			return
		}
	}
	explained := slices.ContainsFunc(r.failures,
		func(f failure) bool { return f.Package == e.Package && f.race == r.race })
	if !explained || diedEarly.MatchString(log) {
		r.fail(failure{Package: e.Package, First: firstError(log), log: log})
	}
}

// diedEarly matches what a test binary prints that did not run all its tests.
var diedEarly = regexp.MustCompile(`(?m)^(panic:|fatal error:|signal: |exit status [^1])`)

func (r *results) fail(f failure) {
	f.race = r.race
	r.failures = append(r.failures, f)
	fmt.Fprintf(r.out, "--- FAILED: %s\n%s", f.what(), f.log)
}

// errorLine matches the lines of a failed test that say what is wrong: a message of
// testing.T, a panic, a report of the race detector, or an error of the compiler.
var errorLine = regexp.MustCompile(
	`^\s*([\w./-]+\.go:\d+(:\d+)?: |panic: |fatal error: |WARNING: DATA RACE|signal: |error: )`)

// firstError returns the first line of a log that says what is wrong, at most 300
// bytes of it.
func firstError(log string) string {
	first := ""
	for line := range strings.Lines(log) {
		line = strings.TrimSpace(line)
		if errorLine.MatchString(line) && !strings.Contains(line, "waited ") {
			first = line
			break
		}
		if first == "" && line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "#") {
			first = line
		}
	}
	return first[:min(len(first), 300)]
}

// slowest returns the keys of the n tests that took longest.
func (r *results) slowest(n int) []string {
	keys := slices.SortedFunc(maps.Keys(r.took), func(a, b string) int {
		if r.took[a] != r.took[b] {
			return int(1000 * (r.took[b] - r.took[a]))
		}
		return strings.Compare(a, b)
	})
	return keys[:min(n, len(keys))]
}
