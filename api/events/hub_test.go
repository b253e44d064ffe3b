package events_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/api/events"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/ruleset"
)

const node = "00000000-0000-4000-8000-000002000000"

// texts returns the sentences of a batch.
func texts(t *testing.T, b events.Batch) (out []string) {
	t.Helper()
	for _, e := range b.Events {
		var decoded events.Event
		if err := json.Unmarshal(e.JSON, &decoded); err != nil {
			t.Fatal(err)
		}
		out = append(out, decoded.Text)
	}
	return out
}

func open(t *testing.T, h *events.Hub, after string, f events.Filter) *events.Reader {
	t.Helper()
	r, err := h.Open(after, f)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func next(t *testing.T, r *events.Reader, wait time.Duration) events.Batch {
	t.Helper()
	b, err := r.Next(t.Context(), 500, wait)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func wantTexts(t *testing.T, what string, b events.Batch, want ...string) {
	t.Helper()
	if got := texts(t, b); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: events are %q, want %q", what, got, want)
	}
}

// A single event is handed out at once; those of the next tenth of a second wait for
// each other, and the order is that of the log.
func TestReaderFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t)
		h := events.NewHub(l)
		defer h.Close()
		r := open(t, h, events.FromNow, events.Filter{Admin: true})
		defer r.Close()
		synctest.Wait()
		began := time.Now()
		l.report(eventring.TopicFilter, "One.", "Two.")
		b := next(t, r, time.Minute)
		wantTexts(t, "the first", b, "One.", "Two.")
		if took := time.Since(began); took != 0 {
			t.Errorf("the first events took %v", took)
		}
		l.report(eventring.TopicFilter, "Three.")
		l.report(eventring.TopicAudit, "Four.")
		wantTexts(t, "the next", next(t, r, time.Minute), "Three.", "Four.")
		if took := time.Since(began); took != events.Pace {
			t.Errorf("the next events took %v, want %v", took, events.Pace)
		}
		b = next(t, r, time.Second)
		if len(b.Events) != 0 || b.Last != l.view().Events().Last() {
			t.Errorf("after all of them: %d events, position %v, want %v", len(b.Events), b.Last, l.view().Events().Last())
		}
	})
}

// Readers may begin anywhere, and all see each later event once.
func TestReadersBeginAnywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t)
		h := events.NewHub(l)
		defer h.Close()
		var ids []eventring.ID
		for i := range 30 {
			l.report(eventring.TopicFilter, fmt.Sprintf("%d.", 2*i), fmt.Sprintf("%d.", 2*i+1))
			ids = append(ids, l.view().Events().Last())
		}
		for name, after := range map[string]string{"an ID": ids[9].String(), "an index": fmt.Sprint(ids[9].Index)} {
			r := open(t, h, after, events.Filter{})
			got := texts(t, next(t, r, 0))
			if len(got) != 40 || got[0] != "20." || got[39] != "59." {
				t.Errorf("after %s: %d events, from %q to %q, want 40 from 20. to 59.", name, len(got), got[0], got[len(got)-1])
			}
			r.Close()
		}
		r := open(t, h, events.FromFirst, events.Filter{Topics: []eventring.Topic{eventring.TopicMember}})
		wantTexts(t, "from the first, of members", next(t, r, 0), "h1 joined the cluster, at h1:7350.", "h1 is connected.")
		r.Close()
		for _, bad := range []string{"-1", "x", "1-2", "1.5"} {
			if _, err := h.Open(bad, events.Filter{}); err == nil {
				t.Errorf("position %q is accepted", bad)
			}
		}
		if n := h.Readers(); n != 0 {
			t.Errorf("%d readers are counted after all were closed", n)
		}
	})
}

// A reader whose position is beyond what this peer has applied, as after a failover to
// a peer that lags, gets nothing twice.
func TestReaderOfAPeerThatLags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t)
		h := events.NewHub(l)
		defer h.Close()
		ahead := eventring.ID{Incarnation: 1, Index: l.view().Index() + 2, Seq: 0}
		r := open(t, h, ahead.String(), events.Filter{})
		defer r.Close()
		l.report(eventring.TopicFilter, "Seen elsewhere.")
		l.report(eventring.TopicFilter, "Seen elsewhere, too.", "New.")
		wantTexts(t, "at the peer that lags", next(t, r, time.Minute), "New.")
		if _, err := h.Open("2-1-0", events.Filter{}); !errors.Is(err, events.ErrOtherHistory) {
			t.Errorf("a position of a later founding: %v", err)
		}
	})
}

