package fsm

import (
	"fmt"
	"reflect"

	"github.com/trivet-ha/trivet/fsm/entry"
)

// Kind is the type of a command in the log. Its number never changes.
type Kind byte

// ignorable is the bit of kinds that a binary may skip when it does not know
// them. They change nothing that others depend on and belong to no request.
const ignorable Kind = 0x80

// lookup finds a kind. A scan over some fifty rows costs less than decoding.
func lookup(kind Kind) (entry.Verb[*txn], bool) {
	for i := range verbs {
		if Kind(verbs[i].Kind) == kind {
			return verbs[i], true
		}
	}
	return entry.Verb[*txn]{}, false
}

// verbOf finds the verb of a command.
func verbOf(c Command) (entry.Verb[*txn], bool) {
	command := reflect.TypeOf(c)
	for i := range verbs {
		if verbs[i].Type == command {
			return verbs[i], true
		}
	}
	return entry.Verb[*txn]{}, false
}

// KindOf returns the kind of a command, 0 of what is no command of the log.
func KindOf(c Command) Kind {
	verb, _ := verbOf(c)
	return Kind(verb.Kind)
}

// Ignorable reports whether a binary that does not know the kind may skip it.
func (k Kind) Ignorable() bool { return k&ignorable != 0 }

// Since returns the log version that brought the kind, 0 if this binary does
// not know it. Propose it only when the cluster's version is at least that.
func (k Kind) Since() int {
	verb, _ := lookup(k)
	return verb.Since
}

// String returns the kind in words.
func (k Kind) String() string {
	if verb, known := lookup(k); known {
		return verb.Name
	}
	return fmt.Sprintf("kind %d", byte(k))
}

// MarshalText implements encoding.TextMarshaler.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }
