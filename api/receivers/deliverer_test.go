package receivers

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm/deliveries"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/leases"
	"github.com/trivet-ha/trivet/raftstore/leader"
	"github.com/trivet-ha/trivet/test/memlog"
)

const (
	warning = eventring.TopicWarning
	audit   = eventring.TopicAudit
)

var errLost = errors.New("connection reset")

// settle lets all that is due within a time happen.
func settle(d time.Duration) {
	time.Sleep(d) // in a bubble
	synctest.Wait()
}

// What happens after a receiver was named is sent in order, once, in batches; the log has
// at most one entry a second about it and ends with all that was taken.
func TestEventsAreSentInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, memlog.New(t))
		s.say(warning, 3)
		one := &server{t: t}
		_, stop := s.lead(s.receiver("cmdb", one))
		settle(2 * time.Second)
		began := len(s.notes)
		for range 50 {
			s.say(warning, 10)
			settle(100 * time.Millisecond)
		}
		settle(3 * time.Second)
		texts := told(one.got())
		if len(texts) != 500 || texts[0] != "4" || texts[499] != "503" || !slices.IsSortedFunc(texts, byNumber) {
			t.Fatalf("out of order: %d events were sent: %v", len(texts), texts)
		}
		if n := len(s.notes) - began; n > 10 || n < 2 {
			t.Errorf("%d entries in 8s, want at most one a second", n)
		}
		for i, at := range s.notes[1:] {
			if d := at.Sub(s.notes[i]); d < noteEvery {
				t.Errorf("two entries within %v", d)
			}
		}
		if last := s.View().Events().Last(); s.noted("cmdb") != last {
			t.Errorf("noted is %v, the last event is %v", s.noted("cmdb"), last)
		}
		ids := make(map[string]bool)
		for _, d := range one.got() {
			if ids[d.id] || len(d.events) > maxBatch || d.Type != typeEvents || d.Data.Receiver != "cmdb" ||
				d.Data.Last != d.events[len(d.events)-1].ID {
				t.Errorf("delivery %s, sent before: %v, %d events, %+v", d.id, ids[d.id], len(d.events), d.Data.Last)
			}
			ids[d.id] = true
		}
		quiet := len(s.notes)
		settle(time.Hour)
		if len(s.notes) != quiet || len(one.got()) != len(ids) {
			t.Errorf("while nothing happens: %d entries and %d deliveries more", len(s.notes)-quiet, len(one.got())-len(ids))
		}
		stop()
	})
}

func byNumber(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// A leader that dies in the middle of a delivery, taken or not, is followed by one that
// repeats just that delivery under the same ID, although more has happened; then come the rest.
func TestNextLeaderRepeatsTheDelivery(t *testing.T) {
	for name, taken := range map[string]bool{"taken, and the answer lost": true, "hanging": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, memlog.New(t))
				one := &server{t: t, answer: func(ctx context.Context, _ int) (int, error) {
					if taken {
						return 0, errLost
					}
					<-ctx.Done()
					return 0, ctx.Err()
				}}
				_, stop := s.lead(s.receiver("cmdb", one))
				settle(2 * time.Second)
				s.say(warning, 5)
				settle(time.Second)
				s.say(warning, 5)
				stop()
				first := one.got()
				if len(first) == 0 {
					t.Fatal("nothing was sent")
				}
				two := &server{t: t}
				s.say(warning, 5)
				_, stop = s.lead(s.receiver("cmdb", two))
				settle(3 * time.Second)
				stop()
				again := two.got()
				if again[0].id != first[0].id || string(again[0].body) != string(first[0].body) {
					t.Errorf("not the same delivery: %s\n%s\nwas %s\n%s", again[0].id, again[0].body, first[0].id, first[0].body)
				}
				if texts := told(again); len(texts) != 15 || !slices.IsSortedFunc(texts, byNumber) {
					t.Errorf("the next leader sent %v", texts)
				}
			})
		})
	}
}

