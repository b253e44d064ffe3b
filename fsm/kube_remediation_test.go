package fsm

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// The expectation stands in wantRemediations, in another shape than the table.
func TestRemediationTablePairByPair(t *testing.T) {
	pairs := 0
	for from := kubestate.RemIntent; from <= kubestate.RemStuck; from++ {
		for to := kubestate.RemIntent; to <= kubestate.RemStuck; to++ {
			cell := remediationCell(from, to)
			if cell == "" {
				t.Fatalf("%v to %v is not written down", from, to)
			}
			pairs++
			if got := kubestate.May(from, to); got != (cell != "-") {
				t.Errorf("remediation-table: %v to %v is %v, written down is %q", from, to, got, cell)
			}
			for _, past := range []kubestate.Remediation{{}, {Attempts: 1, Device: "bmc"},
				{Attempts: 1, Device: "bmc", WasOff: true}} {
				past.State = from
				want := cell == "x" || cell == "d" && past.Attempts > 0 || cell == "a" && !past.WasOff || cell == "o" && past.WasOff
				if got := past.May(to); got != want {
					t.Errorf("remediation-past: %v to %v after %d attempts, off before %v: %v", from, to, past.Attempts, past.WasOff,
						got)
				}
			}
		}
	}
	if pairs != 100 {
		t.Errorf("%d pairs were tested", pairs)
	}
	for _, bad := range []kubestate.State{0, kubestate.RemStuck + 1, 200} {
		if kubestate.May(bad, kubestate.RemStuck) || kubestate.May(kubestate.RemStuck, bad) ||
			(kubestate.Remediation{State: bad}).May(kubestate.RemStuck) {
			t.Errorf("remediation-table: state %d is known", bad)
		}
	}
}

// Each pair again, through the log.
func TestRemediationStepsFollowTheTable(t *testing.T) {
	way := []kubestate.State{kubestate.RemCordoned, kubestate.RemFencing, kubestate.RemOff, kubestate.RemTainted,
		kubestate.RemDeleted, kubestate.RemDetached, kubestate.RemRecovered}
	ways := [][]kubestate.State{{kubestate.RemCancelled}, {kubestate.RemStuck},
		{kubestate.RemCordoned, kubestate.RemFencing, kubestate.RemStuck},
		{kubestate.RemCordoned, kubestate.RemFencing, kubestate.RemOff, kubestate.RemStuck},
		{kubestate.RemCordoned, kubestate.RemFencing, kubestate.RemOff, kubestate.RemFencing}}
	for i := range len(way) + 1 {
		ways = append(ways, way[:i])
	}
	for _, way := range ways {
		for to := kubestate.RemIntent; to <= kubestate.RemStuck; to++ {
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
			if step := after.Steps[len(after.Steps)-1]; step.Token != fencing.Token(r.index) || step.At != r.now ||
				step.Millis != 8 || step.Peer != "a" || step.Reason != "to "+to.String() {
				t.Errorf("the step is %+v", step)
			}
		}
	}
}

