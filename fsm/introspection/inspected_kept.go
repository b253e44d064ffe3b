package introspection

import (
	"time"

	"github.com/trivet-ha/trivet/fsm/codec"
	"github.com/trivet-ha/trivet/fsm/entry"
)

// KeepInspected says for how long what is recorded as inspected by Ironic lets machines boot if
// that is not said again: a duty's command, of a leader that read the list. Without it
// what is recorded has no end.
type KeepInspected struct {
	For time.Duration `cbor:"1,keyasint"`
}

// Validate implements Command.
func (c KeepInspected) Validate() error { return validTimeout(c.For) }

// Apply implements entry.Change.
func (c KeepInspected) Apply(t Txn) entry.Result {
	keepInspected(t, kept{Until: t.Now().Add(c.For), UntilMillis: t.Wall() + c.For.Milliseconds()})
	return entry.Done()
}

// kept is until when what is recorded as inspected by Ironic lets machines boot.
type kept struct {
	Until       entry.Time `cbor:"1,keyasint,omitempty"` // while the cluster has a leader
	UntilMillis int64      `cbor:"2,keyasint,omitempty"` // wall clock, for while it had none
}

// IsZero reports whether nothing was said.
func (k kept) IsZero() bool { return k == kept{} }

// dueInspected is the class of the deadline of what Ironic inspects.
const dueInspected entry.Class = 'i'

// keptSection is the section of a value that has a deadline.
func keptSection() entry.Section[Txn] {
	s := entry.Seldom('U', "inspected until", func(t Txn) *kept { return &t.kept })
	s.Load = func(t Txn, record []byte) error {
		var k kept
		err := codec.Unmarshal(record, &k)
		keepInspected(t, k)
		return err
	}
	return s
}

// keepInspected replaces until when it lets machines boot.
func keepInspected(t Txn, k kept) {
	if !t.kept.IsZero() {
		t.Disarm(t.kept.Until, dueInspected, nil)
	}
	if t.kept = k; !k.IsZero() {
		t.Arm(k.Until, dueInspected, nil)
	}
}

// forgetInspected lets nothing of Ironic's boot until it was read again.
func forgetInspected(t Txn) {
	for _, i := range t.nodes.inspected.All() {
		t.nodes.inspect(Inspected{Node: i.Node}, false, t.Position.Index)
	}
	keepInspected(t, kept{})
}

// ForgetOverdueInspected is for a new leadership. Cluster time stands still while the cluster has no
// leader, as after a weekend off: by the wall clock what was kept may be over.
func ForgetOverdueInspected(t Txn) {
	if !t.kept.IsZero() && t.kept.UntilMillis < t.Wall() {
		forgetInspected(t)
	}
}

// InspectedEnds reports whether what is recorded as inspected by Ironic ends by itself.
func InspectedEnds(s *Tables) bool { return !s.kept.IsZero() }
