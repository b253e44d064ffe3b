package firewall

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/doors"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/ironicports"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// L is the length of the lease in these tests.
const leaseLength = time.Second

// rig is one host under one leadership: a log without peers, a kernel that
// notes what is done to it, and a proof that can be refused or slow.
type rig struct {
	t       *testing.T
	state   *fsm.State
	next    uint64
	rules   rules         // in the kernel
	foreign chan struct{} // somebody was at them

	mu          sync.Mutex
	changed     chan struct{}
	token       fencing.Token
	began       time.Time
	events      []event
	confirm     func(t0 time.Time) error
	propose     func(c fsm.Command) error // nil: as the state says
	arm         time.Time                 // until when
	lease       time.Time
	rival       chan string   // who claims the address next; nil: nobody does
	owner       string        // MAC of another host that answers for the address
	silence     time.Duration // that the neighbours are given to answer
	slow        time.Duration // that the kernel takes to write the lease
	addressless bool          // a host without a floating IP
	shown       shown         // what lets the address out
	freeze      time.Duration
	term        uint64 // of entries; zero: each has a later one
	elders      elders
	// kernel, if set, is called after a shut, put or remove was noted; what it
	// returns is the result of that call.
	kernel func(what string) error
}

// event is one act of the guard.
type event struct {
	at   time.Duration // since the leadership began
	what string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	state, err := fsm.Founded(fsm.Found{
		ClusterID: "5f0c1f3e-0000-4000-8000-000000000001", CACert: []byte("-----BEGIN CERTIFICATE-----"),
		CAKey: []byte("-----BEGIN PRIVATE KEY-----"), GossipKey: make([]byte, 32),
		Member: membership.Member{ID: "a", Name: "a", Address: "a:7350", Version: fsm.Version},
	}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t: t, state: state, next: 2, changed: make(chan struct{}), foreign: make(chan struct{}, 1),
		confirm: func(time.Time) error { return nil }}
}

// apply commits a command under a token.
func (r *rig) apply(token fencing.Token, c fsm.Command) fsm.Result {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	data, err := fsm.Encode(fsm.Header{Token: token, Time: fsm.Time(time.Since(start(r.t)))}, c)
	if err != nil {
		r.t.Fatal(err)
	}
	res := r.state.Apply(fsm.Entry{Index: r.next, Term: cmp.Or(r.term, r.next), Data: data})
	r.next++
	close(r.changed)
	r.changed = make(chan struct{})
	return res
}

// start is the moment at which every bubble's clock begins.
func start(*testing.T) time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }

// lead begins a leadership of this host, after lists were pulled once.
func (r *rig) lead() {
	r.t.Helper()
	r.token = r.apply(0, fsm.Lead{Peer: "a", Boot: "b", Version: fsm.Version}).Token
	r.began = time.Now()
	if res := r.apply(r.token, ironicports.PutPorts{Complete: true}); res.Err() != nil {
		r.t.Fatal(res.Err())
	}
}

func (r *rig) Changed() (fsm.View, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.View(), r.changed
}

func (r *rig) Token() fencing.Token { return r.token }

func (r *rig) Propose(_ context.Context, c fsm.Command) (fsm.Result, error) {
	r.note("propose " + strings.TrimPrefix(strings.TrimPrefix(slog.AnyValue(fsm.KindOf(c)).String(), "fsm."), "Kind"))
	res := r.apply(r.token, c)
	if r.propose != nil {
		return res, r.propose(c)
	}
	return res, nil
}

func (r *rig) Confirm(_ context.Context, t0 time.Time) error {
	r.mu.Lock()
	r.events = append(r.events, event{t0.Sub(r.began), "t0"})
	confirm := r.confirm
	r.mu.Unlock()
	return confirm(t0)
}

func (r *rig) note(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noteLocked(what)
}

func (r *rig) noteLocked(what string) {
	r.events = append(r.events, event{time.Since(r.began), what})
}

// Lease of the rig.
func (r *rig) Arm(_ context.Context, d time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noteLocked("arm")
	r.arm = time.Now().Add(d)
	return nil
}

func (r *rig) Open(_ context.Context, d time.Duration) error {
	time.Sleep(r.slow) // in a bubble
	r.mu.Lock()
	defer r.mu.Unlock()
	if !time.Now().Before(r.arm) {
		return ErrLapsed
	}
	r.noteLocked("open")
	r.arm, r.lease = time.Time{}, time.Now().Add(d)
	return nil
}

