package fsm

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/ironicports"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// allows compares the whitelist with what is wanted: "MAC node", in order.
func (r *rig) allows(want ...string) {
	r.t.Helper()
	var got []string
	for mac, node := range r.view().AllowedMACs() {
		got = append(got, mac+" "+node)
	}
	if !slices.Equal(got, want) || r.view().AllowedCount() != len(want) {
		r.t.Errorf("allowed are %d: %v, want %v", r.view().AllowedCount(), got, want)
	}
	for _, line := range want {
		if mac, _, _ := strings.Cut(line, " "); !r.view().Allowed(mac) {
			r.t.Errorf("%s is not allowed", mac)
		}
	}
}

func (r *rig) introspects(want bool) {
	r.t.Helper()
	if got := r.view().Introspecting(); got != want {
		r.t.Errorf("introspecting: %v", got)
	}
}

// A MAC is allowed from when it is saved until the introspection ends.
func TestWhitelistFollowsTheIntrospection(t *testing.T) {
	r := newRig(t)
	s := r.session("a")
	r.introspects(false)
	r.start(nodeA)
	r.introspects(true)
	r.allows() // no MAC is known yet
	c := r.claim(s).Claim.Hold()
	one, two := macN(1)+" "+nodeA, macN(2)+" "+nodeA
	r.must(introspection.Advance{Claim: c, Event: introspection.EventStart,
		Attributes: &introspection.Attributes{MACs: []string{macN(2), macN(1)}}})
	r.allows(one, two)
	r.must(introspection.Advance{Claim: c, Event: introspection.EventWait, Consume: true})
	r.allows(one, two)
	doc := pack(t, "x")
	r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventProcess, Document: doc})
	c = r.claim(s).Claim.Hold()
	r.must(introspection.Advance{Claim: c, Event: introspection.EventProcess, Unprocessed: doc.Hash,
		Attributes: &introspection.Attributes{MACs: []string{macN(2), macN(4)}}})
	r.allows(two, macN(4)+" "+nodeA) // the ramdisk renews its address
	r.must(introspection.Advance{Claim: c, Event: introspection.EventFinish, Consume: true})
	r.allows()
	r.introspects(false)
	// Nothing boots while stored data is applied again, whatever is saved.
	r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventReapply, Timeout: time.Minute})
	c = r.claim(s).Claim.Hold()
	r.must(introspection.Advance{Claim: c, Event: introspection.EventReapply,
		Attributes: &introspection.Attributes{MACs: []string{macN(3)}}})
	r.allows()
	r.introspects(false)
}

func TestWhitelistEndsWithEveryEnd(t *testing.T) {
	line := macN(1) + " " + nodeA
	cases := map[string]func(*rig, fencing.Token){
		"error": func(r *rig, s fencing.Token) {
			r.must(introspection.Advance{Claim: r.claim(s).Claim.Hold(), Event: introspection.EventError, Error: "x"})
		},
		"deletion": func(r *rig, s fencing.Token) {
			r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventDelete})
			r.must(introspection.Advance{Claim: r.claim(s).Claim.Hold(), Event: introspection.EventWait, Consume: true})
			r.must(introspection.DeleteNode{Node: nodeA, Claim: r.claim(s).Claim.Hold()})
		},
		"abort": func(r *rig, s fencing.Token) {
			r.must(introspection.Advance{Claim: r.claim(s).Claim.Hold(), Event: introspection.EventWait, Consume: true})
			r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventAbort})
			r.allows(line) // until the machine is off
			r.introspects(true)
			r.must(introspection.Advance{Claim: r.claim(s).Claim.Hold(), Event: introspection.EventAbortEnd, Consume: true})
		},
		"timeout": func(r *rig, s fencing.Token) {
			r.must(introspection.Advance{Claim: r.claim(s).Claim.Hold(), Event: introspection.EventWait, Consume: true})
			r.pass(time.Hour)
			r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventTimeout})
			r.allows(line)
			r.must(introspection.Advance{Claim: r.claim(r.session("a")).Claim.Hold(), Event: introspection.EventTimeout,
				Consume: true})
		},
		"dead workers": func(r *rig, s fencing.Token) {
			for range introspection.MaxAttempts {
				r.claim(s)
				r.must(membership.EndSession{Session: s})
				s = r.session("a")
			}
		},
	}
	for name, end := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			s := r.session("a")
			r.start(nodeA, macN(1))
			r.allows(line)
			end(r, s)
			r.allows()
			r.introspects(false)
			if macs, ok := r.view().AllowedChangedSince(1); !ok || !slices.Equal(macs, []string{macN(1)}) {
				t.Errorf("changed: %v, %v", macs, ok)
			}
		})
	}
}

