package fsm

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/trivet-ha/trivet/fsm/fencing"
)

func marked(section, name string, value uint64) []MarkSection {
	return []MarkSection{{Name: section, Marks: []OptionMark{{Name: name, Value: value}}}}
}

// A peer's marks replace those it told before, and go with it.
func TestMarksOfMembers(t *testing.T) {
	r := three(t)
	b, _ := r.view().SessionOf("b")
	r.must(PublishMarks{Session: b.ID, Sections: marked("raft", "timing", 1)})
	r.must(PublishMarks{Session: b.ID, Sections: marked("raft", "timing", 2)})
	if m, ok := r.view().ConfigMarks("b"); !ok || m.Sections[0].Marks[0].Value != 2 || len(r.view().AllConfigMarks()) != 1 {
		t.Errorf("the marks are %+v", r.view().AllConfigMarks())
	}
	if res := r.do(Header{}, PublishMarks{Session: b.ID + 1<<40, Sections: marked("raft", "timing", 3)}); res.Code != SessionEnded {
		t.Errorf("a session that is none published: %v", res.Code)
	}
	r.must(EndSession{Session: b.ID})
	if _, ok := r.view().ConfigMarks("b"); !ok {
		t.Error("marks-end-with-the-session: what a peer that is down was configured with is not known any more")
	}
	r.must(RemoveMember{ID: "b", Force: true})
	if left := r.view().AllConfigMarks(); len(left) > 0 {
		t.Errorf("marks-outlive-their-member: %+v", left)
	}
}

func TestMarksAreBounded(t *testing.T) {
	many := MarkSection{Name: "api"}
	for n := range MaxMarks + 1 {
		many.Marks = append(many.Marks, OptionMark{Name: fmt.Sprintf("k%06d", n)})
	}
	for name, sections := range map[string][]MarkSection{
		"nothing":           nil,
		"an empty section":  {{Name: "api"}},
		"too many":          {many},
		"a section twice":   append(marked("api", "a", 1), marked("api", "b", 1)...),
		"out of order":      append(marked("b", "a", 1), marked("a", "a", 1)...),
		"an option twice":   {{Name: "api", Marks: []OptionMark{{"a", 1}, {"a", 2}}}},
		"without a name":    marked("api", "", 1),
		"with a long name":  marked("api", strings.Repeat("x", maxMarkName+1), 1),
		"of a long section": marked(strings.Repeat("x", maxMarkName+1), "a", 1),
	} {
		if err := (PublishMarks{Session: 1, Sections: sections}).Validate(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	many.Marks = many.Marks[:MaxMarks]
	if err := (PublishMarks{Session: 1, Sections: []MarkSection{many}}).Validate(); err != nil {
		t.Error(err)
	}
	if err := (PublishMarks{Sections: marked("api", "a", 1)}).Validate(); err == nil {
		t.Error("without a session: accepted")
	}
}

// A dump shows marks, which tell nobody a value.
func TestMarksNeedVersion2(t *testing.T) {
	r := three(t)
	b, _ := r.view().SessionOf("b")
	r.must(PublishMarks{Session: b.ID, Sections: marked("raft", "timing", 77)})
	var dump bytes.Buffer
	if err := r.view().Dump(&dump); err != nil || !strings.Contains(dump.String(), `"timing"`) {
		t.Errorf("the dump lacks them (%v)", err)
	}
	r.older("b", 1)
	if err := r.view().Admits(PublishMarks{}); err == nil || !strings.Contains(err.Error(), "upgrade") {
		t.Errorf("admitted beside a peer of version 1: %v", err)
	}
}

// modelMarks is the newest value that a member told, naively.
type modelMarks map[string]uint64

func (m *model) marks(c PublishMarks) Code {
	s := m.memberSession(c.Session)
	if s == nil {
		return SessionEnded
	}
	m.marked[s.peer] = c.Sections[0].Marks[0].Value
	return OK
}

func (m modelMarks) text(id string) string {
	value, ok := m[id]
	return fmt.Sprintf("marks %d %v", value, ok)
}

func marksText(v View, id string) string {
	var value uint64
	m, ok := v.ConfigMarks(id)
	if ok {
		value = m.Sections[0].Marks[0].Value
	}
	return fmt.Sprintf("marks %d %v", value, ok)
}

// ofMarks draws what a peer tells of its configuration.
func ofMarks(t *rapid.T, session fencing.Token) Command {
	return PublishMarks{Session: max(session, 1), Sections: marked("raft", "timing", rapid.Uint64Range(1, 3).Draw(t, "mark"))}
}

// Who has what most have is right; where nobody is in the majority all are named.
func TestMarkDifferences(t *testing.T) {
	type said map[string]uint64 // key of section raft → mark
	for _, row := range []struct {
		name    string
		a, b, c said
		want    string
	}{
		{"all equal", said{"x": 1}, said{"x": 1}, said{"x": 1}, "[]"},
		{"one differs", said{"x": 1, "y": 5}, said{"x": 2, "y": 5}, said{"x": 1, "y": 5}, "[{raft.x [a c] [b]}]"},
		{"all differ", said{"x": 1}, said{"x": 2}, said{"x": 3}, "[{raft.x [] [a b c]}]"},
		{"two, both of which may be right", said{"x": 1}, said{"x": 0}, nil, "[{raft.x [] [a b]}]"},
		{"an older version does not know it", said{"x": 1, "new": 7}, said{"x": 1}, said{"x": 1, "new": 7}, "[]"},
		{"two keys", said{"x": 0, "y": 1}, said{"x": 0, "y": 2}, said{"x": 9, "y": 1}, "[{raft.x [a b] [c]} {raft.y [a c] [b]}]"},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := three(t)
			for id, marks := range map[string]said{"a": row.a, "b": row.b, "c": row.c} {
				s, _ := r.view().SessionOf(id)
				section := MarkSection{Name: "raft"}
				for _, key := range slices.Sorted(maps.Keys(marks)) {
					section.Marks = append(section.Marks, OptionMark{key, marks[key]})
				}
				if len(marks) > 0 {
					r.must(PublishMarks{Session: s.ID, Sections: []MarkSection{section}})
				}
			}
			if got := fmt.Sprint(r.view().MarkDifferences()); got != row.want {
				t.Errorf("%s, want %s", got, row.want)
			}
		})
	}
}
