package fsm

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/leases"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/relays"
	"github.com/trivet-ha/trivet/fsm/settings"
)

func TestRefoundRaisesEveryTokenAndTakesAllGrants(t *testing.T) {
	for name, millis := range map[string]int64{"clock ahead": 1_700_000_001_000, "clock at zero": 0, "clock before": -5} {
		t.Run(name, func(t *testing.T) {
			r := busy(t)
			before := r.view()
			if err := r.state.Refound(Refound{Index: 500, UnixMillis: millis, NewIncarnation: true}); err != nil {
				t.Fatal(err)
			}
			v := r.view()
			if err := v.Check(); err != nil {
				t.Error(err)
			}
			if v.Base() < before.Base()+1<<28 || v.Base()+500 < uint64(max(millis, 0))*1024 || v.Index() != 500 ||
				v.Incarnation() != max(before.Incarnation()+1, uint64(max(millis, 0))) {
				t.Errorf("base %d, index %d, incarnation %d", v.Base(), v.Index(), v.Incarnation())
			}
			if !v.Leadership().Token.IsZero() || len(v.Sessions()) != 0 || len(v.Claims()) != 0 || !onlyVoid(v.Leases()) ||
				len(v.JoinTokens()) != 0 || v.Requests() != 0 || nextTurn(v) != "0s" {
				t.Error("something granted is left")
			}
			if v.Floor() != before.Floor() || v.Now() != before.Now() || len(v.Members()) != len(before.Members()) {
				t.Error("the floor, the clock or the members changed")
			}
			if v.Nodes() != before.Nodes() || v.QueueLength() != before.QueueLength() {
				t.Error("something recorded is gone")
			}
			r.index = 500
			if token := r.must(Lead{Peer: "a", Boot: "c"}).Token; uint64(token) <= v.Base() || token <= before.Floor() {
				t.Errorf("the next leadership has token %v", token)
			}
			c := r.claim(r.session("a"))
			if c.Request.Attempts != 1 {
				t.Errorf("the claim before counts: %+v", c.Request)
			}
		})
	}
}

func onlyVoid(all []leases.Lease) bool {
	return !slices.ContainsFunc(all, func(l leases.Lease) bool { return !l.Void || l.Holder == "" })
}

func TestRefoundTokensNeverReturn(t *testing.T) {
	r := busy(t)
	old := r.view().Leadership().Token
	if err := r.state.Refound(Refound{Index: 1}); err != nil { // a log that begins anew
		t.Fatal(err)
	}
	r.index = 1
	r.refused(StaleToken, Header{Token: old}, settings.PutSetting{Key: "k", Value: "zombie"})
	token := r.must(Lead{Peer: "a", Boot: "c"}).Token
	r.refused(StaleToken, Header{Token: old}, settings.PutSetting{Key: "k", Value: "zombie"})
	if err := r.state.Refound(Refound{Index: r.index}); err != nil {
		t.Fatal(err)
	}
	if next := r.must(Lead{Peer: "a", Boot: "c"}).Token; next <= token+1<<28 {
		t.Errorf("token %v follows %v", next, token)
	}
}

// What would happen if base were not raised: the floor stops it.
func TestLeadBelowTheFloorIsRefused(t *testing.T) {
	r := busy(t)
	next := *r.state.now
	next.shared.Position.Floor = next.shared.Granted() + 10
	res := (&State{&next}).Apply(
		Entry{Index: r.index + 1, Term: 3, Data: encoded(t, Header{}, Lead{Peer: "a", Boot: "c"})})
	if res.Code != Refused {
		t.Errorf("a token was granted twice: %+v", res)
	}
}

func TestRefoundKeepsOneMember(t *testing.T) {
	for _, self := range []membership.Member{member("b"), member("new")} {
		r := busy(t)
		if err := r.state.Refound(
			Refound{Index: 100, Survivor: "nameless", Self: membership.Member{ID: "nameless", Version: 1}}); err == nil {
			t.Error("a member without a name founded a cluster")
		}
		if len(r.view().Members()) != 2 || r.view().Base() != 0 {
			t.Error("a refusal changed the state")
		}
		if err := r.state.Refound(Refound{Index: 100, Survivor: self.ID, Self: self}); err != nil {
			t.Fatal(err)
		}
		if m := r.view().Members(); len(m) != 1 || m[0].ID != self.ID {
			t.Errorf("members %+v", m)
		}
		if err := r.view().Check(); err != nil {
			t.Error(err)
		}
	}
}

func TestRefoundRefusesToRunOutOfTokens(t *testing.T) {
	r := newRig(t)
	if err := r.state.Refound(Refound{Index: math.MaxUint64 - 10}); err == nil {
		t.Errorf("base wrapped around to %d", r.view().Base())
	}
	if err := r.state.Refound(
		Refound{Index: 10, UnixMillis: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()}); err == nil ||
		!strings.Contains(err.Error(), "9999-01-01") {
		t.Errorf("a clock of the year 9999: %v, base %d", err, r.view().Base())
	}
}