// One machine may be known as two nodes by mistake: its MAC is listed once.
func TestAMACOfTwoNodesIsAllowedOnce(t *testing.T) {
	r := newRig(t)
	s := r.session("a")
	r.start(nodeB, macN(1))
	r.start(nodeA, macN(1))
	r.allows(macN(1) + " " + nodeA)
	at := r.index
	r.must(introspection.Advance{Claim: r.claims(s, r.view().QueueOf(nodeA)[0].Sequence)[0].Claim.Hold(),
		Event: introspection.EventError, Error: "x"})
	r.allows(macN(1) + " " + nodeB)
	if macs, ok := r.view().AllowedChangedSince(at); !ok || len(macs) != 0 {
		t.Errorf("it stayed on the list and is told as a change: %v", macs)
	}
}

// A node may be denied and allowed at once: the whitelist stands above.
func TestAnIntrospectedNodeIsOnBothLists(t *testing.T) {
	r := newRig(t)
	r.leads("a")
	r.asLeader(ironicports.PutPorts{Ports: []ironicports.Port{port("p", 1)}})
	r.start(nodeA, macN(1))
	if v := r.view(); !v.Allowed(macN(1)) || !v.Denied(macN(1)) {
		t.Errorf("allowed %v, denied %v", v.Allowed(macN(1)), v.Denied(macN(1)))
	}
}

// What is saved with an event that leaves a node in its end leads nobody to it.
func TestEndedNodesKeepNoAttributes(t *testing.T) {
	r := newRig(t)
	s := r.session("a")
	r.waiting(s, nodeA, macN(1))
	r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventAbort})
	c := r.claim(s).Claim.Hold()
	r.must(introspection.Advance{Claim: c, Event: introspection.EventAbortEnd})
	r.must(introspection.Advance{Claim: c, Event: introspection.EventAbort,
		Attributes: &introspection.Attributes{MACs: []string{macN(2)}}})
	r.allows()
	if got := r.view().NodesByMAC(macN(2)); got != nil {
		t.Errorf("found: %v", got)
	}
}

// A port that reaches Ironic after the start lets its machine in for as long as the node boots, and
// no other node has the MAC by a port or a record.
func TestWhitelistFollowsThePortsOfANode(t *testing.T) {
	r := newRig(t)
	r.leads("a")
	put := func(c ironicports.PutPorts) func() { return func() { r.asLeader(c) } }
	of := func(id string, n int, node string) ironicports.Port {
		return ironicports.Port{ID: id, MAC: macN(n), Node: node}
	}
	line := macN(1) + " " + nodeA
	r.asLeader(ironicports.PutPorts{Complete: true, Ports: []ironicports.Port{of("b1", 2, nodeB), of("c", 3, nodeA)}})
	r.allows()
	s := r.session("a")
	r.start(nodeA)
	r.allows()
	claim := r.claim(s).Claim.Hold()
	saved := func(macs ...string) func() {
		return func() {
			r.must(introspection.Advance{Claim: claim, Event: introspection.EventStart,
				Attributes: &introspection.Attributes{MACs: macs}})
		}
	}
	for _, step := range []struct {
		what string
		do   func()
		want []string
	}{
		{"a port from before the start goes", put(ironicports.PutPorts{Remove: []string{"c"}}), nil},
		{"its port comes", put(ironicports.PutPorts{Ports: []ironicports.Port{of("a1", 1, nodeA)}}), []string{line}},
		{"the record has it, too", saved(macN(1)), []string{line}},
		{"the record has another", saved(macN(4)), []string{line, macN(4) + " " + nodeA}},
		{"another node's port has it", put(ironicports.PutPorts{Ports: []ironicports.Port{of("b2", 1, nodeB)}}),
			[]string{macN(4) + " " + nodeA}},
		{"that port goes", put(ironicports.PutPorts{Remove: []string{"b2"}}), []string{line, macN(4) + " " + nodeA}},
		{"the port is another node's now", put(ironicports.PutPorts{Ports: []ironicports.Port{of("a1", 1, nodeB)}}),
			[]string{macN(4) + " " + nodeA}},
		{"it is its own again, of another MAC", put(ironicports.PutPorts{Ports: []ironicports.Port{of("a1", 5, nodeA)}}),
			[]string{macN(4) + " " + nodeA, macN(5) + " " + nodeA}},
		{"the introspection ends", func() {
			r.must(introspection.Advance{Claim: claim, Event: introspection.EventError, Error: "x"})
		}, nil},
	} {
		before := r.view()
		step.do()
		t.Log("late-port: " + step.what)
		r.allows(step.want...)
		after := r.view()
		macs, ok := after.AllowedChangedSince(before.Index())
		for n := 1; n <= 5; n++ {
			if before.Allowed(macN(n)) != after.Allowed(macN(n)) && (!ok || !slices.Contains(macs, macN(n))) {
				t.Errorf("late-port: %s: the change of %s is not told: %v (%v)", step.what, macN(n), macs, ok)
			}
		}
	}
}

