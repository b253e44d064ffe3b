package fsm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/kubestate"
	"github.com/trivet-ha/trivet/fsm/membership"
)

func kubeNode(n int) kubestate.Node {
	return kubestate.Node{UID: fmt.Sprintf("uid-%d", n), Name: fmt.Sprintf("worker-%d", n), BootID: "boot-1",
		Ready: kubestate.ReadyTrue, Probe: fmt.Sprintf("192.0.2.%d:10250", n%250+1)}
}

// kubeNodes puts some kube nodes of a cluster.
func (r *rig) kubeNodes(cluster string, nodes ...kubestate.Node) {
	r.t.Helper()
	r.asLeader(kubestate.PutNodes{Cluster: cluster, Nodes: nodes, Millis: r.wall})
}

// voted lets a session vote on a kube node of the cluster "k".
func (r *rig) voted(session fencing.Token, n int, silent bool) {
	r.t.Helper()
	r.must(kubestate.VoteNodes{Session: session, Cluster: "k",
		Votes: []kubestate.Vote{{UID: kubeNode(n).UID, Silent: silent}}, Millis: r.wall})
}

func beginning(n int) kubestate.BeginRemediation {
	node := kubeNode(n)
	return kubestate.BeginRemediation{Cluster: "k", Node: node.Name, UID: node.UID, BootID: node.BootID, Peer: "a",
		Reason: "silent", Millis: 7}
}

// begun begins a remediation of a kube node of the cluster "k".
func (r *rig) begun(n int) fencing.Token {
	r.t.Helper()
	return r.asLeader(beginning(n)).Token
}

// stepping makes the step to a state from wherever the remediation is.
func (r *rig) stepping(intent fencing.Token, to kubestate.State) kubestate.StepRemediation {
	r.t.Helper()
	now, ok := r.view().Remediation(intent)
	if !ok {
		r.t.Fatalf("there is no remediation %v", intent)
	}
	c := kubestate.StepRemediation{Intent: intent, From: now.State, To: to, Peer: "a", Reason: "to " + to.String(),
		Millis: 8}
	if to == kubestate.RemFencing {
		c.Device = "bmc"
	}
	return c
}

// walk takes a remediation through states and returns it.
func (r *rig) walk(intent fencing.Token, states ...kubestate.State) kubestate.Remediation {
	r.t.Helper()
	for _, to := range states {
		r.asLeader(r.stepping(intent, to))
	}
	now, _ := r.view().Remediation(intent)
	return now
}

// leader is the header of the present leadership's duties.
func (r *rig) leader() Header { return Header{Token: r.view().Leadership().Token} }

// busyFailover puts something into each table of failover.
func (r *rig) busyFailover(session fencing.Token) {
	r.t.Helper()
	r.kubeNodes("k", kubeNode(1), kubeNode(2), kubeNode(3))
	r.kubeNodes("l", kubeNode(1))
	r.voted(session, 1, true)
	r.voted(session, 2, false)
	r.walk(r.begun(1), kubestate.RemCordoned, kubestate.RemFencing, kubestate.RemOff, kubestate.RemTainted)
	r.walk(r.begun(2), kubestate.RemCordoned, kubestate.RemFencing, kubestate.RemOff, kubestate.RemTainted,
		kubestate.RemDeleted, kubestate.RemDetached, kubestate.RemRecovered)
	r.asLeader(kubestate.HoldFailover{Cluster: "k", For: time.Hour, Reason: "storm"})
	r.must(kubestate.PauseFailover{Cluster: "l", Paused: true, For: time.Hour, By: "op", Reason: "works", Millis: 9})
	r.must(kubestate.PauseFailover{Paused: true, By: "op"})
}