func (r *rig) Hold(_ context.Context, d time.Duration) error {
	time.Sleep(r.slow) // in a bubble
	r.mu.Lock()
	defer r.mu.Unlock()
	if !time.Now().Before(r.lease) {
		return ErrLapsed
	}
	r.noteLocked("hold")
	r.lease = time.Now().Add(d)
	return nil
}

func (r *rig) Shut(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noteLocked("shut")
	if err := r.called("shut"); err != nil {
		return err
	}
	r.arm, r.lease = time.Time{}, time.Time{}
	return nil
}

func (r *rig) called(what string) error {
	if r.kernel == nil {
		return nil
	}
	return r.kernel(what)
}

// rules are chains that keep what they are given.
type rules struct {
	slow time.Duration // each Replace takes so long
	mu   sync.Mutex
	now  Ruleset
}

func (c *rules) Replace(_ context.Context, r Ruleset) error {
	time.Sleep(c.slow) // in a bubble
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = r
	return nil
}

func (c *rules) Change(_ context.Context, d Change) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.With(d)
	return nil
}

func (c *rules) Read(context.Context) (Ruleset, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now, nil
}

// guard runs a guard for d of one leadership, with what happens meanwhile.
func (r *rig) guard(d time.Duration, meanwhile func(g *Guard)) {
	r.t.Helper()
	log := slog.New(slog.DiscardHandler)
	lists := NewLists(&r.rules, r, Policy{Discovery: true}, 0, r.foreign, log)
	o := GuardOptions{Lease: r, Lists: lists, Log: r, Length: leaseLength, Freeze: r.freeze, Logger: log}
	if !r.addressless {
		o.Address, o.AddressText, o.AddressLease = address{r}, "192.0.2.9", r.gated()
	}
	g := NewGuard(o)
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { lists.Run(ctx) })
	tenure, end := context.WithCancel(ctx)
	done.Go(func() {
		if err := g.Run(tenure, r); err != nil && tenure.Err() == nil {
			r.note("ended: " + err.Error())
		}
	})
	meanwhile(g)
	time.Sleep(d) // in a bubble
	end()
	synctest.Wait()
	cancel()
	done.Wait()
}

// times returns when something was done.
func (r *rig) times(what string) (at []time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.what == what {
			at = append(at, e.at)
		}
	}
	return at
}

func (r *rig) count(what string) int { return len(r.times(what)) }

func TestGuardOpensAndHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.lead()
		r.guard(10*time.Second, func(*Guard) {})
		if r.count("open") != 1 || r.count("hold") < 20 || r.count("put") < 20 {
			t.Errorf("in 10 s: opened %d times, held %d, put %d", r.count("open"), r.count("hold"), r.count("put"))
		}
		if first := r.times("open")[0]; first > 100*time.Millisecond {
			t.Errorf("nothing was open anywhere, and the guard waited for %v", first)
		}
		if last := r.events[len(r.events)-1]; !slices.Contains([]string{"shut", "remove"}, last.what) {
			t.Errorf("the last thing it did was %q", last.what)
		}
		// An element is armed before the proof that it is swapped with begins.
		for i, e := range r.events {
			if e.what == "open" && (r.events[i-1].what != "t0" || r.events[i-2].what != "arm" ||
				r.events[i-2].at > r.events[i-1].at) {
				t.Errorf("armed-before-proof: opened after %v", r.events[max(0, i-3):i])
			}
		}
	})
}

func TestGuardWaitsForAnotherDoor(t *testing.T) {
	for name, before := range map[string]func(r *rig){
		"recorded open": func(r *rig) {
			old := r.apply(0, fsm.Lead{Peer: "a", Boot: "old", Version: fsm.Version}).Token
			for _, c := range []fsm.Command{doors.PassOpen{}, doors.AddressTaken{Address: "192.0.2.9"}} {
				if err := r.apply(old, c).Err(); err != nil {
					t.Fatal(err)
				}
			}
		},
		"unknown": func(r *rig) {
			if err := r.state.Refound(fsm.Refound{Index: r.next, UnixMillis: 1}); err != nil {
				t.Fatal(err)
			}
			r.next++
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				before(r)
				r.lead()
				r.guard(12*time.Second, func(*Guard) {})
				const wait = fullWait
				for _, what := range []string{"arm", "open", "put"} {
					if at := r.times(what); len(at) == 0 || at[0] < wait {
						t.Errorf("waits: %s at %v, not before %v", what, at[:min(len(at), 1)], wait)
					}
				}
				for _, what := range []string{"propose pass open", "propose address taken"} {
					if at := r.times(what); len(at) != 1 || at[0] < wait {
						t.Errorf("records-late: %s at %v, once and not before %v", what, at, wait)
					}
				}
			})
		})
	}
}

func TestGuardShutsOnDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.lead()
		r.guard(3*time.Second, func(*Guard) {
			time.Sleep(time.Second) // in a bubble
			r.mu.Lock()
			r.confirm = func(time.Time) error { return errors.New("no majority answers") }
			r.mu.Unlock()
			time.Sleep(time.Second)
			synctest.Wait()
			if r.lease.After(time.Now()) {
				t.Error("closes-on-doubt: the door is open although leadership cannot be proven")
			}
			held := r.count("hold")
			time.Sleep(time.Second)
			if now := r.count("hold"); now != held {
				t.Errorf("closes-on-doubt: held %d times without a proof", now-held)
			}
		})
	})
}

// Who flushes the rules flushes the lease; the guard does not wait for its next
// turn to build it anew.
func TestGuardShutsAtOnceWhenRulesAreFlushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.lead()
		r.guard(time.Second, func(*Guard) {
			time.Sleep(1001 * time.Millisecond) // in a bubble
			if err := r.rules.Replace(t.Context(), Ruleset{}); err != nil {
				t.Fatal(err)
			}
			flushed := time.Since(r.began)
			r.foreign <- struct{}{}
			synctest.Wait()
			if shut := r.times("shut"); len(shut) == 0 || shut[0] != flushed {
				t.Errorf("flushed at %v, shut at %v", flushed, shut)
			}
		})
		if r.count("open") != 1 || r.count("propose pass closed") != 1 {
			t.Errorf("opened %d times, said %d times that it is shut, want once each", r.count("open"),
				r.count("propose pass closed"))
		}
	})
}

func TestGuardStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.lead()
		r.guard(3*time.Second, func(g *Guard) {
			time.Sleep(time.Second) // in a bubble
			g.Stop(context.Background())
			if v, _ := r.Changed(); !v.PassDoor().OpenBy.IsZero() || !v.AddressDoor().OpenBy.IsZero() {
				t.Error("an orderly stop leaves word that it is open")
			}
		})
		shut, said := r.times("shut"), r.times("propose pass closed")
		if len(said) != 1 || len(shut) == 0 || shut[0] > said[0] {
			t.Errorf("shut at %v, said so at %v", shut, said)
		}
	})
}

// Whatever becomes of the word that it is shut, the same token opens no more.
func TestGuardNeverReopens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.propose = func(c fsm.Command) error {
			if _, closed := c.(doors.PassClosed); closed {
				return errors.New("outcome unknown")
			}
			return nil
		}
		r.lead()
		r.guard(5*time.Second, func(g *Guard) {
			time.Sleep(time.Second) // in a bubble
			g.Stop(context.Background())
			r.note("retired")
		})
		retired := r.times("retired")[0]
		for _, what := range []string{"arm", "open", "hold", "put"} {
			if at := r.times(what); at[len(at)-1] > retired {
				t.Errorf("never-reopens: %s at %v, after the word at %v", what, at[len(at)-1], retired)
			}
		}
	})
}

// A leader that never opened has nothing to say about doors.
func TestGuardThatNeverOpenedSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.confirm = func(time.Time) error { return nil }
		old := r.apply(0, fsm.Lead{Peer: "a", Boot: "old", Version: fsm.Version}).Token
		if err := r.apply(old, doors.PassOpen{}).Err(); err != nil {
			t.Fatal(err)
		}
		r.lead()
		r.guard(time.Second, func(g *Guard) { g.Stop(context.Background()) })
		// The address may be taken at once here, and then it is to be released.
		if r.count("propose pass closed") > 0 || r.count("propose address released") > r.count("propose address taken") {
			t.Errorf("never-opened: it said that it is shut: %v", r.events)
		}
		if v, _ := r.Changed(); v.PassDoor().OpenBy != old {
			t.Errorf("never-opened: the older token's record is %+v", v.PassDoor())
		}
	})
}

// A guard whose process slept between proof and write finds that the element it
// would swap has ended.
func TestGuardStartsAnewAfterALapse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.lead()
		r.guard(5*time.Second, func(*Guard) {
			time.Sleep(time.Second) // in a bubble
			r.mu.Lock()
			defer r.mu.Unlock()
			r.lease = time.Time{}
		})
		if r.count("open") != 2 || r.count("arm") != 2 {
			t.Errorf("opened %d times from %d armed elements, want 2 and 2", r.count("open"), r.count("arm"))
		}
	})
}

func TestReasonOfAClosedDoor(t *testing.T) {
	for want, why := range map[string]error{
		"this peer does not lead":                nil,
		"this peer does not lead: the disk hung": errors.New("the disk hung"),
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		if got := ended(ctx); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
