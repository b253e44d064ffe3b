package events_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/api/events"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/test/msgcheck"
)

// doer commits reports to a ledger, unless it has no leader.
type doer struct {
	l       *ledger
	down    error
	entries []int // events of each
}

func (d *doer) Do(_ context.Context, _ string, c fsm.Command) (fsm.Result, error) {
	if d.down != nil {
		return fsm.Result{}, d.down
	}
	d.entries = append(d.entries, len(c.(fsm.ReportEvents).Reports))
	d.l.commit(fsm.Header{Session: d.l.session}, c)
	return fsm.Result{}, nil
}

func newReporter(t *testing.T, d *doer) *events.Reporter {
	return events.NewReporter(events.ReporterOptions{Do: d, View: d.l.view, Wall: time.Now, Logger: msgcheck.Logger(t)})
}

func warn(text string) eventring.Report {
	return eventring.Report{Topic: eventring.TopicWarning, Action: "raised", Text: text}
}

// What a host without a quorum saw is recorded when it is back, with the time it
// happened; what there is no room for is counted.
func TestReportsWaitForALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &doer{l: newLedger(t), down: errors.New("no leader")}
		r := newReporter(t, d)
		ctx, stop := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer stop()
		go r.Run(ctx)
		happened := time.Now()
		r.Report(warn("First."))
		time.Sleep(time.Hour) // in a bubble
		synctest.Wait()
		for i := range events.MaxWaiting + 9 {
			r.Report(warn(fmt.Sprintf("%d.", i)))
		}
		synctest.Wait()
		if len(d.entries) != 0 {
			t.Fatalf("%d entries without a leader", len(d.entries))
		}
		d.down = nil
		begin := d.l.view().Events().Last()
		time.Sleep(10 * events.ReportEvery) // in a bubble
		synctest.Wait()
		var all []eventring.Event
		for e := range d.l.view().Events().After(begin) {
			all = append(all, e.Decode())
		}
		if len(all) != events.MaxWaiting+1 || all[0].Text != "First." || all[0].Millis != happened.UnixMilli() ||
			all[0].Peer != "h1" {
			t.Fatalf("%d events, the first is %+v; want %d, the first at %d", len(all), all[0], events.MaxWaiting+1,
				happened.UnixMilli())
		}
		counted := 0
		for _, e := range all {
			if e.Action == "left-out" {
				counted++
				if !strings.HasPrefix(e.Text, "10 events ") {
					t.Errorf("left out are: %s", e.Text)
				}
			}
		}
		if counted != 1 {
			t.Errorf("%d events tell what was left out, want 1", counted)
		}
	})
}

// What callers ask for leaves room for what the host itself has to say.
func TestAuditsLeaveRoomForWarnings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &doer{l: newLedger(t)}
		r := newReporter(t, d)
		ctx, stop := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer stop()
		go r.Run(ctx)
		begin := d.l.view().Events().Last()
		for range 10_000 {
			r.Report(eventring.Report{Topic: eventring.TopicAudit, Action: "call", Text: "Ann called."})
		}
		r.Report(warn("The disk is full."))
		time.Sleep(10 * events.ReportEvery) // in a bubble
		synctest.Wait()
		warned := false
		for e := range d.l.view().Events().After(begin) {
			warned = warned || e.Decode().Text == "The disk is full."
		}
		if !warned {
			t.Error("report-room: 10,000 calls pushed a warning of the host out")
		}
	})
}

// A flood of reports costs an entry a second, of up to 64 events.
func TestReportsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &doer{l: newLedger(t)}
		r := newReporter(t, d)
		ctx, stop := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer stop()
		go r.Run(ctx)
		for range 10_000 {
			r.Report(warn(strings.Repeat("ä", eventring.MaxText)))
			time.Sleep(time.Millisecond) // in a bubble
		}
		synctest.Wait()
		if n := len(d.entries); n < 9 || n > 10 {
			t.Errorf("10 s of reports made %d entries, want one a second", n)
		}
		for _, n := range d.entries {
			if n > fsm.MaxEventReports {
				t.Errorf("an entry reports %d events", n)
			}
		}
	})
}
