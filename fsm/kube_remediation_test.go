package fsm

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
)

// The expectation stands in wantRemediations, in another shape than the table.
func TestRemediationTablePairByPair(t *testing.T) {
	pairs := 0
	for from := RemIntent; from <= RemStuck; from++ {
		for to := RemIntent; to <= RemStuck; to++ {
			cell := remediationCell(from, to)
			if cell == "" {
				t.Fatalf("%v to %v is not written down", from, to)
			}
			pairs++
			if got := RemediationMay(from, to); got != (cell != "-") {
				t.Errorf("remediation-table: %v to %v is %v, written down is %q", from, to, got, cell)
			}
			for _, past := range []Remediation{{}, {Attempts: 1, Device: "bmc"}, {Attempts: 1, Device: "bmc", WasOff: true}} {
				past.State = from
				want := cell == "x" || cell == "d" && past.Attempts > 0 || cell == "a" && !past.WasOff || cell == "o" && past.WasOff
				if got := past.May(to); got != want {
					t.Errorf("remediation-past: %v to %v after %d attempts, off before %v: %v", from, to, past.Attempts, past.WasOff, got)
				}
			}
		}
	}
	if pairs != 100 {
		t.Errorf("%d pairs were tested", pairs)
	}
	for _, bad := range []RemediationState{0, RemStuck + 1, 200} {
		if RemediationMay(bad, RemStuck) || RemediationMay(RemStuck, bad) || (Remediation{State: bad}).May(RemStuck) {
			t.Errorf("remediation-table: state %d is known", bad)
		}
	}
}

// Each pair again, through the log.
func TestRemediationStepsFollowTheTable(t *testing.T) {
	way := []RemediationState{RemCordoned, RemFencing, RemOff, RemTainted, RemDeleted, RemDetached, RemRecovered}
	ways := [][]RemediationState{{RemCancelled}, {RemStuck}, {RemCordoned, RemFencing, RemStuck}, {RemCordoned, RemFencing, RemOff, RemStuck}, {RemCordoned, RemFencing, RemOff, RemFencing}}
	for i := range len(way) + 1 {
		ways = append(ways, way[:i])
	}
	for _, way := range ways {
		for to := RemIntent; to <= RemStuck; to++ {
			r := leading(t)
			before := r.walk(r.begun(1), way...)
			want := before.May(to)
			c := r.stepping(before.Intent, to)
			if !want {
				r.refused(IllegalTransition, r.leader(), c)
				continue
			}
			r.pass(time.Second)
			r.asLeader(c)
			after, _ := r.view().Remediation(before.Intent)
			if after.State != to || len(after.Steps) != len(before.Steps)+1 || (after.Since == r.now) != (to != before.State) {
				t.Errorf("after %v to %v: %+v", way, to, after)
			}
			if step := after.Steps[len(after.Steps)-1]; step.Token != fencing.Token(r.index) || step.At != r.now || step.Millis != 8 || step.Peer != "a" || step.Reason != "to "+to.String() {
				t.Errorf("the step is %+v", step)
			}
		}
	}
}

// Two of one kube node would switch one machine off and on.
func TestOneRemediationOfAKubeNode(t *testing.T) {
	r := leading(t)
	intent := r.begun(1)
	second := func(why string, c BeginRemediation) {
		t.Helper()
		if res := r.do(r.leader(), c); res.Code != Conflict || len(r.view().Remediations()) != 1 {
			t.Fatalf("one-remediation: a second one %s: %v, open are %d", why, res.Code, len(r.view().Remediations()))
		}
	}
	second("of the same", beginning(1))
	other := beginning(1)
	other.Node = "renamed"
	second("of its UID", other)
	other = beginning(1)
	other.UID = "uid-of-another"
	second("of its name", other)
	r.walk(intent, RemStuck)
	second("while it is stuck", beginning(1))
	elsewhere := beginning(1)
	elsewhere.Cluster = "l"
	r.asLeader(elsewhere)
	r.begun(2)
	r.walk(intent, RemCancelled)
	again := r.begun(1)
	if got, ok := r.view().OpenRemediation("k", "uid-1"); !ok || got.Intent != again || again == intent {
		t.Errorf("open is %+v", got)
	}
	if open := r.view().Remediations(); len(open) != 3 || open[2].Intent != again {
		t.Errorf("open are %+v", open)
	}
	if all := r.view().RemediationHistory(0); len(all) != 4 || all[0].Intent != again || all[3].Intent != intent {
		t.Errorf("the history is %+v", all)
	}
	if some := r.view().RemediationHistory(2); len(some) != 2 || some[0].Intent != again {
		t.Errorf("the history's end is %+v", some)
	}
}

