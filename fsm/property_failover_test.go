package fsm

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/kubestate"
	"github.com/trivet-ha/trivet/fsm/membership"
)

func kubeCluster(t *rapid.T) string { return rapid.SampledFrom([]string{"k", "l"}).Draw(t, "cluster") }

func kubeUID(t *rapid.T) string { return rapid.SampledFrom([]string{"u1", "u2", "u3"}).Draw(t, "uid") }

// kubeName draws few names, so that two objects have the same.
func kubeName(t *rapid.T) string { return rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "name") }

// remediationOf draws one that is open, one that has ended, or none.
func (m *machine) remediationOf(t *rapid.T) (intent fencing.Token, state kubestate.State) {
	var open, all []fencing.Token
	for _, r := range m.model.failing.all {
		all = append(all, r.Intent)
		if !r.State.Ended() {
			open = append(open, r.Intent, r.Intent, r.Intent)
		}
	}
	intent = rapid.SampledFrom(append(append(open, all...), 1)).Draw(t, "intent")
	if r := m.model.remediation(intent); r != nil {
		return intent, r.State
	}
	return intent, kubestate.RemIntent
}

func remediationState(t *rapid.T) kubestate.State {
	return kubestate.State(rapid.IntRange(int(kubestate.RemIntent), int(kubestate.RemStuck)).Draw(t, "state"))
}

func deviceFor(t *rapid.T, to kubestate.State) string {
	if to != kubestate.RemFencing {
		return ""
	}
	return rapid.SampledFrom([]string{"bmc", "bmc", "ipmi", ""}).Draw(t, "device")
}

// ofFailover draws what the duty does.
func (m *machine) ofFailover(t *rapid.T) Command {
	switch rapid.IntRange(0, 7).Draw(t, "act") {
	case 0, 1:
		c := kubestate.PutNodes{Cluster: kubeCluster(t), Millis: 7}
		for _, uid := range []string{"u1", "u2", "u3"} {
			switch rapid.IntRange(0, 3).Draw(t, uid) {
			case 0, 1:
				c.Nodes = append(c.Nodes, kubestate.Node{
					UID: uid, Name: kubeName(t), BootID: rapid.SampledFrom([]string{"b1", "b2"}).Draw(t, "boot"),
					Ready: kubestate.Ready(rapid.IntRange(int(kubestate.ReadyTrue), int(kubestate.ReadyUnknown)).Draw(t, "ready")),
				})
			case 2:
				c.Remove = append(c.Remove, uid)
			}
		}
		if len(c.Nodes)+len(c.Remove) == 0 {
			c.Remove = []string{"u4"}
		}
		return c
	case 2, 3:
		return kubestate.BeginRemediation{Cluster: kubeCluster(t), Node: kubeName(t), UID: kubeUID(t), BootID: "b1",
			Peer: "a", Reason: "silent", Millis: 8}
	case 4:
		return kubestate.HoldFailover{Cluster: kubeCluster(t),
			For: rapid.SampledFrom([]time.Duration{time.Second, 5 * time.Second}).Draw(t, "for"), Reason: "storm"}
	}
	intent, from := m.remediationOf(t)
	to := remediationState(t)
	if rapid.IntRange(0, 9).Draw(t, "elsewhere") == 0 {
		from = remediationState(t)
	}
	return kubestate.StepRemediation{Intent: intent, From: from, To: to, Peer: "a", Reason: "because",
		Device: deviceFor(t, to), Millis: 9}
}

// vote draws what peers say.
func (m *machine) vote(t *rapid.T) Command {
	c := kubestate.VoteNodes{Session: m.session(t), Cluster: kubeCluster(t), Millis: 10}
	for _, uid := range []string{"u1", "u2", "u3", "u4"} {
		switch rapid.IntRange(0, 3).Draw(t, uid) {
		case 0, 1:
			c.Votes = append(c.Votes, kubestate.Vote{UID: uid, Silent: rapid.Bool().Draw(t, "silent")})
		case 2:
			c.Withdraw = append(c.Withdraw, uid)
		}
	}
	if len(c.Votes)+len(c.Withdraw) == 0 {
		c.Votes = []kubestate.Vote{{UID: "u1"}}
	}
	return c
}

// operate draws what an operator does.
func (m *machine) operate(t *rapid.T) Command {
	if rapid.Bool().Draw(t, "release") {
		intent, _ := m.remediationOf(t)
		if rapid.IntRange(0, 2).Draw(t, "ended") == 0 {
			return kubestate.ReleaseRemediation{Intent: intent, To: kubestate.RemFencing, By: "op", Ended: true}
		}
		return kubestate.ReleaseRemediation{Intent: intent,
			To: rapid.SampledFrom([]kubestate.State{kubestate.RemFencing, kubestate.RemCancelled}).Draw(t, "to"), By: "op",
			Reason: "seen", Millis: 11}
	}
	c := kubestate.PauseFailover{Cluster: rapid.SampledFrom([]string{"", "k", "l"}).Draw(t, "which"), By: "op",
		Reason: "works", Millis: 12}
	if c.Paused = rapid.IntRange(0, 2).Draw(t, "pause") == 0; c.Paused {
		c.For = rapid.SampledFrom([]time.Duration{0, time.Second, 5 * time.Second}).Draw(t, "for")
	}
	return c
}