// A receiver that is dead, and one that never answers, delay no other; their deliveries are
// repeated with bounded pauses until they are taken, and this peer knows how old they are.
func TestDeadReceiversDelayNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, memlog.New(t))
		alive := &server{t: t}
		var up atomic.Bool
		dead := &server{t: t, answer: func(context.Context, int) (int, error) {
			if up.Load() {
				return http.StatusOK, nil
			}
			return 0, errLost
		}}
		silent := &server{t: t, answer: func(ctx context.Context, _ int) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}}
		d, stop := s.lead(s.receiver("alive", alive, "warning"), s.receiver("dead", dead, "warning"),
			s.receiver("silent", silent, "warning"))
		settle(2 * time.Second)
		for range 600 {
			s.say(warning, 1)
			settle(time.Second)
			if n := len(told(alive.got())); n < s.said-1 {
				t.Fatalf("delayed: %d of %d events", n, s.said)
			}
		}
		if n := len(dead.got()); n < 8 || n > 30 {
			t.Errorf("%d tries in 10 minutes", n)
		}
		if n := len(silent.got()); n < 8 || n > 30 {
			t.Errorf("%d tries of the silent one in 10 minutes", n)
		}
		for _, state := range d.States() {
			behind := state.Receiver != "alive"
			if age := time.Since(time.UnixMilli(state.Oldest)); behind != (state.Err != nil) ||
				behind && (state.Oldest == 0 || age < 9*time.Minute) {
				t.Errorf("%s: %v old, %v", state.Receiver, age, state.Err)
			}
		}
		up.Store(true)
		settle(2 * mostPause)
		if texts := told(dead.got()); texts[len(texts)-1] != "600" {
			t.Errorf("after its return the dead one has %s", texts[len(texts)-1])
		}
		stop()
		for _, state := range d.States() {
			if state.Err != nil || state.Oldest != 0 {
				t.Errorf("a peer that does not lead says of %s: %v", state.Receiver, state.Err)
			}
		}
	})
}

// What the ring has dropped is told as a gap, once, with its ends.
func TestGapsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, memlog.New(t))
		one := &server{t: t}
		var up atomic.Bool
		up.Store(true)
		one.answer = func(context.Context, int) (int, error) {
			if up.Load() {
				return http.StatusOK, nil
			}
			return http.StatusBadGateway, nil
		}
		_, stop := s.lead(s.receiver("cmdb", one))
		settle(2 * time.Second)
		s.say(warning, 1)
		settle(2 * time.Second)
		has := one.got()[len(one.got())-1].Data.Last
		up.Store(false)
		large := eventring.Report{Topic: warning, Action: "seen", Text: strings.Repeat("x", eventring.MaxText),
			Fields: make(map[string]string)}
		for _, name := range strings.Split("abcdefghijkl", "") {
			large.Fields[name] = large.Text
		}
		for range 60 {
			s.said++
			s.report(slices.Repeat([]eventring.Report{large}, 64)...)
		}
		gone := s.View().Events().Forgotten().String()
		stop()
		up.Store(true)
		begin := len(one.got())
		d, stop := s.lead(s.receiver("cmdb", one))
		settle(5 * time.Minute)
		all := one.got()[begin:]
		if gap := all[0].Data.Gap; gap == nil || gap.After != has || gap.Through != gone || gap.Reason != whyDropped {
			t.Fatalf("untold: gap %+v, want after %s through %s", gap, has, gone)
		}
		if all[1].Data.Gap != nil {
			t.Errorf("told again: %+v", all[1].Data.Gap)
		}
		kept := 0
		for e := range s.View().Events().Newest() {
			if e.Decode().Action == "seen" {
				kept++
			}
		}
		if n := len(told(all)); n != kept || kept < 1000 {
			t.Errorf("%d events were sent, %d are kept", n, kept)
		}
		if state := d.States()[0]; state.Gaps != 1 || state.Err != nil {
			t.Errorf("%+v", state)
		}
		stop()
	})
}

// A founding is told as a gap, once.
func TestFoundingsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, memlog.New(t))
		one := &server{t: t}
		_, stop := s.lead(s.receiver("cmdb", one))
		settle(2 * time.Second)
		s.say(warning, 1)
		settle(2 * time.Second)
		stop()
		before := len(one.got())
		s.Refound(0)
		_, stop = s.lead(s.receiver("cmdb", one))
		settle(2 * time.Second)
		s.say(warning, 1)
		settle(2 * time.Second)
		var why []string
		for _, d := range one.got()[before:] {
			if d.Data.Gap != nil {
				why = append(why, d.Data.Gap.Reason)
			}
		}
		if !slices.Equal(why, []string{whyFounded}) {
			t.Errorf("untold: the cluster was founded again, and gaps are %v", why)
		}
		if p, _ := s.View().Delivered("cmdb"); p.Cut {
			t.Errorf("told for ever: %+v", p)
		}
		stop()
	})
}

