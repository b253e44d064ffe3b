package fsm

import (
	"bytes"
	"iter"
	"math"
	"slices"
	"sort"
)

var eventDomain = domain{
	verbs: []row{
		verb(125, "report events", applyReportEvents).from(2),
	},
	sections: []section{
		{tag: 'E', name: "events", each: eachEvent, load: loadEvent, show: shownEvents},
	},
	check: checkEvents,
}

// Bounds of the ring of events. A busy site has 100,000 events an hour, and the ring
// reaches back at least that hour: a step of an introspection has a body of about 120
// bytes, so that the number counts first. Every event costs 56 bytes next to its body:
// with both bounds reached the ring has 27 MB.
const (
	// MaxEvents is the greatest number of events that are kept.
	MaxEvents = 1_600 * eventsPerSegment
	// MaxEventBytes is the greatest length of their bodies together.
	MaxEventBytes = 20 << 20

	// eventsPerSegment is how many events are dropped at once. An added event
	// copies the segment that it goes to, so that a long one would cost more.
	eventsPerSegment = 64
)

// eventRing holds the newest events, oldest first. Copies share segments, which
// never change; so it costs little to keep an old one.
//
// The segments are the same on all peers, since they follow from the events alone:
// a segment is full with eventsPerSegment events, and the oldest is dropped as a
// whole. So a ring that was read from a snapshot drops the same events as others.
type eventRing struct {
	full  []*eventSegment // oldest first
	open  []storedEvent   // the newest, fewer than eventsPerSegment
	count int
	size  int // of all bodies, in bytes
	// forgotten is the newest event that was dropped.
	forgotten EventID
}

// eventSegment is a full segment.
type eventSegment struct {
	events []storedEvent
	size   int // of the bodies, in bytes
}

// add appends an event and drops the oldest segments beyond the bounds.
func (r *eventRing) add(e storedEvent) {
	// Another version of the state may share the open segment: it is copied.
	open := make([]storedEvent, len(r.open)+1)
	copy(open, r.open)
	open[len(r.open)] = e
	r.open = open
	r.count++
	r.size += len(e.body)
	if len(r.open) < eventsPerSegment {
		return
	}
	r.full = append(slices.Clip(r.full), packSegment(r.open))
	r.open = nil
	for r.count > MaxEvents-eventsPerSegment || r.size > MaxEventBytes-eventsPerSegment*maxEventBody {
		oldest := r.full[0]
		r.full = r.full[1:]
		r.count -= len(oldest.events)
		r.size -= oldest.size
		r.forgotten = oldest.events[len(oldest.events)-1].ID
	}
}

// maxEventBody bounds an event's body: its texts, each with what CBOR adds.
const maxEventBody = 256 + MaxEventText + MaxEventFields*(maxEventWord+MaxEventText+8)

// packSegment copies the bodies of a full segment into one piece of memory.
func packSegment(events []storedEvent) *eventSegment {
	s := &eventSegment{events: slices.Clone(events)}
	for _, e := range events {
		s.size += len(e.body)
	}
	all := make([]byte, 0, s.size)
	for i, e := range events {
		at := len(all)
		all = append(all, e.body...)
		s.events[i].body = all[at:len(all):len(all)]
	}
	return s
}

// renumber moves the events of the entries after an index to a later incarnation. No
// event that stays where it was is among or after them: indices rise through foundings.
func (r *eventRing) renumber(after, incarnation uint64) {
	move := func(events []storedEvent) []storedEvent {
		if n := len(events); n == 0 || events[n-1].ID.Index <= after {
			return events
		}
		events = slices.Clone(events) // other versions of the state share them
		for i := range events {
			if events[i].ID.Index > after {
				events[i].ID.Incarnation = incarnation
			}
		}
		return events
	}
	r.full = slices.Clone(r.full)
	for i, segment := range slices.Backward(r.full) {
		moved := move(segment.events)
		if &moved[0] == &segment.events[0] {
			break
		}
		r.full[i] = &eventSegment{events: moved, size: segment.size}
	}
	r.open = move(r.open)
	if r.forgotten.Index > after {
		r.forgotten.Incarnation = incarnation
	}
}

// last returns the newest event.
func (r *eventRing) last() (storedEvent, bool) {
	if n := len(r.open); n > 0 {
		return r.open[n-1], true
	}
	if n := len(r.full); n > 0 {
		return r.full[n-1].events[eventsPerSegment-1], true
	}
	return storedEvent{}, false
}

