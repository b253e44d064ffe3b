package fsm

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/doors"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/ironicports"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// way is one of the two doors, so that both are put to the same tests.
type way struct {
	name string
	open func(wait time.Duration) Command
	aged func(proven fencing.Token) Command // opens with proof that another has ended
	shut Command
	door func(View) doors.Door
	led  func(Led) doors.Door
	// unknown is the least wait while the door is not known.
	unknown time.Duration
}

func ways() []way {
	return []way{
		{
			name: "pass rule",
			open: func(wait time.Duration) Command { return doors.PassOpen{Wait: wait} },
			aged: func(proven fencing.Token) Command { return doors.PassOpen{Wait: wait, Proven: proven} },
			shut: doors.PassClosed{},
			door: View.PassDoor,
			led:  func(l Led) doors.Door { return l.Pass },

			unknown: doors.UnknownPassWait,
		},
		{
			name: "floating IP",
			open: func(wait time.Duration) Command { return doors.AddressTaken{Address: "192.0.2.1", Wait: wait} },
			aged: func(proven fencing.Token) Command {
				return doors.AddressTaken{Address: "192.0.2.1", Wait: wait, Proven: proven}
			},
			shut: doors.AddressReleased{},
			door: View.AddressDoor,
			led:  func(l Led) doors.Door { return l.Address },

			unknown: doors.UnknownAddressWait,
		},
	}
}

// eachWay runs a test on both doors; the other one must stay as it is.
func eachWay(t *testing.T, test func(*testing.T, *rig, way)) {
	t.Helper()
	both := ways()
	for i, w := range both {
		t.Run(w.name, func(t *testing.T) {
			r := newRig(t)
			test(t, r, w)
			if other := both[1-i].door(r.view()); other.OpenBy != 0 || other.ClosedBy != 0 {
				t.Errorf("the other door: %+v", other)
			}
		})
	}
}

// leads begins a leadership of a peer and returns what it found recorded.
func (r *rig) leads(peer string) (fencing.Token, Led) {
	r.t.Helper()
	res := r.must(Lead{Peer: peer, Boot: "boot"})
	var led Led
	if err := res.Decode(&led); err != nil {
		r.t.Fatal(err)
	}
	return res.Token, led
}

const wait = 2250 * time.Millisecond

func TestAFoundedClusterIsShut(t *testing.T) {
	eachWay(t, func(t *testing.T, r *rig, w way) {
		_, led := r.leads("a")
		if d := w.led(led); !d.Shut() || d != (doors.Door{}) {
			t.Errorf("found %+v", d)
		}
		r.asLeader(w.open(wait)) // at once
		d := w.door(r.view())
		if lead := r.view().Leadership(); d.OpenBy != lead.Token || d.Peer != "a" || d.Since != r.now || d.Wall != r.wall ||
			d.Wait != wait || d.Shut() {
			t.Errorf("opened: %+v", d)
		}
	})
}

// Whoever opens under another's record waits, counted from its own Lead.
func TestAnotherLeadershipWaits(t *testing.T) {
	eachWay(t, func(t *testing.T, r *rig, w way) {
		first, _ := r.leads("a")
		r.asLeader(w.open(wait))
		open := w.door(r.view())
		r.pass(time.Hour) // how long it was open counts for nothing
		second, led := r.leads("b")
		if w.led(led) != open || open.OpenBy != first {
			t.Errorf("found %+v, recorded was %+v", w.led(led), open)
		}
		if at := r.view().Leadership().At; at != r.now {
			t.Errorf("the leadership began at %v, now is %v", at, r.now)
		}
		h := Header{Token: second}
		if res := r.refused(Refused, h, w.open(wait)); !strings.Contains(res.Message, "peer a") ||
			!strings.Contains(res.Message, wait.String()) {
			t.Errorf("refused: %s", res.Message)
		}
		r.pass(wait - 1)
		r.refused(Refused, h, w.open(wait))
		r.pass(1)
		r.asLeader(w.open(wait))
		if d := w.door(r.view()); d.OpenBy != second || d.Peer != "b" || d.Since != r.now {
			t.Errorf("opened: %+v", d)
		}
		r.refused(StaleToken, Header{Token: first}, w.open(0))
		r.refused(StaleToken, Header{Token: first}, w.shut)
	})
}

