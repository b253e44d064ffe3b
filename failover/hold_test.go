package failover

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// all lets every peer say the same of a kube node.
func (c *court) all(uid string, silent bool) {
	for _, p := range c.peers {
		p.says(uid, silent)
	}
}

// suspectAfter lets time go on until n0 is a suspect, and returns when that was.
func (c *court) suspectAfter(began time.Time, limit time.Duration) time.Duration {
	c.t.Helper()
	for time.Since(began) < limit {
		if c.pass(500*time.Millisecond, nil); c.look("n0").Suspect {
			return time.Since(began)
		}
	}
	c.t.Fatalf("hold-beside: n0 is no suspect after %v: %v", limit, c.look("n0").Why)
	return 0
}

// A majority that has heard nothing for the hold time when the Lease reaches its age
// waits for nothing more; one that was heard in between, or fell silent later, waits for
// the rest of it. Two faults come together: what the peers hear changes while the Lease
// grows old.
func TestHoldRunsBesideTheLease(t *testing.T) {
	const age, hold, look = 17 * time.Second, 2 * time.Second, 500 * time.Millisecond
	for _, c := range []struct {
		name    string
		happens func(c *court)
		at      time.Duration // after its last renewal
	}{
		{"silent long before", func(c *court) {
			c.pass(8*time.Second, nil)
			c.all("uid-0", true)
		}, age},
		{"silent a second before", func(c *court) {
			c.pass(age-time.Second, nil)
			c.all("uid-0", true)
		}, age + hold - time.Second},
		{"heard a second before, silent again", func(c *court) {
			c.pass(6*time.Second, nil)
			c.all("uid-0", true)
			c.pass(age-7*time.Second, nil)
			c.all("uid-0", false)
			c.pass(look, nil)
			c.all("uid-0", true)
		}, age + hold - look},
		{"one peer alone is silent for long", func(c *court) {
			c.peers[2].says("uid-0", true)
			c.pass(age-time.Second, nil)
			c.peers[1].says("uid-0", true)
		}, age + hold - time.Second},
		{"silent when it has been old for long", func(c *court) {
			c.pass(age+10*time.Second, nil)
			c.all("uid-0", true)
		}, age + 10*time.Second + hold},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, random *rand.Rand) {
				o := newCourt(t, 5, random)
				o.told(5)
				o.all("uid-0", false)
				began := time.Now()
				c.happens(o)
				// The vote is seen by the look after it, half a second later.
				if took := o.suspectAfter(began, time.Minute); took < c.at || took > c.at+look {
					t.Errorf("hold-beside: a suspect %v after the last renewal, want %v", took, c.at)
				}
			})
		})
	}
}

// Nothing lasts through a silence of the API server: the hold time begins again, also
// where it is longer than the age of a Lease, and peers that are heard nothing of all the
// while do not shorten it.
func TestHoldBeginsAgainAfterASilence(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, random *rand.Rand) {
		const hold = 40 * time.Second
		c := newCourt(t, 5, random)
		c.settings.Detection.Hold = hold
		c.told(5)
		c.all("uid-0", true)
		c.pass(hold-5*time.Second, nil)
		for range 10 {
			time.Sleep(500 * time.Millisecond)
			for _, p := range c.peers {
				c.log.do(fsm.Header{}, membership.RenewSession{Session: p.ID()})
			}
			c.judge.Look()
		}
		if took := c.suspectAfter(time.Now(), time.Minute); took < hold {
			t.Errorf("hold-silence: a suspect %v after the API server answered again, want %v", took, hold)
		}
	})
}

// A renewal at the last moment ends it, however long the peers have heard nothing: a port
// that is hidden is no death.
func TestRenewalEndsALongSilence(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, random *rand.Rand) {
		c := newCourt(t, 5, random)
		c.told(5)
		c.all("uid-0", true)
		for i := range 20 {
			c.pass(16500*time.Millisecond, func(all []Verdict) {
				if all[0].Suspect {
					t.Fatalf("hold-renewed: suspected though it renews: %v", all[0].Why)
				}
			})
			c.tracker.Renewed("n0", Renewal{At: time.Duration(i).String()})
		}
	})
}

// The intent comes at the moment at which the Lease is old enough, and never before it:
// no tick is waited for, and the API server is asked then. The Lease is renewed at every
// phase of the ticks, and the leader is another one each time.
func TestIntentComesWhenTheLeaseIsOldEnough(t *testing.T) {
	const age, late = 17 * time.Second, 3*modelTick + 50*time.Millisecond // kubelet, watch, and the world's own look
	for phase := range 6 {
		inWorld(t, 3, uint64(20+phase), func(w *world) {
			w.pass(time.Duration(phase) * 170 * time.Millisecond)
			h := w.lead("h1", safe(), 0, 0)
			defer h.leave()
			w.pass(time.Minute)
			var renewed time.Time
			w.with(func() { renewed = w.nodes["n1"].renewed })
			w.until("it renews", time.Minute, func() (again bool) {
				w.with(func() { again = w.nodes["n1"].renewed.After(renewed); renewed = w.nodes["n1"].renewed })
				return again
			})
			w.pass(time.Second) // the watch has told it
			w.cutPower("n1")
			w.until("it is begun", time.Minute, func() bool { return w.state("n1") != 0 })
			took := w.remediations("n1")[0].Began - fsm.Time(renewed.Sub(w.ledger.began))
			if took := time.Duration(took); took < age || took > age+late {
				t.Errorf("intent-on-time: begun %v after the last renewal, want %v to %v", took, age, age+late)
			}
		})
	}
}

// Of two control-plane nodes that are found dead by the same look, one goes first.
func TestControlPlaneOneAtATime(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, random *rand.Rand) {
		c := newCourt(t, 5, random)
		c.told(5)
		for i := range 5 {
			n := modelNodeNamed(i)
			n.ControlPlane = true
			c.tracker.Node(n)
			c.all(n.UID, i < 2)
		}
		var found []Verdict
		c.pass(30*time.Second, func(all []Verdict) {
			for i := 2; i < 5; i++ {
				c.tracker.Renewed(fmt.Sprintf("n%d", i), Renewal{At: time.Now().String()})
			}
			if found == nil && slices.ContainsFunc(all, func(v Verdict) bool { return v.Act }) {
				found = all
			}
		})
		if len(found) != 5 || !found[0].Act || !found[1].Suspect || found[1].Act ||
			!strings.HasPrefix(found[1].Why[0], "a remediation of n0 is open") {
			t.Errorf("control-plane: %+v", found)
		}
	})
}