// A leader knows which edge the one before it saw last.
func TestKubeNodesRememberWhenTheyChanged(t *testing.T) {
	r := leading(t)
	r.kubeNodes("k", kubeNode(2), kubeNode(1))
	r.kubeNodes("l", kubeNode(1))
	r.pass(time.Second)
	same := kubeNode(1)
	same.Probe, same.ControlPlane, same.Changed = "[2001:db8::1]:10250", true, 99
	r.kubeNodes("k", same)
	if n, ok := r.view().KubeNode("k", same.UID); !ok || n.Changed != 0 || n.Probe != same.Probe || !n.ControlPlane ||
		n.Cluster != "k" {
		t.Errorf("kube-changed: nothing that counts has changed: %+v", n)
	}
	for i, change := range []func(*kubestate.Node){func(n *kubestate.Node) { n.Ready = kubestate.ReadyUnknown },
		func(n *kubestate.Node) { n.BootID = "boot-2" }} {
		r.pass(time.Second)
		change(&same)
		r.kubeNodes("k", same)
		if n, _ := r.view().KubeNode("k", same.UID); n.Changed != r.now || n.ChangedMillis != r.wall {
			t.Errorf("kube-changed: change %d: %+v at %v", i, n, r.now)
		}
	}
	v := r.view()
	if got := v.KubeClusters(); !slices.Equal(got, []string{"k", "l"}) || v.KubeNodesKnown() != 3 {
		t.Errorf("clusters %v with %d kube nodes", got, v.KubeNodesKnown())
	}
	if nodes := v.KubeNodes("k"); len(nodes) != 2 || nodes[0].UID != "uid-1" || nodes[1].UID != "uid-2" {
		t.Errorf("kube nodes %+v", nodes)
	}
	r.asLeader(kubestate.PutNodes{Cluster: "k", Remove: []string{"uid-1", "uid-2", "never"}})
	if v := r.view(); len(v.KubeNodes("k")) != 0 || !slices.Equal(v.KubeClusters(), []string{"l"}) {
		t.Errorf("after their removal: %v, %v", v.KubeNodes("k"), v.KubeClusters())
	}
}

func TestKubeNodesAreBounded(t *testing.T) {
	r := leading(t)
	const most, atOnce = 5_000, 200
	for from := 0; from < most; from += atOnce {
		var some []kubestate.Node
		for i := range atOnce {
			some = append(some, kubeNode(from+i))
		}
		if res := r.state.Apply(Entry{Index: r.index + 1, Term: r.term,
			Data: encoded(t, r.leader(), kubestate.PutNodes{Cluster: "k", Nodes: some})}); res.Code != OK {
			t.Fatal(res)
		}
		r.index++ // the invariants are looked at below, once
	}
	r.refused(TableFull, r.leader(), kubestate.PutNodes{Cluster: "l", Nodes: []kubestate.Node{kubeNode(1)}})
	r.asLeader(kubestate.PutNodes{Cluster: "k", Nodes: []kubestate.Node{kubeNode(most)}, Remove: []string{"uid-0"}})
}

// Votes are of live sessions on known kube nodes and end with both.
func TestVotesEndWithTheirSessions(t *testing.T) {
	r := leading(t)
	a, b := r.session("a"), r.session("b")
	r.session("c")
	r.kubeNodes("k", kubeNode(1), kubeNode(2))
	for _, session := range []fencing.Token{a, b} {
		r.voted(session, 1, true)
		r.voted(session, 2, false)
		r.voted(session, 3, true) // nobody knows it
	}
	want := func(why string, n, silent, answers int) {
		t.Helper()
		if s, a, voters := r.view().KubeVotes("k", kubeNode(n).UID); s != silent || a != answers || voters != 3 {
			t.Errorf("kube-votes: %s: %d say silent, %d that it answers, of %d; want %d and %d", why, s, a, voters, silent,
				answers)
		}
	}
	want("two peers", 1, 2, 0)
	want("two peers", 2, 0, 2)
	want("unknown", 3, 0, 0)
	if of := r.view().KubeVotesOf(a, "k"); len(of) != 2 || !of[0].Silent || of[1].Silent || of[0].UID != "uid-1" ||
		len(r.view().KubeVotesOf(a, "l")) != 0 {
		t.Errorf("the votes of a session: %+v", of)
	}
	r.voted(b, 1, false)
	want("another opinion", 1, 1, 1)
	r.must(kubestate.VoteNodes{Session: b, Cluster: "k", Withdraw: []string{"uid-1", "uid-9"}})
	want("no opinion", 1, 1, 0)
	r.must(membership.EndSession{Session: a})
	want("a session has ended", 1, 0, 0)
	want("a session has ended", 2, 0, 1)
	r.asLeader(kubestate.PutNodes{Cluster: "k", Remove: []string{"uid-2"}})
	r.kubeNodes("k", kubeNode(2))
	want("a kube node has ended", 2, 0, 0)
	r.voted(b, 2, true)
	r.pass(membership.SessionTTL)
	r.refused(SessionEnded, Header{},
		kubestate.VoteNodes{Session: b, Cluster: "k", Votes: []kubestate.Vote{{UID: "uid-1", Silent: true}}})
	want("a session is over by itself", 2, 0, 0)
}