// A kernel holds a door open as long as its own peer's configuration says.
func TestTheLongerWaitCounts(t *testing.T) {
	eachWay(t, func(t *testing.T, r *rig, w way) {
		r.leads("a")
		r.asLeader(w.open(time.Second))
		r.asLeader(w.open(20 * time.Second)) // reloaded
		r.asLeader(w.open(time.Second))
		if d := w.door(r.view()); d.Wait != 20*time.Second {
			t.Errorf("recorded %+v", d)
		}
		token, _ := r.leads("b")
		r.pass(20*time.Second - 1)
		r.refused(Refused, Header{Token: token}, w.open(0))
		r.pass(1)
		r.asLeader(w.open(0))
		if d := w.door(r.view()); d.Wait != 0 {
			t.Errorf("the wait of the one before is left: %+v", d)
		}
	})
}

func TestTheSameOpenedAgainIsASuccess(t *testing.T) {
	eachWay(t, func(t *testing.T, r *rig, w way) {
		r.leads("a")
		r.asLeader(w.open(wait))
		before := w.door(r.view())
		r.pass(time.Second)
		r.asLeader(w.open(wait))
		before.Index = r.index
		if d := w.door(r.view()); d != before {
			t.Errorf("%+v became %+v", before, d)
		}
	})
}

func TestWhoShutNeverOpensAgain(t *testing.T) {
	eachWay(t, func(t *testing.T, r *rig, w way) {
		token, _ := r.leads("a")
		r.asLeader(w.open(wait))
		r.asLeader(w.shut)
		r.asLeader(w.shut)
		if d := w.door(r.view()); d != (doors.Door{ClosedBy: token}) || !d.Shut() {
			t.Errorf("shut: %+v", d)
		}
		r.pass(time.Hour)
		if res := r.refused(Refused, Header{Token: token}, w.open(0)); !strings.Contains(res.Message, "new Lead") {
			t.Errorf("refused: %s", res.Message)
		}
		again, led := r.leads("a") // the same peer, in the same term
		if d := w.led(led); !d.Shut() {
			t.Errorf("found %+v", d)
		}
		r.asLeader(w.open(wait))
		if d := w.door(r.view()); d.OpenBy != again || d.ClosedBy != token {
			t.Errorf("opened: %+v", d)
		}
	})
}

// A leadership that never opened takes nothing back that is not its own.
func TestShuttingLeavesAnothersRecord(t *testing.T) {
	eachWay(t, func(t *testing.T, r *rig, w way) {
		first, _ := r.leads("a")
		r.asLeader(w.open(wait))
		second, _ := r.leads("b")
		r.asLeader(w.shut)
		if d := w.door(r.view()); d.OpenBy != first || d.Peer != "a" || d.ClosedBy != second {
			t.Errorf("recorded %+v", d)
		}
		r.pass(time.Hour)
		r.refused(Refused, Header{Token: second}, w.open(wait))
		third, led := r.leads("a")
		if d := w.led(led); d.OpenBy != first || d.Shut() {
			t.Errorf("found %+v", d)
		}
		r.refused(Refused, Header{Token: third}, w.open(wait))
	})
}

func TestOnlyTheLeaderMovesDoors(t *testing.T) {
	eachWay(t, func(t *testing.T, r *rig, w way) {
		r.refused(Refused, Header{}, w.open(wait))
		r.refused(Refused, Header{}, w.shut)
		token, _ := r.leads("a")
		for _, c := range []Command{w.open(wait), w.shut} {
			r.refused(Refused, Header{}, c)
			r.refused(StaleToken, Header{Token: token - 1}, c)
			r.refused(StaleToken, Header{Token: token + 1}, c)
		}
		session := r.session("a")
		r.refused(Refused, Header{Session: session, Request: r.request()}, w.open(wait))
	})
}

// Nothing that was granted is known any more, whoever read or wrote the record.
func TestAfterRefoundDoorsAreUnknown(t *testing.T) {
	eachWay(t, func(t *testing.T, r *rig, w way) {
		r.leads("a")
		r.asLeader(w.open(20 * time.Second))
		if err := r.state.Refound(Refound{Index: 100, UnixMillis: 1}); err != nil {
			t.Fatal(err)
		}
		r.index = 100
		if d := w.door(r.view()); d != (doors.Door{Unknown: true, Wait: 20 * time.Second}) || d.Shut() {
			t.Errorf("refounded: %+v", d)
		}
		token, led := r.leads("b")
		if d := w.led(led); !d.Unknown {
			t.Errorf("found %+v", d)
		}
		h := Header{Token: token}
		if res := r.refused(Refused, h, w.open(wait)); !strings.Contains(res.Message, "not known") {
			t.Errorf("refused: %s", res.Message)
		}
		r.pass(20*time.Second - 1)
		r.refused(Refused, h, w.open(wait))
		r.pass(1)
		r.asLeader(w.open(wait))
		if d := w.door(r.view()); d.Unknown || d.OpenBy != token {
			t.Errorf("opened: %+v", d)
		}
		r.asLeader(w.shut)
		if d := w.door(r.view()); !d.Shut() {
			t.Errorf("shut: %+v", d)
		}
	})
	r := newRig(t) // also what was shut: a lost entry may have opened it
	if err := r.state.Refound(Refound{Index: 100}); err != nil {
		t.Fatal(err)
	}
	for _, w := range ways() {
		if d := w.door(r.view()); !d.Unknown {
			t.Errorf("%s: %+v", w.name, d)
		}
	}
}

