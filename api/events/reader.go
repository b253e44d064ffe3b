package events

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/eventring"
)

// Reader follows the events of one peer from a position on. It belongs to one
// goroutine.
type Reader struct {
	hub    *Hub
	filter Filter
	at     eventring.ID // of the newest event that was given or left out by the filter
	reset  *Reset       // is told with the next batch
}

// Batch is what a reader is given at once.
type Batch struct {
	Reset  *Reset // before the events; nil mostly
	Events []*Rendered
	Last   eventring.ID // the position after them
	// Work is what it cost to read them for this reader alone; 0: they were rendered already,
	// or there was nothing to read.
	Work time.Duration
}

// Bytes returns how long the events are on the wire.
func (b Batch) Bytes() (n int) {
	for _, e := range b.Events {
		n += len(e.Frame)
	}
	return n
}

// Where a reader may begin, next to the ID of an event and an index.
const (
	FromNow   = ""  // with the next event
	FromFirst = "0" // with the first event that there is
)

// Position reads where a reader wants to go on: the ID of an event, the index of a
// log entry of this history, FromFirst or FromNow. Only an ID shows that it is of a
// history that was cut off.
func Position(v fsm.View, after string) (eventring.ID, error) {
	switch {
	case after == FromNow:
		return v.Events().Last(), nil
	case strings.Contains(after, "-"):
		return eventring.ParseID(after)
	}
	index, err := strconv.ParseUint(after, 10, 64)
	if err != nil {
		return eventring.ID{}, fmt.Errorf("position %q is neither an event ID nor an index", after)
	}
	if index == 0 {
		return eventring.ID{}, nil
	}
	end := eventring.ID{Incarnation: v.Incarnation(), Index: index, Seq: math.MaxUint32}
	if end.Compare(v.Events().Last()) >= 0 {
		return end, nil
	}
	// The position after an entry is that of the newest event up to it, which a founding may have left in an earlier
	// incarnation.
	for e := range v.Events().Newest() {
		if e.ID().Index <= index {
			return e.ID(), nil
		}
	}
	if forgotten := v.Events().Forgotten(); forgotten.Index <= index {
		return forgotten, nil
	}
	return eventring.ID{Index: index}, nil // before all that is kept
}

// Open begins to read after a position. The caller closes the reader. Its errors are
// ErrTooMany, ErrClosed, ErrOtherHistory and what is wrong with the position.
func (h *Hub) Open(after string, f Filter) (*Reader, error) {
	if err := h.enter(); err != nil {
		return nil, err
	}
	view, _ := h.log.Changed()
	at, err := Position(view, after)
	if err == nil && at.Incarnation > view.Incarnation() {
		err = ErrOtherHistory
	}
	if err != nil {
		h.leave()
		return nil, err
	}
	r := &Reader{hub: h, filter: f, at: at}
	// A position of an earlier founding is good where this history has the event: both have
	// the same past then.
	switch {
	case at.IsZero():
		r.at = view.Events().Forgotten()
	case at.Compare(view.Events().Forgotten()) < 0:
		r.rewind(view, "the events after this position are not kept any more")
	case at.Incarnation < view.Incarnation() && !holds(view, at):
		r.rewind(view, "the cluster was founded again, from a snapshot or with fewer peers")
	}
	return r, nil
}

// Close ends the reader.
func (r *Reader) Close() { r.hub.leave() }

// holds reports whether a history has an event of this ID, or had it last before
// those that it holds.
func holds(v fsm.View, id eventring.ID) bool {
	if id == v.Events().Forgotten() {
		return true
	}
	before := id
	switch {
	case before.Seq > 0:
		before.Seq--
	default:
		before.Index, before.Seq = before.Index-min(before.Index, 1), math.MaxUint32
	}
	for e := range v.Events().After(before) {
		return e.ID() == id
	}
	return false
}

