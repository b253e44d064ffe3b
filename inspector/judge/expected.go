package judge

import (
	"fmt"
	"slices"

	"github.com/trivet-ha/trivet/fsm/expectations"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/valid"
	"github.com/trivet-ha/trivet/inspector/hardware"
)

// expected is what machines are judged by.
type expected struct {
	all     []expectation
	byName  bool          // some have patterns of names
	deleted fencing.Token // of the entry that deleted another one
}

type expectation struct {
	hardware.Expectation
	changed fencing.Token
}

// stale reports whether a verdict may be another one by now: an expectation of the
// machine was written or deleted, or the name of its node is another one.
func (s expected) stale(v expectations.Verdict, name string) bool {
	if s.deleted > v.Under && len(v.By) > 0 {
		return true
	}
	return slices.ContainsFunc(s.all, func(e expectation) bool {
		now := e.For(v.Node, name)
		if e.changed > v.Under {
			return now || slices.Contains(v.By, e.Name)
		}
		return now != e.For(v.Node, v.Name)
	})
}

// judgeMachine returns which expectations are those of a machine, and how it differs.
func (s expected) judgeMachine(node, name string, m hardware.Machine) (by, differences []string) {
	surplus := 0
	for _, e := range s.all {
		switch {
		case !e.For(node, name) || !e.Of(m):
		case len(by) == expectations.MaxBy:
			surplus++
		default:
			by = append(by, e.Name)
			for _, text := range e.Judge(m) {
				differences = append(differences, e.Name+": "+text)
			}
		}
	}
	if surplus > 0 {
		differences = slices.Insert(differences, 0,
			fmt.Sprintf("%d expectations are of this machine, and at most %d are judged", surplus+len(by), expectations.MaxBy))
	}
	if more := len(differences) - expectations.MaxDifferences; more > 0 {
		differences = append(differences[:expectations.MaxDifferences-1], fmt.Sprintf("and %d more", more+1))
	}
	for i, text := range differences {
		differences[i] = valid.Cut(text, expectations.MaxDifference)
	}
	return by, differences
}
