// Package model checks small models of Trivet's protocols exhaustively.
//
// It is an explicit-state checker written for this repository: it walks breadth first through every
// state that a model can reach, so that the story of a state that must not be is as short as
// one can be. It knows safety alone: what must never be, what must be reachable (else a
// model that forbids too much would pass), and states in which nothing can happen any more. It says
// nothing about what must happen some time. TLC and Apalache come in no package that this
// repository's tests may install; a model in Go is read by who reads the code that it is of.
//
// Each model stands in a file of its own, with the code that it models, what it assumes and
// which mistakes must break it. TRIVET_MODEL=large checks larger bounds.
package model

import (
	"fmt"
	"slices"
	"strings"
)

// Do is told one step: the state it leads to, and a sentence in which {P} and {Q} stand for the
// names of p and q.
type Do[S any] func(next S, what string, p, q int)

// Rule is a named property of a state.
type Rule[S any] struct {
	Name string
	Of   func(S) bool
}

// Model is a system with finitely many states. S is its whole state, as a value.
type Model[S comparable] struct {
	Start S
	// Steps tells all that can happen next, each time in the same order.
	Steps func(s S, do Do[S])
	// Never are properties that no state may have, Sometimes those that some state must have.
	Never, Sometimes []Rule[S]
	// Rests says whether it is all right that nothing can happen any more; nil: never.
	Rests func(S) bool
	// Same returns one state for all that differ in names alone; nil: there are none.
	Same func(S) S
	// Limit is the greatest number of states.
	Limit int
}

// Result is what Check found.
type Result struct {
	States int
	Depth  int // steps to the state that was found last
	// Broken is the rule that a state broke, "" if none did; Story are the steps to it.
	Broken string
	Story  []string
	Missed []string // of Sometimes, unless the search ended early
}

type reached[S comparable] struct {
	state S
	from  int32 // index of the state before it; -1 at the start
}

type search[S comparable] struct {
	Model[S]
	states []reached[S]
	known  map[S]struct{}
	unmet  []Rule[S]
	broken string
}

// Deadlock is the rule that a state breaks in which nothing can happen any more.
const Deadlock = "nothing can happen any more"

// Check visits all states, or those until the first one that breaks a rule.
func (m Model[S]) Check() Result {
	s := &search[S]{Model: m, known: make(map[S]struct{}), unmet: slices.Clone(m.Sometimes)}
	s.add(m.Start, -1)
	at := 0
	for ; at < len(s.states) && s.broken == ""; at++ {
		state, steps := s.states[at].state, 0
		s.Steps(state, func(next S, _ string, _, _ int) {
			steps++
			s.add(next, int32(at))
		})
		if steps == 0 && (m.Rests == nil || !m.Rests(state)) {
			s.broken = Deadlock
			s.states = append(s.states, s.states[at]) // the last one is what is told
		}
	}
	path := s.path()
	r := Result{States: len(s.states), Depth: len(path) - 1, Broken: s.broken}
	if s.broken != "" {
		r.Story = s.tell(path)
		return r
	}
	for _, rule := range s.unmet {
		r.Missed = append(r.Missed, rule.Name)
	}
	return r
}

// add notes a state, unless it is known or the search is over.
func (s *search[S]) add(state S, from int32) {
	if s.broken != "" {
		return
	}
	key := state
	if s.Same != nil {
		key = s.Same(state)
	}
	if _, known := s.known[key]; known {
		return
	}
	s.known[key] = struct{}{}
	s.states = append(s.states, reached[S]{state, from})
	s.unmet = slices.DeleteFunc(s.unmet, func(r Rule[S]) bool { return r.Of(state) })
	for _, rule := range s.Never {
		if rule.Of(state) {
			s.broken = rule.Name
			return
		}
	}
	if len(s.states) > s.Limit {
		s.broken = fmt.Sprintf("more than %d states", s.Limit)
	}
}

// path returns the states from the start to the one that was found last.
func (s *search[S]) path() (path []S) {
	for at := int32(len(s.states) - 1); at >= 0; at = s.states[at].from {
		path = append(path, s.states[at].state)
	}
	slices.Reverse(path)
	return path
}

// tell says what happened between the states of a path.
func (s *search[S]) tell(path []S) (story []string) {
	for i := range path[1:] {
		told := false
		s.Steps(path[i], func(next S, what string, p, q int) {
			if told || next != path[i+1] {
				return
			}
			told = true
			story = append(story, fmt.Sprintf("%2d. %s", i+1,
				strings.NewReplacer("{P}", name(p), "{Q}", name(q)).Replace(what)))
		})
	}
	return story
}

// name is what a story calls a peer.
func name(p int) string { return string(rune('A' + p)) }
