package eventring

import (
	"iter"
	"slices"
	"sort"

	"github.com/trivet-ha/trivet/fsm/codec"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// Bounds of the ring of events. A busy site has 100,000 events an hour, and the ring
// reaches back at least that hour: a step of an introspection has a body of about 120
// bytes, so that the number counts first. Every event costs 56 bytes next to its body:
// with both bounds reached the ring has 27 MB.
const (
	// MaxEvents is the greatest number of events that are kept.
	MaxEvents = 1_600 * perSegment
	// MaxBytes is the greatest length of their bodies together.
	MaxBytes = 20 << 20

	// perSegment is how many events are dropped at once. An added event
	// copies the segment that it goes to, so that a long one would cost more.
	perSegment = 64
)

// Ring holds the newest events, oldest first. Copies share segments, which
// never change; so it costs little to keep an old one.
//
// The segments are the same on all peers, since they follow from the events alone:
// a segment is full with perSegment events, and the oldest is dropped as a
// whole. So a ring that was read from a snapshot drops the same events as others.
type Ring struct {
	full  []*segment // oldest first
	open  []Stored   // the newest, fewer than perSegment
	count int
	bytes int // of all bodies
	// dropped is the newest event that was dropped.
	dropped ID
}

// segment is a full segment.
type segment struct {
	events []Stored
	size   int // of the bodies, in bytes
}

// Add appends an event, which has its ID, and drops the oldest segments beyond the bounds.
func (r *Ring) Add(e Event) {
	r.keep(Stored{id: e.ID, topic: e.Topic, body: codec.Marshal(e)})
}

func (r *Ring) keep(e Stored) {
	// Another version of the state may share the open segment: it is copied.
	r.open = slices.Concat(r.open, []Stored{e})
	r.count++
	r.bytes += len(e.body)
	if len(r.open) < perSegment {
		return
	}
	r.full = append(slices.Clip(r.full), packSegment(r.open))
	r.open = nil
	for r.count > MaxEvents-perSegment || r.bytes > MaxBytes-perSegment*maxBody {
		oldest := r.full[0]
		r.full = r.full[1:]
		r.count -= len(oldest.events)
		r.bytes -= oldest.size
		r.dropped = oldest.events[len(oldest.events)-1].id
	}
}

// maxBody bounds an event's body: its texts, each with what CBOR adds.
const maxBody = 256 + MaxText + MaxFields*(maxWord+MaxText+8)

// packSegment copies the bodies of a full segment into one piece of memory.
func packSegment(events []Stored) *segment {
	s := &segment{events: slices.Clone(events)}
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

// Renumber moves the events of the entries after an index to a later incarnation. No
// event that stays where it was is among or after them: indices rise through foundings.
func (r *Ring) Renumber(after, incarnation uint64) {
	move := func(events []Stored) []Stored {
		if n := len(events); n == 0 || events[n-1].id.Index <= after {
			return events
		}
		events = slices.Clone(events) // other versions of the state share them
		for i := range events {
			if events[i].id.Index > after {
				events[i].id.Incarnation = incarnation
			}
		}
		return events
	}
	r.full = slices.Clone(r.full)
	for i, old := range slices.Backward(r.full) {
		moved := move(old.events)
		if &moved[0] == &old.events[0] {
			break
		}
		r.full[i] = &segment{events: moved, size: old.size}
	}
	r.open = move(r.open)
	if r.dropped.Index > after {
		r.dropped.Incarnation = incarnation
	}
}

// Last returns the ID of the newest event, the zero ID before the first. It may have
// been dropped.
func (r Ring) Last() ID {
	if n := len(r.open); n > 0 {
		return r.open[n-1].id
	}
	if n := len(r.full); n > 0 {
		return r.full[n-1].events[perSegment-1].id
	}
	return r.dropped
}

// First returns the ID of the oldest event that is kept, the zero ID if there is none.
func (r Ring) First() ID {
	for e := range r.After(ID{}) {
		return e.id
	}
	return ID{}
}

// Forgotten returns the ID of the newest event that was dropped, the zero ID if there was
// none.
func (r Ring) Forgotten() ID { return r.dropped }

// Size returns how many events there are, and the bytes of their bodies.
func (r Ring) Size() (count, bytes int) { return r.count, r.bytes }

// After iterates over the events with greater IDs, oldest first.
func (r Ring) After(id ID) iter.Seq[Stored] {
	return func(yield func(Stored) bool) {
		first := sort.Search(len(r.full), func(i int) bool {
			return r.full[i].events[perSegment-1].id.Compare(id) > 0
		})
		for _, segment := range r.full[first:] {
			for _, e := range segment.events {
				if e.id.Compare(id) > 0 && !yield(e) {
					return
				}
			}
		}
		for _, e := range r.open {
			if e.id.Compare(id) > 0 && !yield(e) {
				return
			}
		}
	}
}

// Newest iterates over all events, newest first.
func (r Ring) Newest() iter.Seq[Stored] {
	return func(yield func(Stored) bool) {
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

// Written iterates over the ring as a snapshot has it. The newest event that was dropped
// comes first, without its body.
func (r Ring) Written() iter.Seq[any] {
	return func(yield func(any) bool) {
		if !r.dropped.IsZero() && !yield(written{ID: r.dropped}) {
			return
		}
		for e := range r.After(ID{}) {
			if !yield(written{e.id, e.body}) {
				return
			}
		}
	}
}

// Load appends what written has yielded.
func (r *Ring) Load(record []byte) error {
	var w written
	if err := codec.Unmarshal(record, &w); err != nil {
		return err
	}
	if len(w.Body) == 0 {
		r.dropped = w.ID
		return nil
	}
	var e Event
	if err := codec.Unmarshal(w.Body, &e); err != nil {
		return err
	}
	r.keep(Stored{id: w.ID, topic: e.Topic, body: w.Body})
	return nil
}

// Check verifies the ring's order and bounds. now is an ID that no event is above.
func (r Ring) Check(p *valid.Problems, now ID) {
	count, size, previous := 0, 0, r.dropped
	for e := range r.After(ID{}) {
		count++
		size += len(e.body)
		p.Want(e.id.Compare(previous) > 0, "event %v follows event %v", e.id, previous)
		previous = e.id
	}
	p.Want(count == r.count && count <= MaxEvents, "%d events are kept, counted are %d", r.count, count)
	p.Want(size == r.bytes && size <= MaxBytes, "the events have %d bytes, counted are %d", r.bytes, size)
	p.Want(len(r.open) < perSegment, "an open segment of %d events", len(r.open))
	p.Want(previous.Compare(now) <= 0, "event %v is to come", previous)
}
