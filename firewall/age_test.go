package firewall

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/doors"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// fullWait is what these guards wait for a door and for the address, without freeze.
const fullWait = 2 * leaseLength * 6 / 5

// elders is what a majority says of the leaders before this one.
type elders struct {
	until      time.Time // the newest acknowledgement; zero: no majority answers
	configured uint64
}

// Succeeds implements Proof as raftstore does.
func (r *rig) Succeeds(doorTerm, doorIndex uint64) (until time.Time, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.elders
	return e.until, !e.until.IsZero() && doorTerm < r.state.View().Leadership().Term && e.configured <= doorIndex
}

func (r *rig) Configured() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.elders.configured
}

// another is a leadership before this one, which has both doors open and is lost.
func (r *rig) another(wait time.Duration) fencing.Token {
	r.t.Helper()
	token := r.apply(0, fsm.Lead{Peer: "b", Boot: "old", Version: fsm.Version}).Token
	for _, c := range []fsm.Command{doors.PassOpen{Wait: wait}, doors.AddressTaken{Address: "192.0.2.9", Wait: wait}} {
		if err := r.apply(token, c).Err(); err != nil {
			r.t.Fatal(err)
		}
	}
	return token
}

// opens compares when the guard first did what, with when it may.
func (r *rig) opens(assertion string, at time.Duration) {
	r.t.Helper()
	for _, what := range []string{"arm", "open", "put", "propose pass open", "propose address taken"} {
		if times := r.times(what); len(times) == 0 || times[0] < at || times[0] > at+100*time.Millisecond {
			r.t.Errorf("%s: first %s at %v, want %v", assertion, what, times[:min(len(times), 1)], at)
		}
	}
}

// version makes the only member one that knows a log version.
func (r *rig) version(n int) {
	r.t.Helper()
	m := r.state.View().Members()[0]
	m.Version = n
	if err := r.apply(0, membership.PutMember{Member: m}).Err(); err != nil {
		r.t.Fatal(err)
	}
}

// proofs notes what the guard's records name as proven.
func (r *rig) proofs() (named func() []fencing.Token) {
	var all []fencing.Token
	r.propose = func(c fsm.Command) error {
		switch c := c.(type) {
		case doors.PassOpen:
			all = append(all, c.Proven)
		case doors.AddressTaken:
			all = append(all, c.Proven)
		}
		return nil
	}
	return func() []fencing.Token { return all }
}

// A leader that knows when the one before it was last acknowledged counts from then, with
// the longer of both waits.
func TestGuardOpensByAge(t *testing.T) {
	const older = 700 * time.Millisecond // than the leadership
	for name, c := range map[string]struct{ recorded, freeze, want time.Duration }{
		"the same wait":   {fullWait, 0, fullWait - older},
		"a longer one":    {4 * time.Second, 0, 4*time.Second - older},
		"with freeze":     {fullWait, time.Second, fullWait + 1200*time.Millisecond - older},
		"freeze of other": {fullWait + 2*time.Second, time.Second, fullWait + 2*time.Second - older},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.freeze = c.freeze
				old := r.another(c.recorded)
				r.elders.until = time.Now()
				time.Sleep(older) // in a bubble: the election
				r.lead()
				proofs := r.proofs()
				r.guard(6*time.Second, func(*Guard) {})
				r.opens("by-age", c.want)
				if got := proofs(); len(got) != 2 || got[0] != old || got[1] != old {
					t.Errorf("by-age: it names %v as proven, want %v twice", got, old)
				}
				for _, d := range []doors.Door{r.state.View().PassDoor(), r.state.View().AddressDoor()} {
					if d.Wait != fullWait+c.freeze*6/5 {
						t.Errorf("recorded-wait: %v, want %v", d.Wait, fullWait+c.freeze*6/5)
					}
				}
			})
		})
	}
}