// failover is everybody's work for the clusters.
func (m *machine) failover(t *rapid.T) {
	switch who := rapid.IntRange(0, 9).Draw(t, "who"); {
	case who < 5:
		m.duty(t, m.ofFailover(t))
	case who < 7 && len(m.model.sessions) > 0:
		c := m.vote(t)
		m.commit(t, Header{Session: rapid.SampledFrom([]fencing.Token{0, c.(kubestate.VoteNodes).Session, m.session(t)}).Draw(
			t, "as")}, c)
	case len(m.model.sessions) > 0:
		m.commit(t, m.request(t), m.operate(t))
	default:
		m.commit(t, Header{}, m.operate(t))
	}
}

// duty commits as the leader, rarely as one that is none.
func (m *machine) duty(t *rapid.T, c Command) {
	if m.model.lead == 0 {
		m.commit(t, Header{}, Lead{Peer: "a", Boot: "b"})
	}
	token := m.model.lead
	switch rapid.IntRange(0, 19).Draw(t, "zombie") {
	case 0:
		token = m.anyToken(t, []fencing.Token{max(token, 2) - 1})
	case 1:
		token = 0
	}
	m.commit(t, Header{Token: token}, c)
}

// remedy takes one remediation some steps further, by the table alone: without it
// the far ends are hardly ever reached.
func (m *machine) remedy(t *rapid.T) {
	intent, _ := m.remediationOf(t)
	for range rapid.IntRange(1, 12).Draw(t, "steps") {
		r := m.model.remediation(intent)
		if r == nil || r.State.Ended() {
			return
		}
		var next []kubestate.State
		for to := kubestate.RemIntent; to <= kubestate.RemStuck; to++ {
			if modelMay(r, to) {
				next = append(next, to)
			}
		}
		to := rapid.SampledFrom(slices.Concat(next, next[:1])).Draw(t, "next")
		m.duty(t, kubestate.StepRemediation{Intent: intent, From: r.State, To: to, Peer: "b", Reason: fmt.Sprint("to ", to),
			Device: deviceFor(t, to)})
	}
}

// month lets so much time pass that ended remediations are forgotten.
func (m *machine) month(t *rapid.T) {
	if rapid.IntRange(0, 19).Draw(t, "rarely") == 0 {
		m.now = m.now.Add(kubestate.Keep / 2)
		m.commit(t, Header{}, Probe{})
	}
}

// rewound puts an earlier state in place of the present one, as a restore does.
func (m *machine) rewound(t *rapid.T) {
	then := &State{rapid.SampledFrom(m.past).Draw(t, "then").data}
	now := m.state.View()
	then.Adopt(now)
	if err := then.Refound(Refound{Index: now.Index() + 1, NewIncarnation: true, Survivor: "founder",
		Self: member("founder")}); err != nil {
		t.Fatal(err)
	}
	v := then.View()
	if err := v.Check(); err != nil {
		t.Fatalf("after a restore: %v", err)
	}
	for _, cluster := range []string{"", "k", "l"} {
		if _, before := now.FailoverPause(cluster); before {
			if _, paused := v.FailoverPause(cluster); !paused {
				t.Fatalf("adopted-pauses: the restore resumed %q", cluster)
			}
		}
	}
	for _, cluster := range v.KubeClusters() {
		for _, n := range v.KubeNodes(cluster) {
			if len(v.KubeBallots(cluster, n.UID)) > 0 {
				t.Fatalf("votes outlive all sessions:\n%s", viewFailoverText(v))
			}
		}
	}
}

// Failover alone, so that its far ends are reached in each run.
func TestFailoverBehavesAsItsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		for _, id := range []string{"a", "b", "c"} {
			m.commit(t, Header{}, membership.PutMember{Member: member(id)})
			m.commit(t, Header{}, membership.OpenSession{Peer: id, Boot: "b", Version: Version})
		}
		all, some := m.actions(), map[string]func(*rapid.T){}
		for _, name := range []string{"lead", "end", "remove", "again", "pass", "month", "restore", "renew"} {
			some[name] = all[name]
		}
		some["open"] = func(t *rapid.T) {
			m.commit(t, Header{}, membership.OpenSession{Peer: peer(t), Boot: "b", Version: Version})
		}
		for i := range 5 {
			some[fmt.Sprint("failover ", i)], some[fmt.Sprint("remedy ", i)] = m.failover, m.remedy
		}
		t.Repeat(some)
		m.rewound(t)
	})
}
