package testenv

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Goal is a bound on a figure. It is no test's judgement: what a busy machine may
// miss fails no test.
type Goal struct {
	limit float64
	least bool // the value is to be at least limit, not at most
}

// AtMost is the goal of what is to be small.
func AtMost(limit float64) Goal { return Goal{limit: limit} }

// AtLeast is the goal of what is to be large.
func AtLeast(limit float64) Goal { return Goal{limit: limit, least: true} }

// String spells the goal, as in "<= 3" or ">= 1.5".
func (g Goal) String() string {
	if g.least {
		return fmt.Sprintf(">= %g", g.limit)
	}
	return fmt.Sprintf("<= %g", g.limit)
}

func (g Goal) met(value float64) bool {
	if g.least {
		return value >= g.limit
	}
	return value <= g.limit
}

// Recorded is a figure that a test has measured.
type Recorded struct {
	Name  string    `json:"name"`
	Value float64   `json:"value"`
	Unit  string    `json:"unit"` // s, ms, MB; % for a share, x for a ratio
	Goal  string    `json:"goal"` // as Goal.String spells it
	Met   bool      `json:"met"`
	Test  string    `json:"test"`
	Time  time.Time `json:"time"` // when it was recorded
}

// figuresFile in the environment names the file of the figures.
const figuresFile = "TRIVET_FIGURES"

// Figure logs a measured value with its goal, and appends it to the file of the
// figures, which ReadFigures reads: the one that TRIVET_FIGURES names, else
// dist/verify/figures.json below the root of the repository, where that directory
// is there. A goal that is missed fails no test. Tests and processes may call it at
// the same time.
func Figure(t testing.TB, name string, value float64, unit string, goal Goal) {
	t.Helper()
	verdict, met := "missed", goal.met(value)
	if met {
		verdict = "met"
	}
	t.Logf("figure %s: %.3g %s, goal %s: %s", name, value, unit, goal, verdict)
	r := Recorded{Name: name, Value: value, Unit: unit, Goal: goal.String(), Met: met, Test: t.Name(),
		Time: time.Now().UTC()}
	path := os.Getenv(figuresFile)
	if path == "" {
		path = besideModule()
	}
	if path == "" {
		return
	}
	if err := record(path, r); err != nil {
		t.Logf("the figure is in this log alone: %v", err)
	}
}

// Count logs how many faults, reads or hand-overs a test made, or the seed that it drew them
// with, in a line that Counted reads: test/proof adds up what the runs of a test count.
func Count(t testing.TB, name string, value float64) {
	t.Helper()
	t.Log(CountLine(name, value))
}

// CountLine is the line of a count.
func CountLine(name string, value float64) string { return fmt.Sprintf("counted %s: %g", name, value) }

// Counted reads the count at the end of a line, if there is one.
func Counted(line string) (name string, value float64, ok bool) {
	_, count, found := strings.Cut(line, "counted ")
	name, text, separated := strings.Cut(strings.TrimSpace(count), ": ")
	value, err := strconv.ParseFloat(text, 64)
	return name, value, found && separated && err == nil && !strings.Contains(name, " ")
}

// Took is Figure of a duration, in seconds, that is to be at most limit.
func Took(t testing.TB, name string, took, limit time.Duration) {
	t.Helper()
	Figure(t, name, took.Seconds(), "s", AtMost(limit.Seconds()))
}

// besideModule is the default file of the figures, "" if its directory is not there.
// A test runs in the directory of its package.
func besideModule() string {
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			verify := filepath.Join(dir, "dist", "verify")
			if info, err := os.Stat(verify); err != nil || !info.IsDir() {
				return ""
			}
			return filepath.Join(verify, "figures.json")
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
		dir = filepath.Dir(dir)
	}
	return ""
}

// record appends a figure as a line. The newline comes first: after a line that was
// cut off, this one begins whole. One write with O_APPEND mixes with no other's.
func record(path string, r Recorded) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode figure %s: %w", r.Name, err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open the file of the figures: %w", err)
	}
	_, err = f.Write(append([]byte("\n"), line...))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("append figure %s: %w", r.Name, err)
	}
	return nil
}

// ReadFigures returns the figures of a file, the latest of each name, sorted by
// name. It passes over lines that were cut off. Without the file there are none.
func ReadFigures(path string) ([]Recorded, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the figures: %w", err)
	}
	latest := make(map[string]Recorded)
	for line := range strings.Lines(string(text)) {
		var r Recorded
		if json.Unmarshal([]byte(line), &r) == nil && r.Name != "" {
			latest[r.Name] = r
		}
	}
	all := make([]Recorded, 0, len(latest))
	for _, r := range latest { // order-free: sorted below
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b Recorded) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}