// Where the ring has moved past a position, or the position is of a history that was
// cut off, the reader is told so, and begins with the first event that there is.
func TestReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t)
		h := events.NewHub(l)
		defer h.Close()
		early := l.view().Events().Last()
		slow := open(t, h, early.String(), events.Filter{})
		defer slow.Close()
		for l.view().Events().Forgotten().Compare(early) <= 0 {
			var many []string
			for range fsm.MaxEventReports {
				many = append(many, strings.Repeat("x", eventring.MaxText))
			}
			l.report(eventring.TopicFilter, many...)
		}
		synctest.Wait()
		for what, r := range map[string]*events.Reader{"a slow reader": slow,
			"one that comes back": open(t, h, early.String(), events.Filter{})} {
			b := next(t, r, 0)
			if b.Reset == nil || b.Reset.First != l.view().Events().First().String() || b.Reset.Reason == "" {
				t.Errorf("%s: reset is %+v, want the first event %v", what, b.Reset, l.view().Events().First())
			}
			if len(b.Events) == 0 { // a slow reader learns it alone
				b = next(t, r, 0)
			}
			if len(b.Events) == 0 || b.Events[0].ID != l.view().Events().First() {
				t.Errorf("%s: after the reset come %d events, not beginning with the first", what, len(b.Events))
			}
			if r != slow {
				r.Close()
			}
		}
	})
}

// After a founding a reader goes on where its position is part of the history, and is
// reset where it is not.
func TestResetAfterAFounding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t)
		l.report(eventring.TopicFilter, "Before.")
		known := l.view().Events().Last()
		l.refound(0)
		h := events.NewHub(l)
		defer h.Close()
		r := open(t, h, known.String(), events.Filter{})
		wantTexts(t, "a known position", next(t, r, 0), "h1 is connected.")
		r.Close()
		lost := known
		lost.Seq++
		r = open(t, h, lost.String(), events.Filter{})
		defer r.Close()
		if b := next(t, r, 0); b.Reset == nil || !strings.Contains(b.Reset.Reason, "founded again") {
			t.Errorf("a position of entries that were lost: reset is %+v", b.Reset)
		}
	})
}

// After a recovery that took entries of which no majority may have had them, a position
// among them may be that of another event: the majority had other entries there. One
// before them is good, by its ID and by its index.
func TestResetWhereATailIsNotProven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t)
		l.report(eventring.TopicFilter, "Before.")
		proven := l.view().Events().Last()
		l.report(eventring.TopicFilter, "Perhaps here alone.")
		l.report(eventring.TopicFilter, "Perhaps here alone, too.")
		tail := l.view().Events().Last()
		l.refound(2)
		h := events.NewHub(l)
		defer h.Close()
		for _, at := range []eventring.ID{tail, {Incarnation: tail.Incarnation, Index: tail.Index - 1}} {
			r := open(t, h, at.String(), events.Filter{})
			if b := next(t, r, 0); b.Reset == nil || !strings.Contains(b.Reset.Reason, "founded again") {
				t.Errorf("tail-not-proven: at %v, where others may have read another event, reset is %+v", at, b.Reset)
			}
			r.Close()
		}
		for _, at := range []string{proven.String(), fmt.Sprint(proven.Index)} {
			r := open(t, h, at, events.Filter{})
			wantTexts(t, "tail-not-proven: from "+at, next(t, r, 0), "Perhaps here alone.", "Perhaps here alone, too.",
				"h1 is connected.")
			r.Close()
		}
	})
}

// An index that a founding has left behind is a position as good as any other, until
// the ring has moved past it.
func TestIndexFromBeforeAFounding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t)
		l.report(eventring.TopicFilter, "Seen.")
		seen := l.view().Index()
		l.report(eventring.TopicFilter, "Not seen.")
		l.refound(0)
		h := events.NewHub(l)
		defer h.Close()
		r := open(t, h, fmt.Sprint(seen), events.Filter{})
		wantTexts(t, "index-of-before", next(t, r, 0), "Not seen.", "h1 is connected.")
		r.Close()
		r = open(t, h, fmt.Sprint(l.view().Index()+1), events.Filter{}) // of a peer that is ahead
		defer r.Close()
		l.report(eventring.TopicFilter, "Seen there.")
		l.report(eventring.TopicFilter, "New.")
		wantTexts(t, "index-of-before: ahead of this peer", next(t, r, time.Minute), "New.")
		for l.view().Events().Forgotten().Index <= seen {
			l.report(eventring.TopicFilter,
				slices.Repeat([]string{strings.Repeat("x", eventring.MaxText)}, fsm.MaxEventReports)...)
		}
		old := open(t, h, fmt.Sprint(seen), events.Filter{})
		defer old.Close()
		if b := next(t, old, 0); b.Reset == nil {
			t.Error("index-of-before: what came after it is not kept, and the reader is not told")
		}
	})
}

