// Package expectations holds what machines were ordered with, as text, and how the last
// document of each machine was judged by that (docs/design.md#judgement).
//
// The commands: [Put] and [Delete] of operators; [Judge] and [Forget] of the leader.
package expectations

import (
	"fmt"
	"iter"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// Domain is all that the log, snapshots and Check know of expectations.
var Domain = entry.Domain[Txn]{
	Verbs: []entry.Verb[Txn]{
		entry.NewVerb[Txn, Put](95, "put expectation").From(3),
		entry.NewVerb[Txn, Delete](96, "delete expectation").From(3),
		entry.NewVerb[Txn, Judge](97, "judge machines").ByLeader().From(3),
		entry.NewVerb[Txn, Forget](98, "forget verdicts").ByLeader().From(3),
	},
	Sections: []entry.Section[Txn]{
		entry.ManyShown('N', "expectations", func(t Txn) table.Of[Expectation] { return t.byName }, Txn.put,
			func(e Expectation) any {
				return dumpedExpectation{Name: e.Name, Changed: e.Changed, Bytes: len(e.Body)}
			}),
		entry.Many('J', "verdicts", func(t Txn) table.Of[Verdict] { return t.verdicts }, Txn.file),
		entry.Seldom('B', "expectation deleted last", func(t Txn) *fencing.Token { return &t.deleted }),
	},
	Checks: entry.Checks[Txn]{check, checkVerdicts},
}

// Txn is one entry at work on the tables of expectations, and on the documents that
// verdicts refer to.
type Txn struct {
	*entry.Txn
	*Tables
	Blobs *blobs.Store
}

// Bounds of expectations.
const (
	// MaxExpectations is the greatest number of expectations.
	MaxExpectations = 256
	// MaxExpectation is the greatest length of one expectation's body, in bytes.
	MaxExpectation = 16 << 10
	// MaxBytes is the greatest length of all bodies together: every snapshot has them.
	MaxBytes = 1 << 20
	// MaxName is the greatest length of an expectation's name, in bytes.
	MaxName = 64
)

// Expectation is what a group of machines was ordered with. What its body means is for
// those who judge by it; they have checked it before it came here.
type Expectation struct {
	Name string `cbor:"1,keyasint"`
	Body []byte `cbor:"2,keyasint"` // JSON; shared, must not be changed
	// Changed is the token of the entry that wrote it: who was judged before that is
	// judged again.
	Changed fencing.Token `cbor:"3,keyasint"`
}

func (e Expectation) validate() error {
	if err := validName(e.Name); err != nil {
		return err
	}
	if len(e.Body) == 0 || len(e.Body) > MaxExpectation {
		return fmt.Errorf("expectation %s has a body of %d bytes, allowed are 1 to %d", e.Name, len(e.Body), MaxExpectation)
	}
	return nil
}

// validName accepts what may stand in a path and in a shell without quotes.
func validName(name string) error {
	if err := valid.Length("name of the expectation", name, 1, MaxName); err != nil {
		return err
	}
	if name[0] == '.' || name[0] == '-' {
		return fmt.Errorf("name of the expectation %q begins with %q", name, name[0])
	}
	return valid.Chars("name of the expectation", name, func(b byte) bool {
		return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '.' || b == '_' || b == '-'
	})
}

// Tables hold the expectations by name and the verdicts by node.
type Tables struct {
	byName     table.Of[Expectation]
	bytes      int           // of all bodies
	deleted    fencing.Token // of the entry that deleted an expectation last
	verdicts   table.Of[Verdict]
	unexpected table.Of[table.None] // nodes whose verdict names a difference
}

func (s *Tables) put(e Expectation) {
	old, _ := s.byName.Get([]byte(e.Name))
	s.byName.Put([]byte(e.Name), e)
	s.bytes += len(e.Body) - len(old.Body)
}

// Put writes an expectation, in the place of one of this name. Its Value is the
// Expectation as stored. The same again changes nothing.
type Put struct {
	Name string `cbor:"1,keyasint"` // 1 to 64 of a–z, A–Z, 0–9, dot, dash, underscore
	Body []byte `cbor:"2,keyasint"`
}

// Validate implements Command.
func (c Put) Validate() error { return Expectation{Name: c.Name, Body: c.Body}.validate() }

// Apply implements entry.Change.
func (c Put) Apply(t Txn) entry.Result {
	old, known := t.Expectation(c.Name)
	switch {
	case known && string(old.Body) == string(c.Body):
		return entry.Answer(old)
	case !known && t.byName.Size() >= MaxExpectations:
		return entry.Refuse(entry.Refused, "%d expectations exist, which is the most; delete one", MaxExpectations)
	case t.bytes-len(old.Body)+len(c.Body) > MaxBytes:
		return entry.Refuse(entry.Refused, "the expectations would have more than %d bytes together; delete one", MaxBytes)
	}
	e := Expectation{Name: c.Name, Body: c.Body, Changed: t.Token}
	t.put(e)
	return entry.Answer(e)
}

// Delete removes an expectation. Who was judged by it is judged again.
type Delete struct {
	Name string `cbor:"1,keyasint"`
}

// Validate implements Command.
func (c Delete) Validate() error { return validName(c.Name) }

// Apply implements entry.Change.
func (c Delete) Apply(t Txn) entry.Result {
	e, ok := t.Expectation(c.Name)
	if !ok {
		return entry.Refuse(entry.NotFound, "expectation %s was not found", c.Name)
	}
	t.byName.Drop([]byte(e.Name))
	t.bytes -= len(e.Body)
	t.deleted = t.Token
	return entry.Done()
}

// Expectation returns an expectation by its name.
func (s *Tables) Expectation(name string) (Expectation, bool) { return s.byName.Get([]byte(name)) }

// Expectations iterates over the expectations in the order of their names.
func (s *Tables) Expectations() iter.Seq[Expectation] { return table.Values(s.byName.All()) }

// ExpectationDeleted returns the token of the entry that deleted an expectation last.
func (s *Tables) ExpectationDeleted() fencing.Token { return s.deleted }

// ExpectationsChanged returns the token of the entry that wrote or deleted an
// expectation last, zero without one.
func (s *Tables) ExpectationsChanged() fencing.Token {
	newest := s.deleted
	for e := range s.Expectations() {
		newest = max(newest, e.Changed)
	}
	return newest
}

// SameExpectations says that two views have the same expectations and verdicts. It may
// fail to say so.
func SameExpectations(a, b *Tables) bool {
	return a.byName.Same(b.byName) && a.verdicts.Same(b.verdicts)
}

func check(t Txn, p *valid.Problems) {
	p.Want(t.byName.Size() <= MaxExpectations && t.bytes <= MaxBytes, "%d expectations of %d bytes", t.byName.Size(),
		t.bytes)
	p.Want(t.deleted <= t.Granted(), "an expectation is deleted by the entry %v to come", t.deleted)
	bytes := 0
	for key, e := range t.byName.All() {
		bytes += len(e.Body)
		p.Want(string(key) == e.Name && e.Changed <= t.Granted(), "expectation %s of entry %v is filed under %q", e.Name,
			e.Changed, key)
		p.Invalid(e.validate(), "")
	}
	p.Want(t.bytes == bytes, "the expectations have %d bytes, counted are %d", bytes, t.bytes)
}

// dumpedExpectation leaves the body out: it is a page long.
type dumpedExpectation struct {
	Name    string        `json:"name"`
	Changed fencing.Token `json:"changed"`
	Bytes   int           `json:"bytes"`
}