// A restore takes what the snapshot records, and nothing that the history of this
// host has granted is valid after, nor anything that it forbade allowed.
func TestAdoptGoesOnAboveBothHistories(t *testing.T) {
	file := busy(t)
	local := newRig(t)
	local.index += 1 << 30
	local.must(membership.PutMember{Member: member("local")})
	if err := local.state.Refound(
		Refound{Index: local.index, UnixMillis: 1_700_000_000_000, NewIncarnation: true, Survivor: "local",
			Self: member("local")}); err != nil {
		t.Fatal(err)
	}
	local.term, local.now = 9, Time(time.Hour)
	local.must(Lead{Peer: "local", Boot: "x"})
	local.must(Probe{})

	restored, err := Read(bytes.NewReader(snapshot(t, file.view())))
	if err != nil {
		t.Fatal(err)
	}
	restored.Adopt(local.view())
	if err := restored.Refound(
		Refound{Index: local.index, NewIncarnation: true, Survivor: "local", Self: member("local")}); err != nil {
		t.Fatal(err)
	}
	v := restored.View()
	if err := v.Check(); err != nil {
		t.Error(err)
	}
	if len(v.Members()) != 1 || v.Members()[0].ID != "local" || v.Incarnation() != local.view().Incarnation()+1 {
		t.Errorf("incarnation-above-both: members %+v, incarnation %d", v.Members(), v.Incarnation())
	}
	if last := local.view().Base() + local.index; v.Nodes() != 3 || v.Now() < local.view().Now() ||
		v.Floor() != local.view().Floor() || v.Base()+v.Index() < last+1<<28 {
		t.Errorf("base-above-both: %d nodes, now %v, floor %v, base %d, local tokens up to %d", v.Nodes(), v.Now(), v.Floor(),
			v.Base(), last)
	}
	if got, _ := v.Setting("k"); got.Value != "v" {
		t.Errorf("the snapshot's content is lost: %+v", got)
	}
}

// A history of a week ago lets no machine boot for what was under way then; what may be under way
// still goes on.
func TestRefoundEndsWhatWaitsForMachines(t *testing.T) {
	r := newRig(t)
	r.leads("a")
	session := r.session("a")
	r.waiting(session, nodeA, macN(1))
	r.asLeader(introspection.PutInspected{Nodes: []introspection.Inspected{{Node: nodeB, MACs: []string{macN(2)}}}})
	for _, c := range []struct {
		passed time.Duration
		boots  bool
		state  introspection.NodeState
	}{
		{10 * time.Minute, true, introspection.NodeWaiting},
		{7 * 24 * time.Hour, false, introspection.NodeError},
	} {
		r.wall += c.passed.Milliseconds() // of the wall; cluster time stands still
		r.refound(Refound{Index: r.index, NewIncarnation: true, UnixMillis: r.wall, Survivor: "a"})
		v := r.view() // before a leader is there, who ends what is overdue, too
		rec, _ := v.Record(nodeA)
		if v.Allowed(macN(1)) != c.boots || rec.State != c.state || v.Allowed(macN(2)) || v.Introspecting() != c.boots {
			t.Errorf("restored-whitelist: %v after it began its node boots: %t, and is %v (%q); what Ironic inspected boots: %t",
				c.passed, v.Allowed(macN(1)), rec.State, rec.Error, v.Allowed(macN(2)))
		}
	}
}

// What a history of a week ago had under way moves no machine: it ends, with its requests, and
// without a power command. Data of a callback that no worker had is kept.
func TestRefoundEndsWhatWasUnderWay(t *testing.T) {
	ended := []string{"starting", "asked again", "called", "processing", "complete", "aborting"}
	for _, passed := range []time.Duration{time.Second, 7 * 24 * time.Hour} {
		for at, name := range ended {
			t.Run(name+" "+passed.String(), func(t *testing.T) {
				r := newRig(t)
				r.leads("a")
				r.underWay(at)
				relay := r.relayed(nodeB, "late")
				before, queued := r.record(nodeA), r.view().QueueLength()
				r.wall += passed.Milliseconds() // of the wall; cluster time stands still
				r.refound(Refound{Index: r.index, NewIncarnation: true, UnixMillis: r.wall, Survivor: "a"})
				rec := r.record(nodeA)
				handed, _ := r.view().Relay(relay.Sequence)
				if passed < time.Minute {
					if rec.State != before.State || r.view().QueueLength() != queued || handed.State != relays.Pending {
						t.Errorf("restored-in-time: is %v with %d requests, relay %v", rec.State, r.view().QueueLength(), handed.State)
					}
					return
				}
				if rec.State.Active() || r.view().QueueLength() != 0 || r.view().Allowed(macA) {
					t.Errorf("restored-under-way: is %v, %d requests are queued, its machine boots: %t", rec.State,
						r.view().QueueLength(), r.view().Allowed(macA))
				}
				if wantDone := name == "complete"; wantDone != (rec.State == introspection.NodeFinished) {
					t.Errorf("restored-under-way: is %v (%s)", rec.State, rec.Error)
				}
				if kept := pack(t, "doc").Hash; name == "called" && rec.Unprocessed != kept {
					t.Errorf("restored-callback: its data is %v, want %v", rec.Unprocessed, kept)
				}
				if handed.State != relays.Failed || handed.EndedMillis != r.wall {
					t.Errorf("restored-relay: is %v (%s)", handed.State, handed.Reason)
				}
				if _, err := Read(bytes.NewReader(snapshot(t, r.view()))); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// underWay brings node A to one of the places where a request for it is queued or claimed.
func (r *rig) underWay(at int) {
	r.t.Helper()
	session := r.session("a")
	switch at {
	case 0:
		r.start(nodeA, macA)
	case 1: // a worker failed, and was lost before its request was consumed
		r.start(nodeA, macA)
		r.must(introspection.Advance{Claim: r.claim(session).Claim.Hold(), Event: introspection.EventError,
			Error: "no power"})
	case 2:
		r.called(session, nodeA, "doc")
	case 3:
		r.processing(session, nodeA, "doc")
	case 4:
		c := r.processing(session, nodeA, "doc")
		r.must(introspection.Mark{Claim: c.Claim.Hold(), Hook: "power off", Answer: introspection.Answer{Status: 200}})
	case 5:
		r.waiting(session, nodeA, macA)
		r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventAbort})
	}
}