// after iterates over the events with greater IDs, oldest first.
func (r *eventRing) after(id EventID) iter.Seq[storedEvent] {
	return func(yield func(storedEvent) bool) {
		first := sort.Search(len(r.full), func(i int) bool {
			return r.full[i].events[eventsPerSegment-1].ID.Compare(id) > 0
		})
		for _, segment := range r.full[first:] {
			for _, e := range segment.events {
				if e.ID.Compare(id) > 0 && !yield(e) {
					return
				}
			}
		}
		for _, e := range r.open {
			if e.ID.Compare(id) > 0 && !yield(e) {
				return
			}
		}
	}
}

// before iterates over all events, newest first.
func (r *eventRing) before() iter.Seq[storedEvent] {
	return func(yield func(storedEvent) bool) {
		for _, e := range slices.Backward(r.open) {
			if !yield(e) {
				return
			}
		}
		for _, segment := range slices.Backward(r.full) {
			for _, e := range slices.Backward(segment.events) {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// eachEvent and loadEvent are the ring's section of a snapshot. The newest event that
// was dropped comes first, without its body.
func eachEvent(d *data) iter.Seq[any] {
	return func(yield func(any) bool) {
		if id := d.events.forgotten; !id.IsZero() && !yield(storedEvent{ID: id}.written()) {
			return
		}
		for e := range d.events.after(EventID{}) {
			if !yield(e.written()) {
				return
			}
		}
	}
}

func loadEvent(d *data, record []byte) error {
	var w writtenEvent
	if err := unmarshal(record, &w); err != nil {
		return err
	}
	if len(w.Body) == 0 {
		d.events.forgotten = w.id()
		return nil
	}
	var e ClusterEvent
	if err := unmarshal(w.Body, &e); err != nil {
		return err
	}
	d.events.add(storedEvent{ID: w.id(), topic: e.Topic, body: w.Body})
	return nil
}

func checkEvents(d *data, p *problems) {
	r := &d.events
	count, size, previous := 0, 0, r.forgotten
	for e := range r.after(EventID{}) {
		count++
		size += len(e.body)
		p.want(e.ID.Compare(previous) > 0, "event %v follows event %v", e.ID, previous)
		previous = e.ID
	}
	p.want(count == r.count && count <= MaxEvents, "%d events are kept, counted are %d", r.count, count)
	p.want(size == r.size && size <= MaxEventBytes, "the events have %d bytes, counted are %d", r.size, size)
	p.want(len(r.open) < eventsPerSegment, "an open segment of %d events", len(r.open))
	now := EventID{Incarnation: d.cluster.Incarnation, Index: d.position.Index, Seq: math.MaxUint32}
	p.want(previous.Compare(now) <= 0, "event %v is to come", previous)
}

// LastEvent returns the ID of the newest event, the zero ID before the first.
func (v View) LastEvent() EventID {
	if e, ok := v.d.events.last(); ok {
		return e.ID
	}
	return v.d.events.forgotten
}

// ForgottenEvent returns the ID of the newest event that the ring has dropped, the
// zero ID if there was none. Who has read up to an older event has missed some.
func (v View) ForgottenEvent() EventID { return v.d.events.forgotten }

// FirstEvent returns the ID of the oldest event that is kept, the zero ID if there
// is none.
func (v View) FirstEvent() EventID {
	for e := range v.d.events.after(EventID{}) {
		return e.ID
	}
	return EventID{}
}

// EventCount returns how many events the ring holds, and the bytes of their bodies.
func (v View) EventCount() (count, size int) { return v.d.events.count, v.d.events.size }

// StoredEvent is an event in the ring that is not decoded yet: to look at its ID and
// topic costs nothing.
type StoredEvent struct{ e storedEvent }

// ID returns the event's ID.
func (s StoredEvent) ID() EventID { return s.e.ID }

// Topic returns what the event is about.
func (s StoredEvent) Topic() Topic { return s.e.topic }

// Mentions reports whether the encoded event contains a text, such as a node's
// UUID. It may say yes where the text stands in another field.
func (s StoredEvent) Mentions(text string) bool { return bytes.Contains(s.e.body, []byte(text)) }

// Decode returns the event.
func (s StoredEvent) Decode() ClusterEvent { return s.e.event() }

// EventsAfter iterates over the events that are later than id, oldest first.
func (v View) EventsAfter(id EventID) iter.Seq[StoredEvent] {
	return func(yield func(StoredEvent) bool) {
		for e := range v.d.events.after(id) {
			if !yield(StoredEvent{e}) {
				return
			}
		}
	}
}

// NewestEvents iterates over all events, newest first.
func (v View) NewestEvents() iter.Seq[StoredEvent] {
	return func(yield func(StoredEvent) bool) {
		for e := range v.d.events.before() {
			if !yield(StoredEvent{e}) {
				return
			}
		}
	}
}