// Who is no administrator sees no audit and no rules; and a filter lets pass what it names.
func TestFilters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t)
		h := events.NewHub(l)
		defer h.Close()
		begin := l.view().Events().Last().String()
		l.report(eventring.TopicAudit, "Ann called.")
		l.commit(fsm.Header{}, ruleset.Create{UUID: node, Body: []byte("{}")})
		l.commit(fsm.Header{Session: l.session},
			introspection.Start{Node: node, Event: introspection.EventStart, Timeout: time.Hour})
		l.report(eventring.TopicWarning, "About "+node+".")
		began, rule := "Introspection of node "+node+" began.", "Introspection rule "+node+" was created."
		for name, c := range map[string]struct {
			filter events.Filter
			want   []string
		}{
			"a reader":             {events.Filter{}, []string{began, "About " + node + "."}},
			"an administrator":     {events.Filter{Admin: true}, []string{"Ann called.", rule, began, "About " + node + "."}},
			"a reader asks for it": {events.Filter{Topics: []eventring.Topic{eventring.TopicAudit}}, nil},
			"a node":               {events.Filter{Admin: true, Node: node}, []string{began}},
			"two kinds": {
				events.Filter{Admin: true, Topics: []eventring.Topic{eventring.TopicRule, eventring.TopicWarning}},
				[]string{rule, "About " + node + "."}},
		} {
			r := open(t, h, begin, c.filter)
			wantTexts(t, name, next(t, r, 0), c.want...)
			r.Close()
			c.filter.Admin = c.filter.Admin || name == "an administrator"
			newest := events.Newest(l.view(), c.filter, len(c.want))
			wantTexts(t, name+", the newest", newest, c.want...)
			if newest.Last != l.view().Events().Last() {
				t.Errorf("%s: the newest end with position %v", name, newest.Last)
			}
		}
	})
}

// Readers are bounded, a hub that nobody reads has no goroutine, and one that is
// closed ends its readers.
func TestHubIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t)
		h := events.NewHub(l)
		var all []*events.Reader
		for range events.MaxReaders {
			all = append(all, open(t, h, events.FromNow, events.Filter{}))
		}
		if _, err := h.Open(events.FromNow, events.Filter{}); !errors.Is(err, events.ErrTooMany) {
			t.Errorf("one reader too many: %v", err)
		}
		for _, r := range all[1:] {
			r.Close()
		}
		ended := make(chan error, 1)
		go func() {
			_, err := all[0].Next(context.Background(), 1, time.Hour)
			ended <- err
		}()
		synctest.Wait()
		h.Close()
		if err := <-ended; !errors.Is(err, events.ErrClosed) { // in a bubble
			t.Errorf("a reader of a hub that was closed: %v", err)
		}
		all[0].Close()
		if _, err := h.Open(events.FromNow, events.Filter{}); !errors.Is(err, events.ErrClosed) {
			t.Errorf("a hub that was closed: %v", err)
		}
	})
}

// Many readers of all speeds, with readers that come and go: each sees every event
// once, in order.
func TestEveryReaderSeesEveryEventOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const total, readers = 5000, 20
		l := newLedger(t)
		h := events.NewHub(l)
		defer h.Close()
		begin := l.view().Events().Last().String()
		done := make(chan error, readers)
		for i := range readers {
			go func() { done <- followAll(t, h, begin, total, time.Duration(i)*20*time.Millisecond, i%3 == 0) }()
		}
		for n := 0; n < total; n += 10 {
			var some []string
			for k := range 10 {
				some = append(some, fmt.Sprintf("%d.", n+k))
			}
			l.report(eventring.TopicFilter, some...)
			time.Sleep(3 * time.Millisecond) // in a bubble
		}
		for range readers {
			if err := <-done; err != nil { // in a bubble
				t.Error(err)
			}
		}
	})
}

// followAll reads so many events, with a pause after each batch, at the same reader or
// at a new one after each.
func followAll(t *testing.T, h *events.Hub, after string, total int, pause time.Duration, again bool) error {
	r, err := h.Open(after, events.Filter{})
	if err != nil {
		return err
	}
	defer func() { r.Close() }()
	for seen := 0; seen < total; {
		b, err := r.Next(context.Background(), 100, time.Minute)
		if err != nil || b.Reset != nil {
			return fmt.Errorf("after %d events: reset %+v, %w", seen, b.Reset, err)
		}
		for _, text := range texts(t, b) {
			if want := fmt.Sprintf("%d.", seen); text != want {
				return fmt.Errorf("exactly-once: event %q where %q was expected", text, want)
			}
			seen++
		}
		time.Sleep(pause) // in a bubble
		if again {
			r.Close()
			if r, err = h.Open(b.Last.String(), events.Filter{}); err != nil {
				return err
			}
		}
	}
	return nil
}
