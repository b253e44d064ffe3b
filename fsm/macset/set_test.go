package macset

import (
	"testing"

	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// Check finds what a fault in a list or in its memory of changes could leave.
func TestCheckFindsContradictions(t *testing.T) {
	const last = 9
	sound := func() *Set {
		s := Set{}
		s.Add("52:54:00:00:00:01", "a", 3)
		s.Add("52:54:00:00:00:01", "b", 4)
		s.Add("52:54:00:00:00:02", "a", 5)
		return &s
	}
	check := func(s *Set) error {
		p := &valid.Problems{}
		s.Check(p, "list", 3, last)
		return p.Err()
	}
	if err := check(sound()); err != nil {
		t.Fatal(err)
	}
	for name, corrupt := range map[string]func(*Set){
		"an entry too many":              func(s *Set) { s.entries.Put(setKey("52:54:00:00:00:03", "a"), table.None{}) },
		"MACs are counted wrongly":       func(s *Set) { s.count++ },
		"changes of the future":          func(s *Set) { s.changed.noteChange(last+1, "x") },
		"changes out of order":           func(s *Set) { s.changed.noteChange(2, "x") },
		"changes are counted wrongly":    func(s *Set) { s.changed.count++ },
		"changes since the future":       func(s *Set) { s.changed = feed{since: last + 1} },
		"changes from before the memory": func(s *Set) { s.changed.since = last },
		"more changes than are kept": func(s *Set) {
			for range MaxChanges {
				s.changed.noteChange(last, "x")
				s.changed.count = 1
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := sound()
			corrupt(s)
			if check(s) == nil {
				t.Error("not found")
			}
		})
	}
}