// Two of one kube node would switch one machine off and on.
func TestOneRemediationOfAKubeNode(t *testing.T) {
	r := leading(t)
	intent := r.begun(1)
	second := func(why string, c kubestate.BeginRemediation) {
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
	r.walk(intent, kubestate.RemStuck)
	second("while it is stuck", beginning(1))
	elsewhere := beginning(1)
	elsewhere.Cluster = "l"
	r.asLeader(elsewhere)
	r.begun(2)
	r.walk(intent, kubestate.RemCancelled)
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
	late := r.stepping(intent, kubestate.RemCordoned)
	r.asLeader(late)
	for _, c := range []kubestate.StepRemediation{late,
		{Intent: intent, From: kubestate.RemDetached, To: kubestate.RemRecovered},
		{Intent: intent, From: kubestate.RemStuck, To: kubestate.RemFencing, Device: "bmc"}} {
		if res := r.do(r.leader(), c); res.Code != Conflict {
			t.Errorf("step-from: a step from %v while it is cordoned: %v", c.From, res.Code)
		}
	}
	r.refused(NotFound, r.leader(),
		kubestate.StepRemediation{Intent: 1, From: kubestate.RemIntent, To: kubestate.RemCordoned})
}

// After off there is no cancel, whatever lies between.
func TestOffIsNotCancelled(t *testing.T) {
	for _, way := range [][]kubestate.State{
		{}, {kubestate.RemTainted}, {kubestate.RemFencing}, {kubestate.RemFencing, kubestate.RemStuck}, {kubestate.RemStuck},
		{kubestate.RemStuck, kubestate.RemStuck},
		{kubestate.RemTainted, kubestate.RemFencing, kubestate.RemStuck, kubestate.RemFencing},
	} {
		r := leading(t)
		now := r.walk(r.begun(1),
			append([]kubestate.State{kubestate.RemCordoned, kubestate.RemFencing, kubestate.RemOff}, way...)...)
		if res := r.do(r.leader(), r.stepping(now.Intent, kubestate.RemCancelled)); res.Code != IllegalTransition ||
			!strings.Contains(res.Message, "the machine was off") {
			t.Errorf("off-cancelled: after %v: %v (%s)", way, res.Code, res.Message)
		}
		if got := r.walk(now.Intent, kubestate.RemRecovered); got.State != kubestate.RemRecovered ||
			got.Expires != r.now.Add(kubestate.Keep) {
			t.Errorf("after %v: %+v", way, got)
		}
	}
}

// A power-off is announced before it is given, and each one counts.
func TestPowerOffIsAnnounced(t *testing.T) {
	r := leading(t)
	intent := r.begun(1)
	r.walk(intent, kubestate.RemCordoned)
	silent := r.stepping(intent, kubestate.RemFencing)
	silent.Device = ""
	r.asLeader(silent)
	if res := r.do(r.leader(), r.stepping(intent, kubestate.RemOff)); res.Code != IllegalTransition {
		t.Fatalf("off-announced: off without a command: %v", res.Code)
	}
	began := r.now
	r.pass(time.Second)
	if now := r.walk(intent, kubestate.RemFencing, kubestate.RemFencing); now.Attempts != 2 || now.Device != "bmc" ||
		now.Since != began || len(now.Steps) != 5 {
		t.Errorf("off-announced: %+v", now)
	}
	next := r.stepping(intent, kubestate.RemFencing)
	next.Device = "ipmi"
	r.asLeader(next)
	if now := r.walk(intent, kubestate.RemOff); now.Attempts != 3 || now.Device != "ipmi" || !now.WasOff {
		t.Errorf("off-announced: %+v", now)
	}
}

func TestOperatorsReleaseWhatIsStuck(t *testing.T) {
	r := leading(t)
	a := r.session("a")
	intent := r.begun(1)
	release := func(to kubestate.State) kubestate.ReleaseRemediation {
		return kubestate.ReleaseRemediation{Intent: intent, To: to, By: "op", Reason: "I pulled the plug", Millis: 5}
	}
	as := func() Header { return Header{Session: a, Request: r.request()} }
	r.refused(Conflict, as(), release(kubestate.RemCancelled))
	r.refused(NotFound, as(), kubestate.ReleaseRemediation{Intent: 1, To: kubestate.RemFencing})
	r.walk(intent, kubestate.RemCordoned, kubestate.RemFencing, kubestate.RemOff, kubestate.RemStuck)
	r.mustAs(as(), release(kubestate.RemFencing))
	now, _ := r.view().Remediation(intent)
	if step := now.Steps[len(now.Steps)-1]; now.State != kubestate.RemFencing || now.Attempts != 1 || !step.Operator ||
		step.Peer != "op" || step.Reason != "I pulled the plug" || step.Millis != 5 {
		t.Errorf("%+v", now)
	}
	r.walk(intent, kubestate.RemStuck)
	r.mustAs(as(), release(kubestate.RemCancelled))
	if now, _ := r.view().Remediation(intent); now.State != kubestate.RemCancelled || !now.WasOff ||
		len(r.view().Remediations()) != 0 {
		t.Errorf("%+v", now)
	}
	r.refused(Conflict, as(), release(kubestate.RemFencing))
}

// What an ended remediation is noted in neither opens nor prolongs it.
func TestNotesInWhatHasEnded(t *testing.T) {
	r := leading(t)
	a := r.session("a")
	as := func() Header { return Header{Session: a, Request: r.request()} }
	intent := r.begun(1)
	word := kubestate.ReleaseRemediation{Intent: intent, To: kubestate.RemFencing, By: "op", Ended: true}
	r.walk(intent, kubestate.RemCordoned, kubestate.RemFencing, kubestate.RemOff, kubestate.RemStuck)
	r.refused(Conflict, as(), word)
	r.mustAs(as(), kubestate.ReleaseRemediation{Intent: intent, To: kubestate.RemCancelled, By: "op"})
	ended, _ := r.view().Remediation(intent)
	if !ended.HeldByCancel() {
		t.Errorf("ended-note: an operator's cancel holds nothing: %+v", ended)
	}
	r.pass(time.Hour)
	a = r.session("a")
	note := r.stepping(intent, kubestate.RemCancelled)
	for _, byPeer := range []bool{true, false} {
		before, _ := r.view().Remediation(intent)
		if byPeer {
			r.asLeader(note)
		} else {
			r.mustAs(as(), word)
		}
		now, _ := r.view().Remediation(intent)
		if now.State != kubestate.RemCancelled || now.Since != ended.Since || now.Expires != ended.Expires ||
			len(now.Steps) != len(before.Steps)+1 || len(r.view().Remediations()) > 0 || now.HeldByCancel() {
			t.Errorf("ended-note: by a peer %v: %+v", byPeer, now)
		}
		if now.LetsFence(len(now.Steps)-1) == byPeer {
			t.Errorf("ended-note: by a peer %v: it lets fence: %v", byPeer, !byPeer)
		}
	}
	r.older("a", 2)
	for _, c := range []Command{note, word} {
		if err := r.view().Admits(c); err == nil || !strings.Contains(err.Error(), "log version 3") {
			t.Errorf("ended-note: %+v of log version 2: %v", c, err)
		}
	}
}

func TestStepsAreBounded(t *testing.T) {
	r := leading(t)
	intent := r.begun(1)
	r.walk(intent, kubestate.RemCordoned)
	var at View
	for range 50 {
		r.walk(intent, kubestate.RemFencing, kubestate.RemStuck)
		if r.index == 40 {
			at = r.view()
		}
	}
	now := r.walk(intent, kubestate.RemStuck)
	if len(now.Steps) != kubestate.MaxSteps || now.Attempts != 50 || now.Steps[0].Token != intent ||
		now.Steps[16].Token <= now.Steps[16-1].Token+1 {
		t.Errorf("%d steps: %+v", len(now.Steps), now)
	}
	for i, s := range slices.Backward(now.Steps[16:]) {
		if want := fencing.Token(r.index) - fencing.Token(kubestate.MaxSteps-16-1-i); s.Token != want {
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
	r.walk(first, kubestate.RemCancelled)
	r.pass(time.Hour)
	second, open := r.begun(1), r.begun(2)
	r.walk(second, kubestate.RemCancelled)
	r.pass(kubestate.Keep - time.Hour)
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
	for i := range kubestate.MaxRemediations {
		intents = append(intents, commit(beginning(i)).Token)
	}
	r.refused(TableFull, r.leader(), beginning(kubestate.MaxRemediations))
	for _, i := range []int{7, 3} {
		r.pass(time.Second)
		r.walk(intents[i], kubestate.RemCancelled)
	}
	r.begun(kubestate.MaxRemediations)
	_, three := r.view().Remediation(intents[3])
	if _, seven := r.view().Remediation(intents[7]); seven || !three ||
		len(r.view().RemediationHistory(0)) != kubestate.MaxRemediations {
		t.Errorf("remediations-kept: of those that ended, the first is there: %v, the second: %v", seven, three)
	}
	r.begun(kubestate.MaxRemediations + 1)
	r.refused(TableFull, r.leader(), beginning(kubestate.MaxRemediations+2))
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
	if len(v.Remediations()) != 1 || len(v.RemediationHistory(0)) != 2 || len(v.KubeNodes("k")) != 3 ||
		silent+answers != 0 || len(v.FailoverPauses()) != 2 {
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
	old.must(kubestate.PauseFailover{Cluster: "both", Paused: true, For: time.Hour, By: "then"})
	old.must(kubestate.PauseFailover{Cluster: "then", Paused: true, By: "then"})
	old.must(kubestate.PauseFailover{Cluster: "over", Paused: true, For: time.Minute})
	old.asLeader(kubestate.HoldFailover{Cluster: "over", For: time.Minute})
	old.walk(old.begun(1), kubestate.RemCancelled)
	open := old.begun(2)
	now := leading(t)
	now.pass(kubestate.Keep)
	now.must(kubestate.PauseFailover{Cluster: "both", Paused: true, For: 2 * time.Hour, By: "now"})
	now.must(kubestate.PauseFailover{Cluster: "then", Paused: true, For: time.Hour, By: "now"})
	now.must(kubestate.PauseFailover{Cluster: "now", Paused: true, By: "now"})
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
	for i := range kubestate.MaxClusters {
		old.must(kubestate.PauseFailover{Cluster: fmt.Sprint("old-", i), Paused: true})
		now.must(kubestate.PauseFailover{Cluster: fmt.Sprint("now-", i), Paused: true})
	}
	old.state.Adopt(now.view())
	if err := old.view().Check(); err != nil {
		t.Fatal(err)
	}
	if p, paused := old.view().FailoverPause("now-1"); !paused || p.Cluster != "" {
		t.Errorf("adopted-pauses: %+v", p)
	}
}

// A founding leaves what is open to an operator, wherever it was, and nothing else.
func TestFoundingHoldsOpenRemediations(t *testing.T) {
	r := leading(t)
	way := []kubestate.State{kubestate.RemCordoned, kubestate.RemFencing, kubestate.RemOff, kubestate.RemTainted,
		kubestate.RemDeleted, kubestate.RemDetached}
	for i := range len(way) + 1 {
		r.walk(r.begun(i+1), way[:i]...)
	}
	r.walk(r.begun(8), kubestate.RemStuck)
	r.walk(r.begun(9), kubestate.RemCancelled)
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
		case m.State != kubestate.RemStuck || last.Reason != kubestate.HeldByFounding || m.WasOff != old.WasOff ||
			m.Attempts != old.Attempts:
			t.Errorf("founding-holds: after %v it is %v: %q", old.State, m.State, last.Reason)
		}
	}
}