// A leader that was paused takes no step that another has taken meanwhile.
func TestStepsAreTakenFromTheStateTheyKnow(t *testing.T) {
	r := leading(t)
	intent := r.begun(1)
	late := r.stepping(intent, RemCordoned)
	r.asLeader(late)
	for _, c := range []StepRemediation{late, {Intent: intent, From: RemDetached, To: RemRecovered}, {Intent: intent, From: RemStuck, To: RemFencing, Device: "bmc"}} {
		if res := r.do(r.leader(), c); res.Code != Conflict {
			t.Errorf("step-from: a step from %v while it is cordoned: %v", c.From, res.Code)
		}
	}
	r.refused(NotFound, r.leader(), StepRemediation{Intent: 1, From: RemIntent, To: RemCordoned})
}

// After off there is no cancel, whatever lies between.
func TestOffIsNotCancelled(t *testing.T) {
	for _, way := range [][]RemediationState{
		{}, {RemTainted}, {RemFencing}, {RemFencing, RemStuck}, {RemStuck}, {RemStuck, RemStuck}, {RemTainted, RemFencing, RemStuck, RemFencing},
	} {
		r := leading(t)
		now := r.walk(r.begun(1), append([]RemediationState{RemCordoned, RemFencing, RemOff}, way...)...)
		if res := r.do(r.leader(), r.stepping(now.Intent, RemCancelled)); res.Code != IllegalTransition || !strings.Contains(res.Message, "the machine was off") {
			t.Errorf("off-cancelled: after %v: %v (%s)", way, res.Code, res.Message)
		}
		if got := r.walk(now.Intent, RemRecovered); got.State != RemRecovered || got.Expires != r.now.Add(RemediationKeep) {
			t.Errorf("after %v: %+v", way, got)
		}
	}
}

// A power-off is announced before it is given, and each one counts.
func TestPowerOffIsAnnounced(t *testing.T) {
	r := leading(t)
	intent := r.begun(1)
	r.walk(intent, RemCordoned)
	silent := r.stepping(intent, RemFencing)
	silent.Device = ""
	r.asLeader(silent)
	if res := r.do(r.leader(), r.stepping(intent, RemOff)); res.Code != IllegalTransition {
		t.Fatalf("off-announced: off without a command: %v", res.Code)
	}
	began := r.now
	r.pass(time.Second)
	if now := r.walk(intent, RemFencing, RemFencing); now.Attempts != 2 || now.Device != "bmc" || now.Since != began || len(now.Steps) != 5 {
		t.Errorf("off-announced: %+v", now)
	}
	next := r.stepping(intent, RemFencing)
	next.Device = "ipmi"
	r.asLeader(next)
	if now := r.walk(intent, RemOff); now.Attempts != 3 || now.Device != "ipmi" || !now.WasOff {
		t.Errorf("off-announced: %+v", now)
	}
}

func TestOperatorsReleaseWhatIsStuck(t *testing.T) {
	r := leading(t)
	a := r.session("a")
	intent := r.begun(1)
	release := func(to RemediationState) ReleaseRemediation {
		return ReleaseRemediation{Intent: intent, To: to, By: "op", Reason: "I pulled the plug", Millis: 5}
	}
	as := func() Header { return Header{Session: a, Request: r.request()} }
	r.refused(Conflict, as(), release(RemCancelled))
	r.refused(NotFound, as(), ReleaseRemediation{Intent: 1, To: RemFencing})
	r.walk(intent, RemCordoned, RemFencing, RemOff, RemStuck)
	r.mustAs(as(), release(RemFencing))
	now, _ := r.view().Remediation(intent)
	if step := now.Steps[len(now.Steps)-1]; now.State != RemFencing || now.Attempts != 1 || !step.Operator || step.Peer != "op" || step.Reason != "I pulled the plug" || step.Millis != 5 {
		t.Errorf("%+v", now)
	}
	r.walk(intent, RemStuck)
	r.mustAs(as(), release(RemCancelled))
	if now, _ := r.view().Remediation(intent); now.State != RemCancelled || !now.WasOff || len(r.view().Remediations()) != 0 {
		t.Errorf("%+v", now)
	}
	r.refused(Conflict, as(), release(RemFencing))
}