// A port from before the start, which Ironic did not name at the start, lets nothing in: its card may be in
// a machine in use. It is as old as Ironic's first word of it, whoever lists it again.
func TestStalePortLetsNothingIn(t *testing.T) {
	r := newRig(t)
	r.leads("a")
	put := func(ports ...ironicports.Port) {
		r.t.Helper()
		r.asLeader(ironicports.PutPorts{Complete: true, Ports: ports})
	}
	stale := func(what string, want ...string) {
		r.t.Helper()
		r.t.Log("stale-port: " + what)
		r.allows(want...)
	}
	a, b := port("a", 1), port("b", 2)
	a.Node, b.Node = nodeA, nodeA
	line := macN(2) + " " + nodeA
	put(a)
	s := r.session("a")
	r.start(nodeA)
	stale("before the start")
	put(a)
	stale("listed again")
	r.leads("b")
	put(a, b)
	stale("listed again by the next leader, with one that came", line)
	r.must(introspection.Advance{Claim: r.claim(s).Claim.Hold(), Event: introspection.EventWait, Consume: true})
	back, err := Read(bytes.NewReader(snapshot(t, r.view())))
	if err != nil {
		t.Fatal(err)
	}
	restored := &rig{t: t, state: back}
	restored.allows(line)
	if err := back.Refound(Refound{Index: r.index}); err != nil {
		t.Fatal(err)
	}
	stale("restored and founded again", line)
	restored.allows(line)
	a.Node = nodeB
	put(a)
	a.Node = nodeA
	put(a)
	stale("it moved away and back", macN(1)+" "+nodeA, line)
	r.start(nodeA)
	stale("started again")
}

// A MAC that Ironic gives to another node lets that one's machine in no more for the introspection of
// the first, which its callback still finds.
func TestMovedPortLetsNothingIn(t *testing.T) {
	r := newRig(t)
	r.leads("a")
	put := func(node string) {
		r.t.Helper()
		p := port("p", 1)
		p.Node = node
		r.asLeader(ironicports.PutPorts{Complete: true, Ports: []ironicports.Port{p}})
	}
	moved := func(what string, want ...string) {
		r.t.Helper()
		r.t.Log("moved-port: " + what)
		r.allows(want...)
		if got := r.view().NodesByMAC(macN(1)); !slices.Equal(got, []string{nodeA}) {
			t.Errorf("moved-port: %s: a callback finds %v", what, got)
		}
		back, err := Read(bytes.NewReader(snapshot(t, r.view())))
		if err != nil {
			t.Fatal(err)
		}
		(&rig{t: t, state: back}).allows(want...)
	}
	own := macN(1) + " " + nodeA
	put(nodeB)
	r.start(nodeA, macN(1))
	moved("another node's since before the start, as in a late list", own)
	put(nodeA)
	moved("the node's own", own)
	put(nodeB)
	moved("another node's since")
	r.asLeader(ironicports.PutPorts{Complete: true, Remove: []string{port("p", 1).ID}})
	moved("nobody's", own)
	put(nodeB)
	moved("another node's again")
	r.must(introspection.Advance{Claim: r.claim(r.session("w")).Claim.Hold(), Event: introspection.EventError,
		Error: "failed"}) // which takes what is not on the list off
	r.allows()
}

// Older peers do not know since when a port is there, so none lets a machine in for what came before
// they were upgraded.
func TestPortOfAnOlderLogLetsNothingIn(t *testing.T) {
	r := newRig(t)
	r.leads("a")
	r.must(membership.PutMember{Member: membership.Member{ID: "a", Name: "a", Address: "a:7350", Version: 2}})
	r.start(nodeA)
	older := port("a", 1)
	older.Node = nodeA
	r.asLeader(ironicports.PutPorts{Ports: []ironicports.Port{older}})
	r.allows()
	if node, since := r.view().OwnerByPort(older.MAC); node != nodeA || since != 0 {
		t.Errorf("stale-port: log version 2 has the port of %s since %v", node, since)
	}
}
