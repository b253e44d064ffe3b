package fsm

import (
	"iter"

	"github.com/trivet-ha/trivet/fsm/eventring"
)

// LastEvent returns the ID of the newest event, the zero ID before the first.
func (v View) LastEvent() eventring.ID { return v.data.shared.Events.Last() }

// ForgottenEvent returns the ID of the newest event that the ring has dropped, the
// zero ID if there was none. Who has read up to an older event has missed some.
func (v View) ForgottenEvent() eventring.ID { return v.data.shared.Events.Forgotten() }

// FirstEvent returns the ID of the oldest event that is kept, the zero ID if there
// is none.
func (v View) FirstEvent() eventring.ID { return v.data.shared.Events.First() }

// EventCount returns how many events the ring holds, and the bytes of their bodies.
func (v View) EventCount() (count, size int) { return v.data.shared.Events.Size() }

// EventsAfter iterates over the events that are later than id, oldest first.
func (v View) EventsAfter(id eventring.ID) iter.Seq[eventring.Stored] {
	return v.data.shared.Events.After(id)
}

// NewestEvents iterates over all events, newest first.
func (v View) NewestEvents() iter.Seq[eventring.Stored] { return v.data.shared.Events.Newest() }