func TestStepsAreBounded(t *testing.T) {
	r := leading(t)
	intent := r.begun(1)
	r.walk(intent, RemCordoned)
	var at View
	for range 50 {
		r.walk(intent, RemFencing, RemStuck)
		if r.index == 40 {
			at = r.view()
		}
	}
	now := r.walk(intent, RemStuck)
	if len(now.Steps) != MaxRemediationSteps || now.Attempts != 50 || now.Steps[0].Token != intent || now.Steps[firstRemediationSteps].Token <= now.Steps[firstRemediationSteps-1].Token+1 {
		t.Errorf("%d steps: %+v", len(now.Steps), now)
	}
	for i, s := range slices.Backward(now.Steps[firstRemediationSteps:]) {
		if want := fencing.Token(r.index) - fencing.Token(MaxRemediationSteps-firstRemediationSteps-1-i); s.Token != want {
			t.Fatalf("step %d has token %v, want %v", i, s.Token, want)
		}
	}
	if err := at.Check(); err != nil {
		t.Errorf("an older view was changed: %v", err)
	}
}

func TestEndedRemediationsAreForgotten(t *testing.T) {
	r := leading(t)
	first := r.begun(1)
	r.walk(first, RemCancelled)
	r.pass(time.Hour)
	second, open := r.begun(1), r.begun(2)
	r.walk(second, RemCancelled)
	r.pass(RemediationKeep - time.Hour)
	r.must(Probe{})
	if all := r.view().RemediationHistory(0); len(all) != 2 || all[0].Intent != open || all[1].Intent != second {
		t.Errorf("remediations-kept: %+v", all)
	}
	r.pass(time.Hour)
	r.must(Probe{})
	if all := r.view().RemediationHistory(0); len(all) != 1 || all[0].Intent != open {
		t.Errorf("remediations-kept: %+v", all)
	}
}

// When there is no room the one that ended first goes; open ones stay.
func TestRemediationsAreBounded(t *testing.T) {
	r := leading(t)
	commit := func(c Command) Result { // without the invariants, which are looked at in between
		r.index++
		return r.state.Apply(Entry{Index: r.index, Term: r.term, Data: encoded(t, r.leader(), c)})
	}
	var intents []fencing.Token
	for i := range MaxRemediations {
		intents = append(intents, commit(beginning(i)).Token)
	}
	r.refused(TableFull, r.leader(), beginning(MaxRemediations))
	for _, i := range []int{7, 3} {
		r.pass(time.Second)
		r.walk(intents[i], RemCancelled)
	}
	r.begun(MaxRemediations)
	_, three := r.view().Remediation(intents[3])
	if _, seven := r.view().Remediation(intents[7]); seven || !three || len(r.view().RemediationHistory(0)) != MaxRemediations {
		t.Errorf("remediations-kept: of those that ended, the first is there: %v, the second: %v", seven, three)
	}
	r.begun(MaxRemediations + 1)
	r.refused(TableFull, r.leader(), beginning(MaxRemediations+2))
}

// A new history knows what was done, and not who thinks what.
func TestRefoundKeepsRemediationsAndDropsVotes(t *testing.T) {
	r := busy(t)
	before := r.view()
	if err := r.state.Refound(Refound{Index: 1 << 20, UnixMillis: r.wall, NewIncarnation: true}); err != nil {
		t.Fatal(err)
	}
	v := r.view()
	if err := v.Check(); err != nil {
		t.Fatal(err)
	}
	silent, answers, _ := v.KubeVotes("k", "uid-1")
	if len(v.Remediations()) != 1 || len(v.RemediationHistory(0)) != 2 || len(v.KubeNodes("k")) != 3 || silent+answers != 0 || len(v.FailoverPauses()) != 2 {
		t.Errorf("%s", viewFailoverText(v))
	}
	if len(before.KubeBallots("k", "uid-1")) != 1 {
		t.Error("the view before was changed")
	}
}

