package failover

import (
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// release is an operator's word on the newest remediation of n1.
func (w *world) release(to kubestate.State) {
	m := w.remediations("n1")
	last := m[len(m)-1]
	w.ledger.must(kubestate.ReleaseRemediation{Intent: last.Intent, To: to, By: "me", Ended: last.State.Ended()})
}

// heldAfter fails the test unless n1 had one remediation and one power-off, lost no pod, and
// nothing is done about it for a reason.
func (w *world) heldAfter(h *hand, what, says string) {
	w.t.Helper()
	all := w.remediations("n1")
	if len(all) != 1 || w.count("off", "n1") != 1 || w.count("delete", "n1") > 0 {
		w.t.Errorf("%s: %d remediations, %d power-offs, %d pods deleted\n%s", what, len(all), w.count("off", "n1"),
			w.count("delete", "n1"), w.story())
	}
	if why := strings.Join(h.c.Verdicts("k")[0].Why, "; "); !strings.Contains(why, says) {
		w.t.Errorf("%s: why %q is to contain %q", what, why, says)
	}
}

// contradicts lets the device of n1 be found out: it says off, and the kernel answers.
func (w *world) contradicts() *hand {
	h := w.lead("h1", safe(), 0, 0)
	w.pass(time.Minute)
	w.fault("n1", deviceLies)
	w.with(func() { w.pcs["n1"].hung = true })
	w.comesTo("n1", kubestate.RemStuck)
	w.pass(5 * time.Minute)
	return h
}

// cancelledDead lets an operator cancel the remediation of a machine that is off.
func (w *world) cancelledDead() *hand {
	h := w.lead("h1", safe(), 0, 0)
	w.pass(time.Minute)
	w.with(func() { w.trouble.forbidden = "delete pod" })
	w.cutPower("n1")
	w.comesTo("n1", kubestate.RemStuck)
	w.with(func() { w.trouble.forbidden = "" })
	w.release(kubestate.RemCancelled)
	return h
}

// An operator sees that a machine lives whose device says off, and cancels. The device is not
// commanded again, and not believed when the machine falls silent, before or after.
func TestDeviceThatWasFoundOutIsNotBelievedAfterACancel(t *testing.T) {
	for _, silent := range []bool{false, true} {
		inWorld(t, 5, 2, func(w *world) {
			h := w.contradicts()
			w.with(func() { w.pcs["n1"].hidden = silent })
			w.pass(5 * time.Minute)
			w.release(kubestate.RemCancelled)
			w.pass(2 * time.Minute)
			w.heldAfter(h, "after-cancel", "of it was cancelled by me ")
			w.with(func() { w.pcs["n1"].hung, w.pcs["n1"].hidden = false, false })
			w.pass(5 * time.Minute)
			w.vanish("n1")
			w.pass(5 * time.Minute)
			w.heldAfter(h, "found-out", "device bmc says off, and its kubelet answers): look at its mapping with")
		})
	}
}

// The same where the machine is well again by itself, and another leader is the first to see it
// silent; until an operator says that the mapping is right.
func TestDeviceThatWasFoundOutIsNotBelievedOnceTheMachineWasBack(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		h := w.contradicts()
		w.with(func() { w.pcs["n1"].hung = false })
		w.comesTo("n1", kubestate.RemCancelled)
		w.pass(time.Minute)
		h.leave()
		w.vanish("n1")
		h = w.lead("h2", safe(), 0, 0)
		w.pass(5 * time.Minute)
		w.heldAfter(h, "found-out", "lets it be used again")
		v := w.ledger.view()
		if held, awaits := AwaitsWord(v, "k", "n1"); !awaits || held.Intent != w.remediations("n1")[0].Intent {
			t.Errorf("found-out: %v awaits a word: %v", held.Intent, awaits)
		}
		w.fault("n1", "")
		w.release(kubestate.RemFencing)
		w.comesTo("n1", kubestate.RemDetached)
	})
}

// What an operator cancelled is dead for good. Its pods stay where they are, also under
// another leader, until an operator lets it be fenced or the kube node was well again.
func TestNothingBeginsAfterACancel(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		h := w.cancelledDead()
		w.pass(5 * time.Minute)
		w.heldAfter(h, "after-cancel", "of it was cancelled by me ")
		h.leave()
		h = w.lead("h2", safe(), 0, 0)
		w.pass(5 * time.Minute)
		w.heldAfter(h, "after-cancel", "'trivet failover release n1 --to fencing' lets it be fenced before")
		w.release(kubestate.RemFencing)
		w.comesTo("n1", kubestate.RemDetached)
	})
}

// The next death of a kube node that was well again after the cancel is remedied, also by a
// leader that never saw it well.
func TestWellAgainEndsACancel(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		h := w.cancelledDead()
		w.pass(time.Minute)
		w.wake("n1")
		w.pass(5 * time.Minute)
		h.leave()
		w.cutPower("n1")
		w.lead("h2", safe(), 0, 0)
		w.pass(5 * time.Minute)
		if all := w.remediations("n1"); len(all) != 2 || w.state("n1") != kubestate.RemDetached {
			t.Errorf("well-again: %d remediations, the newest is %v\n%s", len(all), w.state("n1"), w.story())
		}
	})
}