// rewind goes back to the first event that there is.
func (r *Reader) rewind(v fsm.View, why string) {
	r.at = v.Events().Forgotten()
	first := v.Events().First()
	if first.IsZero() {
		first = v.Events().Last()
	}
	r.reset = &Reset{First: first.String(), Reason: why}
}

// Next returns the next events that pass the filter, as soon as there are some,
// at most limit (up to 500), and none after wait. Without a wait it reads what this peer
// has applied, and has read all of it when there was no work. Its errors are ErrClosed and
// the end of ctx.
func (r *Reader) Next(ctx context.Context, limit int, wait time.Duration) (Batch, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	limit = min(limit, maxBatch)
	for {
		found, work, news := r.advance(limit, wait == 0)
		if len(found) > 0 || r.reset != nil || wait == 0 && work > 0 {
			b := Batch{Reset: r.reset, Events: found, Last: r.at, Work: work}
			r.reset = nil
			return b, nil
		}
		select {
		case <-news:
		case <-timer.C:
			return Batch{Last: r.at}, nil
		case <-r.hub.closed:
			return Batch{Last: r.at}, ErrClosed
		case <-ctx.Done():
			return Batch{Last: r.at}, context.Cause(ctx)
		}
	}
}

// advance moves the position to the newest event, or to the last of limit events that
// pass. news is closed when there are others. now reads also what is not rendered yet.
func (r *Reader) advance(limit int, now bool) (found []*Rendered, work time.Duration, news <-chan struct{}) {
	for {
		all, news, ok := r.hub.since(r.at)
		if ok && !now {
			return r.pick(all, limit), work, news
		}
		found, took := r.readRing(limit)
		if work += took; now || len(found) > 0 || r.reset != nil || took == 0 {
			return found, work, news
		}
	}
}

func (r *Reader) pick(all []*Rendered, limit int) []*Rendered {
	b := batchOf(limit)
	for _, e := range all {
		r.at = e.ID
		if r.filter.wants(e) && b.add(e) {
			break
		}
	}
	return b.found
}

// batch grows to its bounds.
type batch struct {
	found       []*Rendered
	limit, room int // events, and bytes that are left
}

func batchOf(limit int) *batch { return &batch{limit: limit, room: maxBatchBytes} }

// add reports whether the batch is full with an event.
func (b *batch) add(e *Rendered) (full bool) {
	b.found = append(b.found, e)
	b.room -= len(e.Frame)
	return len(b.found) == b.limit || b.room <= 0
}

// Recent reports whether the next events are rendered already, or yet to come: to read
// them costs little. Others are read from the state.
func (r *Reader) Recent() bool {
	if r.reset != nil {
		return true
	}
	_, _, ok := r.hub.since(r.at)
	return ok
}

// maxWork bounds what is done at once for a reader whose filter lets little pass.
const maxWork = 2 * time.Millisecond

// readRing reads from the state what is not rendered any more. Without work the position
// did not move.
func (r *Reader) readRing(limit int) (found []*Rendered, work time.Duration) {
	b := batchOf(limit)
	view, _ := r.hub.log.Changed()
	if r.at.Compare(view.Events().Forgotten()) < 0 {
		r.rewind(view, "this client read too slowly, and the events after its position are not kept any more")
		return nil, lookCost
	}
	for e := range view.Events().After(r.at) {
		if r.at, work = e.ID(), work+lookCost; r.filter.maybe(e) {
			made, took := r.hub.older.get(e)
			if work += took; r.filter.wants(made) && b.add(made) {
				break
			}
		}
		if work >= maxWork {
			break
		}
	}
	return b.found, work
}

// Newest returns the newest events that pass a filter, oldest first, at most limit,
// and the position after them.
func Newest(v fsm.View, f Filter, limit int) Batch {
	newest := batchOf(limit)
	newest.room = maxNewestBytes
	for e := range v.Events().Newest() {
		if !f.maybe(e) {
			continue
		}
		if made := render(e); f.wants(made) && newest.add(made) {
			break
		}
	}
	slices.Reverse(newest.found)
	return Batch{Events: newest.found, Last: v.Events().Last()}
}