// A peer of a history that this log does not know may have the longest lease that a
// configuration may set, whatever was seen of leases here, and none seen is forgotten.
func TestUnknownDoorsAreWaitedForInFull(t *testing.T) {
	for _, w := range ways() {
		for seen, want := range map[time.Duration]time.Duration{0: w.unknown, time.Second: w.unknown,
			20 * time.Second: 20 * time.Second} {
			t.Run(fmt.Sprint(w.name, " seen ", seen), func(t *testing.T) {
				r := newRig(t)
				r.must(membership.PutMember{Member: member("b")})
				r.leads("a")
				if seen > 0 {
					r.asLeader(w.open(seen))
				}
				r.refound(Refound{Index: r.index, NewIncarnation: true, Survivor: "a", Former: r.view().MayRun("a")})
				for _, when := range []string{"after the founding", "under the next leadership"} {
					token, _ := r.leads("a")
					r.asLeader(membership.FormerHeard{ID: "b"})
					r.pass(want - 1)
					if res := r.do(Header{Token: token}, w.open(time.Second)); res.Code != Refused {
						t.Errorf("unknown-waits-in-full: %s: opened %v after the last former member was heard: %+v", when, want-1, res)
					}
				}
				r.pass(1)
				r.asLeader(w.open(time.Second))
			})
		}
	}
}

// A leadership that shut while the record was unknown has proven nothing.
func TestShuttingLeavesTheUnknownUnknown(t *testing.T) {
	r := newRig(t)
	if err := r.state.Refound(Refound{Index: 100}); err != nil {
		t.Fatal(err)
	}
	r.index = 100
	token, _ := r.leads("a")
	r.asLeader(doors.PassClosed{})
	if d := r.view().PassDoor(); d != (doors.Door{Unknown: true, Wait: doors.UnknownPassWait, ClosedBy: token}) {
		t.Errorf("shut: %+v", d)
	}
}

func TestAdoptedDoorsAreUnknown(t *testing.T) {
	old, running := newRig(t), newRig(t)
	old.leads("a")
	old.asLeader(doors.PassOpen{Wait: time.Second})
	old.asLeader(doors.AddressTaken{Address: "192.0.2.1", Wait: 12 * time.Second})
	running.leads("a")
	running.asLeader(doors.PassOpen{Wait: 3 * time.Second})
	running.asLeader(doors.AddressTaken{Address: "192.0.2.1", Wait: 3 * time.Second})
	old.state.Adopt(running.view())
	if err := old.state.Refound(Refound{Index: 100}); err != nil {
		t.Fatal(err)
	}
	if err := old.view().Check(); err != nil {
		t.Error(err)
	}
	pass, address := old.view().PassDoor(), old.view().AddressDoor()
	if pass != (doors.Door{Unknown: true, Wait: doors.UnknownPassWait}) ||
		address != (doors.Door{Unknown: true, Wait: 12 * time.Second}) {
		t.Errorf("adopted: %+v, %+v", pass, address)
	}
}

func TestAnotherAddressTakesTheFirstOnesPlace(t *testing.T) {
	r := newRig(t)
	token, _ := r.leads("a")
	for _, address := range []string{"192.0.2.1", "2001:DB8::1"} {
		r.asLeader(doors.AddressTaken{Address: address, Wait: wait})
		if d := r.view().AddressDoor(); d.Address != address || d.OpenBy != token {
			t.Errorf("taken: %+v", d)
		}
	}
}

// The kinds that only the leader may use are known by their rows.
func TestDutiesKindsNeedAToken(t *testing.T) {
	r := newRig(t)
	duties := []Kind{KindOf(ironicports.PutPorts{}), KindOf(introspection.PutInspected{}),
		KindOf(introspection.KeepInspected{}), KindOf(doors.PassOpen{}), KindOf(doors.PassClosed{}),
		KindOf(doors.AddressTaken{}), KindOf(doors.AddressReleased{})}
	for _, c := range samples(t) {
		if !slices.Contains(duties, KindOf(c)) {
			continue
		}
		if res := r.refused(Refused, Header{}, c); !strings.Contains(res.Message, KindOf(c).String()) {
			t.Errorf("%v: %s", KindOf(c), res.Message)
		}
	}
}
