package firewall

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/doors"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// What the state waits for a door that is not known is what a guard waits under the
// longest lease and freeze that a configuration may set, for an address that is not gated.
func TestUnknownDoorsAreThoseOfTheLongestLease(t *testing.T) {
	longest := GuardOptions{Length: config.MaxFirewallLease, Freeze: config.MaxFirewallFreeze}
	if longest.passWait() != doors.UnknownPassWait || longest.addressWait() != doors.UnknownAddressWait {
		t.Errorf("longest-lease: a guard waits %v and %v, the state %v and %v", longest.passWait(), longest.addressWait(),
			doors.UnknownPassWait, doors.UnknownAddressWait)
	}
}

// After a founding neither the pass rule nor the address opens before the last
// former member was heard, and the wait begins then.
func TestGuardWaitsForFormerMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for _, id := range []string{"b", "c"} {
			if err := r.apply(0, membership.PutMember{
				Member: membership.Member{ID: id, Name: "host-" + id, Address: id + ":7350", Version: fsm.Version}}).Err(); err !=
				nil {
				t.Fatal(err)
			}
		}
		refound := fsm.Refound{Index: r.next, UnixMillis: 1, NewIncarnation: true, Survivor: "a",
			Former: r.state.View().MayRun("a")}
		if err := r.state.Refound(refound); err != nil {
			t.Fatal(err)
		}
		r.next++
		r.lead()
		const heard = 8 * time.Second
		r.guard(20*time.Second, func(g *Guard) {
			time.Sleep(heard / 2) // in a bubble
			if err := r.apply(r.token, membership.FormerHeard{ID: "b"}).Err(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(heard / 2)
			synctest.Wait()
			if s := g.Status(); !strings.Contains(s.Why, "host-c (c:7350) not heard") || strings.Contains(s.Why, "host-b") ||
				s.AddressWhy != s.Why {
				t.Errorf("it says %q and %q", s.Why, s.AddressWhy)
			}
			if err := r.apply(r.token, membership.FormerHeard{ID: "c"}).Err(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(12 * time.Second)
		})
		for what, wait := range map[string]time.Duration{
			"arm": doors.UnknownPassWait, "open": doors.UnknownPassWait, "propose pass open": doors.UnknownPassWait,
			"put": doors.UnknownAddressWait, "propose address taken": doors.UnknownAddressWait,
		} {
			if at := r.times(what); len(at) == 0 || at[0] < heard+wait {
				t.Errorf("waits-for-former: %s at %v, not before %v", what, at[:min(len(at), 1)], heard+wait)
			}
		}
		if n := r.count("propose pass open"); n != 1 {
			t.Errorf("the log was asked %d times to record the opening", n)
		}
	})
}

// A holder's timers may run by a clock that is slewed slow, and the new holder's wait by one
// that is slewed fast, each by a twelfth (the default maxslewrate of chrony is 83,333 ppm).
func TestWaitAllowsForSlewedClocks(t *testing.T) {
	const slow, fast = 1 - 1./12, 1 + 1./12
	for _, lease := range []time.Duration{300 * time.Millisecond, 400 * time.Millisecond, config.MaxFirewallLease} {
		o := GuardOptions{Length: lease, Freeze: config.MaxFirewallFreeze}
		open := time.Duration(float64(2*lease)/slow) + o.Freeze
		held := time.Duration(float64(max(2*lease, freshAddress+addressLife))/slow) + o.Freeze
		waits := func(by time.Duration) time.Duration { return time.Duration(float64(by) / fast) }
		if waits(o.passWait()) < open || waits(o.addressWait()) < held {
			t.Errorf(
				"slewed-clocks: with firewall.lease %v a new holder waits %v and %v; the old one is open for %v and has the address for %v",
				lease, waits(o.passWait()), waits(o.addressWait()), open, held)
		}
	}
}