// A snapshot that is put in place of the state lifts no pause, and what was over
// by the running cluster's clock is over.
func TestAdoptKeepsPauses(t *testing.T) {
	old := leading(t)
	old.must(PauseFailover{Cluster: "both", Paused: true, For: time.Hour, By: "then"})
	old.must(PauseFailover{Cluster: "then", Paused: true, By: "then"})
	old.must(PauseFailover{Cluster: "over", Paused: true, For: time.Minute})
	old.asLeader(HoldFailover{Cluster: "over", For: time.Minute})
	old.walk(old.begun(1), RemCancelled)
	open := old.begun(2)
	now := leading(t)
	now.pass(RemediationKeep)
	now.must(PauseFailover{Cluster: "both", Paused: true, For: 2 * time.Hour, By: "now"})
	now.must(PauseFailover{Cluster: "then", Paused: true, For: time.Hour, By: "now"})
	now.must(PauseFailover{Cluster: "now", Paused: true, By: "now"})
	old.state.Adopt(now.view())
	v := old.view()
	if err := v.Check(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range v.FailoverPauses() {
		got = append(got, p.Cluster+" by "+p.By)
	}
	if want := []string{"both by now", "now by now", "then by then"}; !slices.Equal(got, want) {
		t.Errorf("adopted-pauses: %q, want %q", got, want)
	}
	if _, held := v.FailoverHold("over"); held || len(v.RemediationHistory(0)) != 1 || v.Remediations()[0].Intent != open {
		t.Errorf("%s", viewFailoverText(v))
	}
}

func TestAdoptPausesAllWhereTooManyArePaused(t *testing.T) {
	old, now := leading(t), leading(t)
	for i := range MaxFailoverClusters {
		old.must(PauseFailover{Cluster: fmt.Sprint("old-", i), Paused: true})
		now.must(PauseFailover{Cluster: fmt.Sprint("now-", i), Paused: true})
	}
	old.state.Adopt(now.view())
	if err := old.view().Check(); err != nil {
		t.Fatal(err)
	}
	if p, paused := old.view().FailoverPause("now-1"); !paused || p.Cluster != "" {
		t.Errorf("adopted-pauses: %+v", p)
	}
}

func corruptKubeNodes(v View) corruptions {
	node := v.KubeNodes("k")[0]
	vote := v.KubeBallots("k", node.UID)[0]
	hold, _ := v.FailoverHold("k")
	pause := v.FailoverPauses()[1]
	changeNode := func(f func(*KubeNode)) func(*data) {
		return func(d *data) {
			n := node
			f(&n)
			d.failover.nodes.Put(kubeKey(node.Cluster, node.UID), n)
		}
	}
	return corruptions{
		"kube node under another key": changeNode(func(n *KubeNode) { n.UID = "x" }),
		"kube node against the rules": changeNode(func(n *KubeNode) { n.Ready = 0 }),
		"kube node of no cluster": func(d *data) {
			d.failover.nodes.Put(kubeKey("", node.UID), KubeNode{UID: node.UID, Name: "x", Ready: 1})
		},
		"kube node that changes later": changeNode(func(n *KubeNode) { n.Changed = v.Now() + 1 }),
		"vote under another key":       func(d *data) { d.failover.votes.Put([]byte("x"), vote) },
		"vote missing of its session":  func(d *data) { d.failover.votesOf.Drop(vote.sessionKey()) },
		"vote of a session that is over": func(d *data) {
			b := vote
			b.Session = 1
			d.failover.putBallot(b)
		},
		"vote on nobody":          func(d *data) { d.failover.nodes.Drop(kubeKey(node.Cluster, node.UID)) },
		"vote of the future":      func(d *data) { b := vote; b.Since = v.Now() + 1; d.failover.putBallot(b) },
		"pause under another key": func(d *data) { d.failover.pauses.Put([]byte("x"), pause) },
		"pause without deadline":  func(d *data) { d.shared.Disarm(pause.Until, duePause, []byte(pause.Cluster)) },
		"pause of the future":     func(d *data) { p := pause; p.Since = v.Now() + 1; d.failover.pauses.Put([]byte(p.Cluster), p) },
		"pause against the rules": func(d *data) { p := pause; p.By = "\xff"; d.failover.pauses.Put([]byte(p.Cluster), p) },
		"pause that is too long":  func(d *data) { d.dropPause("l"); p := pause; p.Until = 1 << 60; d.putPause(p) },
		"hold without deadline":   func(d *data) { d.shared.Disarm(hold.Until, dueHold, []byte("k")) },
		"hold under another key":  func(d *data) { h := hold; h.Cluster = "x"; d.failover.holds.Put([]byte("k"), h) },
		"hold that is too long": func(d *data) {
			d.shared.Disarm(hold.Until, dueHold, []byte("k"))
			h := hold
			h.Until = 1 << 60
			d.putHold(h)
		},
	}
}

func corruptRemediations(v View) corruptions {
	open := v.Remediations()[0]
	ended := v.RemediationHistory(1)[0]
	change := func(r Remediation, f func(*Remediation)) func(*data) {
		return func(d *data) {
			r.Steps = slices.Clone(r.Steps)
			f(&r)
			d.failover.remediations.Put(table.TokenKey(r.Intent), r)
		}
	}
	return corruptions{
		"remediation under another key":  func(d *data) { d.failover.remediations.Put(table.TokenKey(2), ended) },
		"open remediation not by UID":    func(d *data) { d.failover.open.Drop(kubeKey(open.Cluster, open.UID)) },
		"open remediation not by name":   func(d *data) { d.failover.openName.Drop(kubeKey(open.Cluster, open.Node)) },
		"two remediations of a name":     func(d *data) { d.failover.openName.Put(kubeKey(open.Cluster, open.Node), ended.Intent) },
		"ended remediation that is open": func(d *data) { d.failover.open.Put(kubeKey(ended.Cluster, ended.UID), ended.Intent) },
		"ended remediation not ended":    func(d *data) { d.failover.ended.Drop(ended.endedKey()) },
		"remediation kept for ever":      func(d *data) { d.shared.Disarm(ended.Expires, dueRemediation, table.TokenKey(ended.Intent)) },
		"remediation in no state":        change(open, func(r *Remediation) { r.State = 0 }),
		"remediation of nobody":          change(open, func(r *Remediation) { r.Node = "" }),
		"remediation never off":          change(open, func(r *Remediation) { r.WasOff = false }),
		"off without an attempt":         change(ended, func(r *Remediation) { r.Attempts, r.Device = 0, "" }),
		"attempt of no device":           change(open, func(r *Remediation) { r.Device = "" }),
		"remediation of the future":      change(open, func(r *Remediation) { r.Since = v.Now() + 1 }),
		"open remediation that expires":  change(open, func(r *Remediation) { r.Expires = 1 << 60 }),
		"remediation without steps":      change(open, func(r *Remediation) { r.Steps = nil }),
		"too many steps":                 change(open, func(r *Remediation) { r.Steps = slices.Repeat(r.Steps, 20) }),
		"another last step":              change(open, func(r *Remediation) { r.Steps = r.Steps[:3] }),
		"another first step":             change(open, func(r *Remediation) { r.Steps[0].Token++ }),
		"step off the table":             change(open, func(r *Remediation) { r.Steps[1].State = RemFencing }),
		"steps out of order":             change(open, func(r *Remediation) { r.Steps[2].Token = r.Steps[1].Token }),
		"step of the future":             change(open, func(r *Remediation) { r.Steps[len(r.Steps)-1].Token = 1 << 60 }),
		"step against the rules":         change(open, func(r *Remediation) { r.Steps[1].Reason = "\xff" }),
		"step that announces to nobody":  change(open, func(r *Remediation) { r.Steps[1].Device = "bmc" }),
	}
}

// A founding leaves what is open to an operator, wherever it was, and nothing else.
func TestFoundingHoldsOpenRemediations(t *testing.T) {
	r := leading(t)
	way := []RemediationState{RemCordoned, RemFencing, RemOff, RemTainted, RemDeleted, RemDetached}
	for i := range len(way) + 1 {
		r.walk(r.begun(i+1), way[:i]...)
	}
	r.walk(r.begun(8), RemStuck)
	r.walk(r.begun(9), RemCancelled)
	before := r.view().RemediationHistory(0)
	for range 2 { // and once more
		if err := r.state.Refound(Refound{Index: r.index, UnixMillis: 9, NewIncarnation: true}); err != nil {
			t.Fatal(err)
		}
		if err := r.view().Check(); err != nil {
			t.Fatal(err)
		}
	}
	for _, old := range before {
		m, _ := r.view().Remediation(old.Intent)
		last := m.Steps[len(m.Steps)-1]
		switch {
		case old.State.Ended():
			if m.State != old.State || len(m.Steps) != len(old.Steps) {
				t.Errorf("founding-holds: what had ended is %+v", m)
			}
		case m.State != RemStuck || last.Reason != HeldByFounding || m.WasOff != old.WasOff || m.Attempts != old.Attempts:
			t.Errorf("founding-holds: after %v it is %v: %q", old.State, m.State, last.Reason)
		}
	}
}