// Where the age proves nothing, the wait is the full one, from the begin of the leadership.
func TestGuardWaitsInFull(t *testing.T) {
	for name, c := range map[string]struct {
		before func(r *rig) // the older leadership opens
		then   func(r *rig) // it is lost
		later  bool         // it waits even longer
	}{
		"no majority answers":   {then: func(r *rig) { r.elders.until = time.Time{} }},
		"the same term":         {before: func(r *rig) { r.term = 100 }},
		"members changed since": {then: func(r *rig) { r.elders.configured = r.next }},
		"an older member":       {then: func(r *rig) { r.version(1) }},
		"an older member when it was recorded": {before: func(r *rig) { r.version(1) },
			then: func(r *rig) { r.version(2) }},
		"acknowledged after leadership was given": {then: func(r *rig) { r.elders.until = time.Now().Add(time.Second) }},
		"founded again": {later: true, then: func(r *rig) {
			if err := r.state.Refound(fsm.Refound{Index: r.next, UnixMillis: 1}); err != nil {
				r.t.Fatal(err)
			}
			r.next++
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				if c.before != nil {
					c.before(r)
				}
				r.another(fullWait)
				r.elders.until = time.Now()
				if c.then != nil {
					c.then(r)
				}
				time.Sleep(500 * time.Millisecond) // in a bubble: the election
				r.lead()
				proofs := r.proofs()
				r.guard(12*time.Second, func(*Guard) {})
				if c.later {
					for what, wait := range map[string]time.Duration{"propose pass open": doors.UnknownPassWait,
						"propose address taken": doors.UnknownAddressWait} {
						if at := r.times(what); len(at) == 0 || at[0] < wait {
							t.Errorf("waits-in-full: first %s at %v, not before %v", what, at[:min(len(at), 1)], wait)
						}
					}
				} else {
					r.opens("waits-in-full", fullWait)
				}
				for _, token := range proofs() {
					if token != 0 {
						t.Errorf("waits-in-full: it names %v as proven", token)
					}
				}
			})
		})
	}
}

// Two leaders are lost in turn: the second one had opened by age, or had not opened yet.
func TestGuardOpensByAgeAgain(t *testing.T) {
	const election = 400 * time.Millisecond
	for name, led := range map[string]time.Duration{"after it had opened": 5 * time.Second,
		"before it had opened": time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.another(fullWait)
				for _, d := range []time.Duration{led, 5 * time.Second} {
					r.elders.until = time.Now() // of whichever leader was the last one
					time.Sleep(election)        // in a bubble
					r.lead()
					r.events = nil
					r.guard(d, func(*Guard) {})
					if d > fullWait {
						r.opens("by-age-again", fullWait-election)
					}
				}
			})
		})
	}
}

// A change of the members has both doors recorded again, once, and the lease is renewed
// while that is slow.
func TestGuardRecordsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.lead()
		const slow = 3 * time.Second
		var slowly atomic.Bool
		r.propose = func(fsm.Command) error {
			if slowly.Load() {
				time.Sleep(slow) // in a bubble
			}
			return nil
		}
		r.guard(10*time.Second, func(*Guard) {
			time.Sleep(time.Second) // in a bubble
			synctest.Wait()
			slowly.Store(true)
			r.mu.Lock()
			r.elders.configured = r.next
			r.next++
			held := len(r.events)
			r.mu.Unlock()
			time.Sleep(2 * slow) // in a bubble
			synctest.Wait()
			r.mu.Lock()
			defer r.mu.Unlock()
			swaps := 0
			for _, e := range r.events[held:] {
				if e.what == "hold" {
					swaps++
				}
			}
			if swaps < 3*int(2*slow/leaseLength)-3 {
				t.Errorf("renewed-meanwhile: the lease was renewed %d times in %v while the log was slow", swaps, 2*slow)
			}
		})
		for _, what := range []string{"propose pass open", "propose address taken"} {
			if n := r.count(what); n != 2 {
				t.Errorf("recorded-again: %s %d times, want twice", what, n)
			}
		}
		v := r.state.View()
		for _, d := range []doors.Door{v.PassDoor(), v.AddressDoor()} {
			if d.OpenBy != r.token || d.Index <= r.elders.configured {
				t.Errorf("recorded-again: members changed at %d, the door is %+v", r.elders.configured, d)
			}
		}
		if r.count("open") != 1 {
			t.Errorf("renewed-meanwhile: opened %d times", r.count("open"))
		}
	})
}

// What the log does not take is tried again, once a second; a cluster with an older
// member is not asked.
func TestGuardRecordsAgainAtItsPace(t *testing.T) {
	for name, c := range map[string]struct {
		version     int
		least, most int // records of the pass rule in ten seconds
	}{"never enough": {2, 8, 11}, "an older member": {1, 1, 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.version(c.version)
				r.elders.configured = 1 << 40 // of entries that were cut off
				r.lead()
				r.guard(10*time.Second, func(*Guard) {})
				if n := r.count("propose pass open"); n < c.least || n > c.most {
					t.Errorf("record-pace: recorded %d times, want %d to %d", n, c.least, c.most)
				}
			})
		})
	}
}