func TestVotesAreAsOldAsTheOpinion(t *testing.T) {
	r := leading(t)
	a, b := r.session("a"), r.session("b")
	r.kubeNodes("k", kubeNode(1))
	r.pass(time.Second)
	since := r.now
	r.voted(a, 1, true)
	r.pass(time.Second)
	r.voted(a, 1, true)
	if of := r.view().KubeBallots("k", "uid-1"); len(of) != 1 || of[0].Since != since || of[0].Session != a {
		t.Errorf("%+v, told first at %v", of, since)
	}
	r.voted(a, 1, false)
	if of := r.view().KubeBallots("k", "uid-1"); len(of) != 1 || of[0].Since != r.now {
		t.Errorf("%+v, changed at %v", of, r.now)
	}
	r.refused(Refused, Header{Session: b},
		kubestate.VoteNodes{Session: a, Cluster: "k", Votes: []kubestate.Vote{{UID: "uid-1", Silent: true}}})
}

// A pause is of one cluster or of all; it ends when it is over or resumed.
func TestPausesEnd(t *testing.T) {
	r := leading(t)
	pause := kubestate.PauseFailover{Cluster: "k", Paused: true, For: time.Minute, By: "op", Reason: "works", Millis: 3}
	r.must(pause)
	r.refused(Refused, r.leader(), beginning(1))
	if p, paused := r.view().FailoverPause("k"); !paused || p.By != "op" || p.Reason != "works" ||
		p.Until != r.now.Add(time.Minute) || p.Millis != 3 {
		t.Errorf("%+v", p)
	}
	if p, paused := r.view().FailoverPause("l"); paused {
		t.Errorf("failover-paused: another cluster by %+v", p)
	}
	r.pass(time.Minute - 1)
	r.refused(Refused, r.leader(), beginning(1))
	r.must(pause)
	r.pass(time.Minute - 1)
	r.refused(Refused, r.leader(), beginning(1))
	r.pass(1)
	r.begun(1)
	r.must(kubestate.PauseFailover{Paused: true})
	r.pass(kubestate.MaxPause * 2)
	r.refused(Refused, r.leader(), beginning(2))
	r.must(kubestate.PauseFailover{Cluster: "k"})
	r.refused(Refused, r.leader(), beginning(2))
	r.must(kubestate.PauseFailover{})
	r.must(kubestate.PauseFailover{})
	r.begun(2)
	if got := r.view().FailoverPauses(); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

// A pause that would end before the one in force is refused, as its operator cannot know of
// the other's work. Peers of log version 2 apply it, and so it is applied while one is a member.
func TestNoPauseShortensAnother(t *testing.T) {
	pause := func(cluster, by string, length time.Duration) kubestate.PauseFailover {
		return kubestate.PauseFailover{Cluster: cluster, Paused: true, For: length, By: by, Reason: "BIOS of all hosts"}
	}
	for _, row := range []struct {
		version           int
		first, then       time.Duration
		cluster           string // of the second; the first is of all
		refused, resuming bool
	}{
		{Version, 0, 10 * time.Minute, "", true, false},
		{Version, time.Hour, 10 * time.Minute, "", true, false},
		{Version, time.Hour, time.Hour, "", false, false}, // ends a minute later
		{Version, time.Hour, 0, "", false, false},
		{Version, 0, 0, "", false, false},
		{Version, 0, 10 * time.Minute, "k", false, false},
		{Version, 0, 10 * time.Minute, "", false, true},
		{2, 0, 10 * time.Minute, "", false, false},
	} {
		r := newRigAt(t, row.version)
		r.must(pause("", "ann", row.first))
		r.pass(time.Minute)
		if row.resuming {
			r.must(kubestate.PauseFailover{})
		}
		switch res := r.do(Header{}, pause(row.cluster, "bob", row.then)); {
		case !row.refused && res.Code != OK, row.refused && res.Code != Conflict:
			t.Errorf("pause-shortened: %+v: %v", row, res.Err())
		case row.refused && !strings.Contains(res.Message, "paused by ann: BIOS of all hosts"):
			t.Errorf("pause-shortened: %+v: it does not say whose pause it is: %s", row, res.Message)
		}
		if p, paused := r.view().FailoverPause(""); !paused || row.refused != (p.By == "ann") && row.cluster == "" {
			t.Errorf("pause-shortened: %+v: %+v %v", row, p, paused)
		}
	}
}

// What goes on goes on: a machine that is half switched off is no rest.
func TestPausesStopNothingThatHasBegun(t *testing.T) {
	r := leading(t)
	intent := r.begun(1)
	r.must(kubestate.PauseFailover{Paused: true})
	r.walk(intent, kubestate.RemCordoned, kubestate.RemFencing, kubestate.RemOff)
}

func TestPausesAndHoldsAreBounded(t *testing.T) {
	r := leading(t)
	for i := range kubestate.MaxClusters {
		r.must(kubestate.PauseFailover{Cluster: fmt.Sprint("c", i), Paused: true})
		r.asLeader(kubestate.HoldFailover{Cluster: fmt.Sprint("c", i), For: time.Minute})
	}
	r.refused(TableFull, Header{}, kubestate.PauseFailover{Cluster: "x", Paused: true})
	r.refused(TableFull, r.leader(), kubestate.HoldFailover{Cluster: "x", For: time.Minute})
	r.must(kubestate.PauseFailover{Cluster: "c1"})
	r.must(kubestate.PauseFailover{Cluster: "c1", Paused: true, For: time.Minute})
	r.asLeader(kubestate.HoldFailover{Cluster: "c1", For: time.Minute})
	r.must(kubestate.PauseFailover{Paused: true})
	r.must(kubestate.PauseFailover{Cluster: "c2", Paused: true, Reason: "needs no room"})
	r.pass(time.Minute)
	r.must(Probe{})
	r.must(kubestate.PauseFailover{})
	r.must(kubestate.PauseFailover{Cluster: "x", Paused: true})
}

func TestHoldsGrowAndEnd(t *testing.T) {
	r := leading(t)
	began := r.now
	r.asLeader(kubestate.HoldFailover{Cluster: "k", For: time.Minute, Reason: "three of five"})
	r.pass(10 * time.Second)
	r.asLeader(kubestate.HoldFailover{Cluster: "k", For: time.Second, Reason: "less"})
	if h, held := r.view().FailoverHold("k"); !held || h.Until != began.Add(time.Minute) || h.Since != began ||
		h.Reason != "less" {
		t.Errorf("failover-held: made shorter: %+v", h)
	}
	r.asLeader(kubestate.HoldFailover{Cluster: "k", For: time.Minute})
	r.pass(time.Minute - 1)
	r.must(Probe{})
	if h, held := r.view().FailoverHold("k"); !held || h.Since != began {
		t.Errorf("failover-held: until %v, now is %v", h.Until, r.now)
	}
	r.pass(1)
	r.must(Probe{})
	if h, held := r.view().FailoverHold("k"); held {
		t.Errorf("%+v", h)
	}
}

func TestReasonsAreCut(t *testing.T) {
	for text, want := range map[string]string{
		"as it is": "as it is", "": "", "a\x00b\xffc": "a\uFFFDb\uFFFDc",
		strings.Repeat("x", kubestate.MaxReason):   strings.Repeat("x", kubestate.MaxReason),
		strings.Repeat("x", kubestate.MaxReason+1): strings.Repeat("x", kubestate.MaxReason-3) + "…",
		strings.Repeat("ä", kubestate.MaxReason):   strings.Repeat("ä", kubestate.MaxReason/2-2) + "…",
	} {
		got := kubestate.Reason(text)
		if err := (kubestate.HoldFailover{Cluster: "k", For: 1, Reason: got}).Validate(); got != want || err != nil {
			t.Errorf("%q became %q: %v", text, got, err)
		}
	}
}

func TestFailoverIsValidated(t *testing.T) {
	long := strings.Repeat("x", kubestate.MaxReason+1)
	node := func(change func(*kubestate.Node)) Command {
		n := kubeNode(1)
		change(&n)
		return kubestate.PutNodes{Cluster: "k", Nodes: []kubestate.Node{n}}
	}
	begin := func(change func(*kubestate.BeginRemediation)) Command {
		c := beginning(1)
		change(&c)
		return c
	}
	for _, c := range []Command{
		kubestate.PutNodes{Cluster: "k"}, kubestate.PutNodes{Nodes: []kubestate.Node{kubeNode(1)}},
		kubestate.PutNodes{Cluster: "k", Nodes: []kubestate.Node{kubeNode(1), kubeNode(1)}},
		kubestate.PutNodes{Cluster: "k", Nodes: []kubestate.Node{kubeNode(1)}, Remove: []string{"uid-1"}},
		kubestate.PutNodes{Cluster: "k", Remove: []string{""}},
		kubestate.PutNodes{Cluster: "k", Remove: make([]string, kubestate.MaxNodeChanges+1)},
		kubestate.PutNodes{Cluster: "k", Remove: []string{"x"}, Millis: -1},
		node(func(n *kubestate.Node) { n.UID = "a b" }), node(func(n *kubestate.Node) { n.UID = strings.Repeat("u", 129) }),
		node(func(n *kubestate.Node) { n.UID = "a\x00" }),
		node(func(n *kubestate.Node) { n.Name = "" }), node(func(n *kubestate.Node) { n.Name = "a\x00b" }),
		node(func(n *kubestate.Node) { n.BootID = "\xff" }),
		node(func(n *kubestate.Node) { n.BootID = long }), node(func(n *kubestate.Node) { n.Probe = "host" }),
		node(func(n *kubestate.Node) { n.Ready = 0 }),
		node(func(n *kubestate.Node) { n.Ready = 4 }), node(func(n *kubestate.Node) { n.Cluster = "l" }),
		kubestate.VoteNodes{Session: 3, Cluster: "k"}, kubestate.VoteNodes{Cluster: "k", Withdraw: []string{"u"}},
		kubestate.VoteNodes{Session: 3, Withdraw: []string{"u"}},
		kubestate.VoteNodes{Session: 3, Cluster: "k", Votes: []kubestate.Vote{{UID: "u"}, {UID: "u", Silent: true}}},
		kubestate.VoteNodes{Session: 3, Cluster: "k", Votes: []kubestate.Vote{{}}},
		kubestate.VoteNodes{Session: 3, Cluster: "k", Votes: make([]kubestate.Vote, kubestate.MaxVotes+1)},
		kubestate.VoteNodes{Session: 3, Cluster: "k", Withdraw: []string{""}},
		kubestate.VoteNodes{Session: 3, Cluster: "k", Withdraw: []string{"u"}, Millis: -1},
		begin(func(c *kubestate.BeginRemediation) { c.Cluster = "a/b" }),
		begin(func(c *kubestate.BeginRemediation) { c.Node = "" }), begin(func(c *kubestate.BeginRemediation) { c.UID = "" }),
		begin(func(c *kubestate.BeginRemediation) { c.BootID = long }),
		begin(func(c *kubestate.BeginRemediation) { c.Reason = "" }),
		begin(func(c *kubestate.BeginRemediation) { c.Reason = long }),
		begin(func(c *kubestate.BeginRemediation) { c.Peer = long }),
		begin(func(c *kubestate.BeginRemediation) { c.Millis = -1 }),
		kubestate.StepRemediation{Intent: 3, To: kubestate.RemOff},
		kubestate.StepRemediation{Intent: 3, From: kubestate.RemOff},
		kubestate.StepRemediation{Intent: 3, From: kubestate.RemOff, To: kubestate.RemStuck + 1},
		kubestate.StepRemediation{Intent: 3, From: kubestate.RemFencing, To: kubestate.RemOff, Device: "bmc"},
		kubestate.StepRemediation{Intent: 3, From: kubestate.RemFencing, To: kubestate.RemFencing, Device: long},
		kubestate.StepRemediation{Intent: 3, From: kubestate.RemFencing, To: kubestate.RemStuck, Reason: long},
		kubestate.StepRemediation{Intent: 3, From: kubestate.RemFencing, To: kubestate.RemStuck, Reason: "\xff"},
		kubestate.PauseFailover{Paused: true, For: -1}, kubestate.PauseFailover{Paused: true, For: kubestate.MaxPause + 1},
		kubestate.PauseFailover{For: 1}, kubestate.PauseFailover{Cluster: "a b", Paused: true},
		kubestate.PauseFailover{Paused: true, By: long}, kubestate.PauseFailover{Paused: true, Reason: long},
		kubestate.PauseFailover{Millis: -1},
		kubestate.ReleaseRemediation{Intent: 3, To: kubestate.RemRecovered}, kubestate.ReleaseRemediation{Intent: 3},
		kubestate.ReleaseRemediation{Intent: 3, To: kubestate.RemFencing, Reason: long},
		kubestate.HoldFailover{Cluster: "k"}, kubestate.HoldFailover{For: 1},
		kubestate.HoldFailover{Cluster: "k", For: kubestate.MaxHold + 1},
		kubestate.HoldFailover{Cluster: "k", For: 1, Reason: long},
	} {
		if _, err := Encode(Header{}, c); !errors.Is(err, Invalid) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// What the leader's duties alone may do needs their token.
func TestFailoverIsForTheLeader(t *testing.T) {
	r := leading(t)
	intent := r.begun(1)
	for _, c := range []Command{
		kubestate.PutNodes{Cluster: "k", Nodes: []kubestate.Node{kubeNode(1)}}, beginning(2),
		kubestate.StepRemediation{Intent: intent, From: kubestate.RemIntent, To: kubestate.RemCordoned},
		kubestate.HoldFailover{Cluster: "k", For: 1},
	} {
		r.refused(Refused, Header{}, c)
		r.refused(StaleToken, Header{Token: 1}, c)
	}
}

// The texts that describe a kube node and its power device are bounded: Kubernetes'
// own 253 characters of a name, and 128 of a device, which count as whole.
func TestTextsOfKubeNodesAreBounded(t *testing.T) {
	r := leading(t)
	node := kubeNode(1)
	for length, refused := range map[int]bool{253: false, 254: true} {
		node.Name = strings.Repeat("n", length)
		if err := (kubestate.PutNodes{Cluster: "k", Nodes: []kubestate.Node{node}}).Validate(); (err != nil) != refused {
			t.Errorf("bounded-texts: a name of %d characters: %v", length, err)
		}
	}
	intent := r.walk(r.begun(1), kubestate.RemCordoned).Intent
	for length, refused := range map[int]bool{128: false, 129: true} {
		c := kubestate.StepRemediation{Intent: intent, From: kubestate.RemCordoned, To: kubestate.RemFencing, Peer: "a",
			Reason: "off", Device: strings.Repeat("d", length)}
		if err := c.Validate(); (err != nil) != refused {
			t.Errorf("bounded-texts: a device of %d characters: %v", length, err)
		}
		if !refused {
			r.asLeader(c) // and the invariants hold
		}
	}
}