// A receiver is sent the kinds that it wants; those for administrators must be named. What
// it does not want costs an entry a minute at most, and makes no gap.
func TestKindsOfReceivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, memlog.New(t))
		all, audits, members := &server{t: t}, &server{t: t}, &server{t: t}
		_, stop := s.lead(s.receiver("all", all), s.receiver("audits", audits, "audit"), s.receiver("none", members, "pxe"))
		settle(2 * time.Second)
		s.say(warning, 2)
		s.say(audit, 3)
		settle(3 * time.Second)
		if a, b, c := len(told(all.got())), len(told(audits.got())), len(told(members.got())); a != 2 || b != 3 || c != 0 {
			t.Errorf("sent were %d, %d and %d events, want 2, 3 and 0", a, b, c)
		}
		settle(2 * passEvery)
		if last := s.View().Events().Last(); s.noted("none") != last {
			t.Errorf("noted is %v, the last event is %v", s.noted("none"), last)
		}
		stop()
	})
}

// While a member has an older release nothing is sent and nothing is written.
func TestNothingBelowItsLogVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, memlog.AtVersion(t, 2))
		one := &server{t: t}
		d, stop := s.lead(s.receiver("cmdb", one))
		s.do(leases.Grant{Name: "l", Holder: "h", TTL: time.Hour})
		settle(time.Minute)
		if len(one.got()) > 0 || len(s.notes) > 0 || !errors.Is(d.States()[0].Err, errOldRelease) {
			t.Errorf("%d deliveries, %d entries, %+v", len(one.got()), len(s.notes), d.States()[0])
		}
		stop()
	})
}

// A leader that cannot prove its leadership, or write its notes, sends nothing.
func TestUnprovenLeaderSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, memlog.New(t))
		one := &server{t: t, answer: func(context.Context, int) (int, error) { return 0, errLost }}
		_, stop := s.lead(s.receiver("cmdb", one))
		settle(2 * time.Second)
		s.say(warning, 1)
		settle(2 * time.Second)
		before := len(one.got())
		s.setReject(errors.New("no quorum"))
		settle(10 * time.Minute)
		if n := len(one.got()); before == 0 || n != before {
			t.Errorf("unproven: %d deliveries more", n-before)
		}
		s.setReject(nil)
		settle(2 * mostPause)
		if n := len(one.got()); n == before {
			t.Error("nothing is sent any more")
		}
		stop()
	})
}

// Other receivers count at once, also in the middle of a delivery; one that is named again
// goes on where it stood; a duty ends within its time.
func TestReceiversAreReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, memlog.New(t))
		hanging := &server{t: t, answer: func(ctx context.Context, _ int) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}}
		d, stop := s.lead(s.receiver("cmdb", hanging))
		settle(2 * time.Second)
		s.say(warning, 2)
		settle(2 * time.Second)
		other := &server{t: t}
		d.Set([]*Receiver{s.receiver("chat", other)})
		settle(2 * time.Second)
		s.say(warning, 2)
		settle(2 * time.Second)
		if texts := told(other.got()); len(texts) != 2 || texts[0] != "3" {
			t.Errorf("the new receiver was sent %v", texts)
		}
		back := &server{t: t}
		d.Set([]*Receiver{s.receiver("cmdb", back)})
		settle(3 * time.Second)
		if texts := told(back.got()); len(texts) != 4 || back.got()[0].id != hanging.got()[0].id {
			t.Errorf("the receiver that is back was sent %v", texts)
		}
		d.Set([]*Receiver{s.receiver("cmdb", hanging)})
		s.say(warning, 1)
		settle(2 * time.Second)
		ending := time.Now()
		stop()
		if took := time.Since(ending); took > leader.StopLimit/2 {
			t.Errorf("the duty took %v to end", took)
		}
	})
}

// The places of receivers that the configuration has no more are given to new ones, and
// not before that is needed.
func TestPlacesOfFormerReceivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, memlog.New(t))
		d, stop := s.lead()
		for n := range deliveries.MaxReceivers + 3 {
			d.Set([]*Receiver{s.receiver("r"+strings.Repeat("x", n%8)+string(rune('a'+n/8)), &server{t: t})})
			settle(2 * time.Second)
			s.say(warning, 1)
			settle(2 * time.Second)
			if known := len(s.View().Deliveries()); known != min(n+1, deliveries.MaxReceivers) {
				t.Fatalf("%d receivers are known after %d", known, n+1)
			}
		}
		stop()
	})
}
