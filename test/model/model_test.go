package model

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/test/testenv"
)

// subject is a model with the mistakes that must break it.
type subject[S comparable] struct {
	name string
	// build returns the model with one mistake, "" for none.
	build    func(mistake string, large bool) Model[S]
	mistakes []mistake
}

// mistake is what somebody could plausibly get wrong, and the rule that the model then breaks.
type mistake struct{ name, breaks string }

// checked is a subject of any state.
type checked interface {
	called() string
	check(t *testing.T, large bool) (states, refuted int)
}

func (s subject[S]) called() string { return s.name }

// check visits all states of the model, and finds the story of each mistake.
func (s subject[S]) check(t *testing.T, large bool) (states, refuted int) {
	r := s.build("", large).Check()
	if r.Broken != "" {
		t.Errorf("%s: %s:\n%s", s.name, r.Broken, strings.Join(r.Story, "\n"))
	}
	for _, missed := range r.Missed {
		t.Errorf("%s: no state is reached in which %s", s.name, missed)
	}
	t.Logf("%s: %d states, no rule is broken", s.name, r.States)
	for _, m := range s.mistakes {
		wrong := s.build(m.name, false).Check()
		if wrong.Broken != m.breaks {
			t.Errorf("%s: with the mistake %q it breaks %q, not %q", s.name, m.name, wrong.Broken, m.breaks)
			continue
		}
		refuted++
		t.Logf("%s, if %s: %s after %d states\n%s", s.name, m.name, wrong.Broken, wrong.States,
			strings.Join(wrong.Story, "\n"))
	}
	return r.States, refuted
}

// TestModels checks each model, and that the checker finds the mistakes that its file names.
// TRIVET_MODEL=large takes larger bounds: minutes, and some gigabytes of memory.
func TestModels(t *testing.T) {
	large := os.Getenv("TRIVET_MODEL") == "large"
	all, sum := 0, 0
	for _, s := range []checked{confirmSubject(), leaseSubject(), claimsSubject(), foundingSubject(), failoverSubject()} {
		t.Run(s.called(), func(t *testing.T) {
			states, refuted := s.check(t, large)
			testenv.Count(t, "model."+s.called()+"_states", float64(states))
			all += refuted
			sum += states
		})
	}
	testenv.Count(t, "model.states", float64(sum))
	testenv.Count(t, "model.variants_refuted", float64(all))
}

// count returns a model of a counter that a step raises by one or two.
func counter(never int) Model[int] {
	return Model[int]{
		Steps: func(s int, do Do[int]) {
			if s < 9 {
				do(s+1, "{P} adds one", s%3, 0)
				do(s+2, "{P} adds two", s%3, 0)
			}
		},
		Never:     []Rule[int]{{"it is too much", func(s int) bool { return s == never }}},
		Sometimes: []Rule[int]{{"it is ten", func(s int) bool { return s == 10 }}},
		Rests:     func(s int) bool { return s >= 9 },
		Limit:     100,
	}
}

func TestCheckVisitsAll(t *testing.T) {
	if r := counter(-1).Check(); r.Broken != "" || r.States != 11 || len(r.Missed) > 0 {
		t.Errorf("got %+v, want 11 states and nothing broken", r)
	}
}

func TestCheckTellsTheShortestStory(t *testing.T) {
	r := counter(5).Check()
	want := []string{" 1. A adds one", " 2. B adds two", " 3. A adds two"}
	if r.Broken != "it is too much" || !slices.Equal(r.Story, want) {
		t.Errorf("got %+v, want the story %q", r, want)
	}
}

func TestCheckFindsDeadlocks(t *testing.T) {
	m := counter(-1)
	m.Rests = nil
	if r := m.Check(); r.Broken != Deadlock || len(r.Story) != 5 {
		t.Errorf("got %+v, want a deadlock after five steps", r)
	}
}

func TestCheckMissesWhatIsNotReached(t *testing.T) {
	m := counter(-1)
	m.Sometimes = append(m.Sometimes, Rule[int]{"it is twelve", func(s int) bool { return s == 12 }})
	if r := m.Check(); !slices.Equal(r.Missed, []string{"it is twelve"}) {
		t.Errorf("got %+v, want one situation that is missed", r)
	}
}

func TestCheckIsBounded(t *testing.T) {
	m := counter(-1)
	m.Limit = 4
	if r := m.Check(); r.Broken != "more than 4 states" {
		t.Errorf("got %+v, want the limit", r)
	}
}

func TestCheckMergesStatesThatAreTheSame(t *testing.T) {
	m := counter(-1)
	m.Same = func(s int) int { return s % 2 }
	m.Sometimes = nil
	if r := m.Check(); r.States != 2 {
		t.Errorf("got %+v, want two states", r)
	}
}
