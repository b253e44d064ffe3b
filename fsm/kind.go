package fsm

import (
	"fmt"
	"reflect"
)

// Kind is the type of a command in the log. Its number never changes.
type Kind byte

// ignorable is the bit of kinds that a binary may skip when it does not know
// them. They change nothing that others depend on and belong to no request.
const ignorable Kind = 0x80

// Command is a verb of the log: one struct, one kind. Values, not pointers,
// are commands.
type Command interface {
	// Validate checks what can be checked without the state. It runs before
	// a command is proposed and again before it is applied, so its rules are
	// as fixed as the format: a looser rule needs a new kind.
	Validate() error
}

// row is all that the log knows about one kind.
type row struct {
	kind   Kind
	name   string
	since  int // the log version that brought it
	verb   reflect.Type
	decode func(body []byte) (Command, error)
	apply  func(*txn, Command) Result
}

// verb makes the row of the commands of type C.
func verb[C Command](kind Kind, name string, apply func(*txn, C) Result) row {
	return row{
		kind: kind, name: name, since: 1, verb: reflect.TypeFor[C](),
		decode: func(body []byte) (Command, error) {
			var c C
			err := unmarshal(body, &c)
			return c, err
		},
		apply: func(t *txn, c Command) Result { return apply(t, c.(C)) },
	}
}

// from makes a row of one that a later log version brought.
func (r row) from(version int) row {
	r.since = version
	return r
}

// byLeader makes a row one that only a duty of the present leadership may use. A token
// that got here is the present one's: admit has compared it.
func (r row) byLeader() row {
	apply := r.apply
	r.apply = func(t *txn, c Command) Result {
		if t.header.Token.IsZero() {
			return refuse(Refused, "'%s' is for the leader's duties alone and must carry its token", r.name)
		}
		return apply(t, c)
	}
	return r
}

// rows is the registry of kinds.
var rows = of(func(d domain) []row { return d.verbs })

// lookup finds a kind. A scan over some fifty rows costs less than decoding.
func lookup(kind Kind) (row, bool) {
	for i := range rows {
		if rows[i].kind == kind {
			return rows[i], true
		}
	}
	return row{}, false
}

// rowOf finds the row of a command.
func rowOf(c Command) (row, bool) {
	verb := reflect.TypeOf(c)
	for i := range rows {
		if rows[i].verb == verb {
			return rows[i], true
		}
	}
	return row{}, false
}

// KindOf returns the kind of a command, 0 of what is no command of the log.
func KindOf(c Command) Kind {
	row, _ := rowOf(c)
	return row.kind
}

// Ignorable reports whether a binary that does not know the kind may skip it.
func (k Kind) Ignorable() bool { return k&ignorable != 0 }

// Since returns the log version that brought the kind, 0 if this binary does
// not know it. Propose it only when the cluster's version is at least that.
func (k Kind) Since() int {
	row, _ := lookup(k)
	return row.since
}

// String returns the kind in words.
func (k Kind) String() string {
	if row, known := lookup(k); known {
		return row.name
	}
	return fmt.Sprintf("kind %d", byte(k))
}

// MarshalText implements encoding.TextMarshaler.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }
