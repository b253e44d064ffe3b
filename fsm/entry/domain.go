package entry

import (
	"iter"
	"reflect"

	"github.com/trivet-ha/trivet/fsm/codec"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// Domain is one part of the state, such as leases: what the log, snapshots, Check, Dump
// and deadlines know of it. T is an entry at work on the domain's tables. Check, Dump and
// snapshots use the tables alone.
type Domain[T any] struct {
	Verbs    []Verb[T]
	Sections []Section[T]
	Checks   Checks[T]
	Ends     []Ending[T]
}

// Checks note where the tables of a domain contradict its invariants.
type Checks[T any] []func(T, *valid.Problems)

// Verb is all that the log knows about the commands of one type.
type Verb[T any] struct {
	Kind    byte // in the log; never changes
	Name    string
	Since   int          // the log version that brought it
	Leaders bool         // only a duty of the present leadership may use it
	Type    reflect.Type // of the command
	Decode  func(body []byte) (Command, error)
	Apply   func(T, Command) Result
}

// Change is a command that knows how it changes the tables of its domain.
type Change[T any] interface {
	Command
	Apply(t T) Result
}

// NewVerb makes the verb of the commands of type C.
func NewVerb[T any, C Change[T]](kind byte, name string) Verb[T] {
	return Verb[T]{
		Kind: kind, Name: name, Since: 1, Type: reflect.TypeFor[C](),
		Decode: func(body []byte) (Command, error) {
			var c C
			err := codec.Unmarshal(body, &c)
			return c, err
		},
		Apply: func(t T, c Command) Result { return c.(C).Apply(t) },
	}
}

// From makes a verb one that a later log version brought.
func (v Verb[T]) From(version int) Verb[T] {
	v.Since = version
	return v
}

// ByLeader makes a verb one that only a duty of the present leadership may use.
func (v Verb[T]) ByLeader() Verb[T] {
	v.Leaders = true
	return v
}

// SinceField says which log version a command needs that may use a field of a later one than
// its verb's.
func SinceField(used bool, version int) int {
	if used {
		return version
	}
	return 1
}

// Section is one table of the state as it stands in a snapshot and in the hash: its
// records in the order of keys. Indices are not written; Load makes them again.
type Section[T any] struct {
	Tag  byte // never changes
	Name string
	Each func(T) iter.Seq[any]
	Load func(t T, record []byte) error
	Show func(T) any // what Dump shows; there are no secrets in it
}

// Shown lets Dump show something else than the records as they are.
func (s Section[T]) Shown(show func(T) any) Section[T] {
	s.Show = show
	return s
}

// Single makes the section of one value.
func Single[T, R any](tag byte, name string, at func(T) *R) Section[T] {
	return Section[T]{
		Tag: tag, Name: name,
		Each: func(t T) iter.Seq[any] {
			return func(yield func(any) bool) { yield(*at(t)) }
		},
		Load: func(t T, record []byte) error { return codec.Unmarshal(record, at(t)) },
		Show: func(t T) any { return *at(t) },
	}
}

// Seldom makes the section of one value that is not written while it is zero:
// peers of older log versions do not know it.
func Seldom[T any, R interface{ IsZero() bool }](tag byte, name string, at func(T) *R) Section[T] {
	s := Single(tag, name, at)
	s.Each = func(t T) iter.Seq[any] {
		return func(yield func(any) bool) {
			if value := *at(t); !value.IsZero() {
				yield(value)
			}
		}
	}
	return s
}

// Many makes the section of a table.
func Many[T, R any](tag byte, name string, of func(T) table.Of[R], put func(T, R)) Section[T] {
	return Section[T]{
		Tag: tag, Name: name,
		Each: func(t T) iter.Seq[any] {
			return func(yield func(any) bool) {
				for _, value := range of(t).All() {
					if !yield(value) {
						return
					}
				}
			}
		},
		Load: func(t T, record []byte) error {
			var value R
			if err := codec.Unmarshal(record, &value); err != nil {
				return err
			}
			put(t, value)
			return nil
		},
		Show: func(t T) any { return table.List(of(t).All()) },
	}
}

// ManyShown is Many whose records Dump shows as something else.
func ManyShown[T, R any](tag byte, name string, of func(T) table.Of[R], put func(T, R), show func(R) any) Section[T] {
	return Many(tag, name, of, put).Shown(func(t T) any { return table.Map(of(t), show) })
}

// Ending is what ends by itself in a domain.
type Ending[T any] struct {
	Class Class
	End   func(t T, id []byte)          // its deadline is out of the table already
	Due   func(t T, expect Expectation) // names all its deadlines, for Check
}

// Expiring makes the ending of a table's records. until tells when a record ends; one that
// does not end by itself tells no time.
func Expiring[T, R any](class Class, of func(T) table.Of[R], until func(R) (at Time, ends bool),
	end func(t T, id []byte)) Ending[T] {
	return Ending[T]{Class: class, End: end, Due: func(t T, expect Expectation) {
		for key, record := range of(t).All() {
			if at, ends := until(record); ends {
				expect(at, key)
			}
		}
	}}
}

// Expectation is told the deadline of a record.
type Expectation func(at Time, id []byte)

// In makes a domain one of a whole: part finds an entry at work on its tables in one at
// work on all.
func In[W, T any](d Domain[T], part func(W) T) (out Domain[W]) {
	for _, v := range d.Verbs {
		out.Verbs = append(out.Verbs, Verb[W]{
			Kind: v.Kind, Name: v.Name, Since: v.Since, Leaders: v.Leaders, Type: v.Type, Decode: v.Decode,
			Apply: func(w W, c Command) Result { return v.Apply(part(w), c) },
		})
	}
	for _, s := range d.Sections {
		out.Sections = append(out.Sections, Section[W]{
			Tag: s.Tag, Name: s.Name,
			Each: func(w W) iter.Seq[any] { return s.Each(part(w)) },
			Load: func(w W, record []byte) error { return s.Load(part(w), record) },
			Show: func(w W) any { return s.Show(part(w)) },
		})
	}
	for _, e := range d.Ends {
		out.Ends = append(out.Ends, Ending[W]{
			Class: e.Class,
			End:   func(w W, id []byte) { e.End(part(w), id) },
			Due:   func(w W, expect Expectation) { e.Due(part(w), expect) },
		})
	}
	for _, check := range d.Checks {
		out.Checks = append(out.Checks, func(w W, p *valid.Problems) { check(part(w), p) })
	}
	return out
}
