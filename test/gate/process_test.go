//go:build e2e

package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
)

// luck runs the tests of some packages of a module made for this, and returns what the
// summary says.
func luck(t *testing.T, packages ...string) (*stage, string) {
	t.Helper()
	t.Setenv("LUCK", t.TempDir()+"/seen")
	s := &stage{name: "test", began: time.Now()}
	all := suite{
		dir: "testdata/luck", runs: []goTest{{limit: 5 * time.Second, args: packages}},
		bubbles: map[string][]string{"luck/bubble": {"TestFailsOnceInABubble"}},
	}
	all.run(t.Context(), newResults(new(bytes.Buffer)), s)
	s.blame(t.Context())
	var text strings.Builder
	s.write(&text)
	return s, text.String()
}

// What a builder reads last, and the exit code, for each way in which a test can fail.
func TestWhatTheSummarySays(t *testing.T) {
	for _, c := range []struct {
		name     string
		packages []string
		code     int
		says     []string
	}{
		{"all pass", []string{"./good"}, exitPassed, []string{"test   passed"}},
		{"one fails, one fails once", []string{"./bad"}, exitChange,
			[]string{"test   FAILED", "FAIL  luck/bad TestAlwaysFails: bad_test.go:8: got 3, want 4",
				"FLAKY luck/bad TestFailsOnce: it failed, then passed alone; first: bad_test.go:19: bad luck"}},
		{"one in a bubble fails once", []string{"./bubble"}, exitChange,
			[]string{"FAIL  luck/bubble TestFailsOnceInABubble: bubble_test.go:19: bad luck in virtual time"}},
		{"one hangs", []string{"./hangs", "./good"}, exitChange,
			[]string{"FAIL  luck/hangs", "TestHangs", "panic: test timed out after 5s"}},
		{"one does not compile", []string{"./broken", "./good"}, exitChange,
			[]string{"FAIL  luck/broken: ", "undefined: missing"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, text := luck(t, c.packages...)
			for _, part := range c.says {
				if !strings.Contains(text, part) || s.code() != c.code {
					t.Errorf("exit %d, want %d; no %q in:\n%s", s.code(), c.code, part, text)
				}
			}
		})
	}
}

// A test that passes alone without the race detector is not excused where it fails with it.
func TestLuckIsOfOneRun(t *testing.T) {
	t.Setenv("LUCK", t.TempDir()+"/seen")
	s := &stage{name: "test", began: time.Now()}
	all := suite{dir: "testdata/luck",
		runs: []goTest{{args: []string{"./raced"}}, {race: true, args: []string{"./raced"}}}}
	all.run(t.Context(), newResults(new(bytes.Buffer)), s)
	if len(s.notes) != 1 || len(s.failed) != 1 || !strings.Contains(s.failed[0], "TestFailsUnderRace (under -race)") {
		t.Errorf("%q, %q", s.notes, s.failed)
	}
}

// A crash of the race detector is no failure of the tests, which decide in a run with one
// processor. Where no test is in a bubble it has another cause, and fails.
func TestCrashOfTheDetector(t *testing.T) {
	for _, c := range []struct {
		name    string
		bubbled bool
		fails   string
		failed  []string
		notes   int
	}{
		{"passes with one processor", true, "", nil, 1},
		{"fails with one processor", true, "1", []string{
			"luck/detector TestFailsWithOneProcessor (under -race): detector_test.go:22: got 3, want 4"}, 1},
		{"no test is in a bubble", false, "", []string{
			"luck/detector (under -race): the package ended while TestEndsWithTheDetector ran: SIGSEGV: segmentation violation"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("LUCK_FAILS", c.fails)
			s := &stage{name: "test", began: time.Now()}
			all := suite{dir: "testdata/luck",
				runs: []goTest{{race: true, args: []string{"-cpu", "2", "-run", "^Test", "./detector"}}}}
			if c.bubbled {
				all.bubbles = map[string][]string{"luck/detector": {"TestEndsWithTheDetector"}}
			}
			all.run(t.Context(), newResults(new(bytes.Buffer)), s)
			if !slices.Equal(s.failed, c.failed) || len(s.notes) != c.notes {
				t.Errorf("failed %q, want %q; notes %q", s.failed, c.failed, s.notes)
			}
		})
	}
}

// Luck alone lets the gate pass.
func TestFlakyTestLetsTheGatePass(t *testing.T) {
	t.Setenv("LUCK", t.TempDir()+"/seen")
	s := &stage{name: "test", began: time.Now()}
	all := suite{dir: "testdata/luck", runs: []goTest{{args: []string{"-run", "^TestFailsOnce$", "./bad"}}}}
	all.run(t.Context(), newResults(new(bytes.Buffer)), s)
	if s.blame(t.Context()); s.code() != exitPassed || len(s.notes) != 1 ||
		!strings.HasPrefix(s.notes[0], "FLAKY luck/bad TestFailsOnce") {
		t.Errorf("exit %d, %q, %q", s.code(), s.notes, s.failed)
	}
}
