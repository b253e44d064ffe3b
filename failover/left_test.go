package failover

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// otherModes are those in which nothing is done about what another configuration began.
func otherModes() map[string]Settings {
	off, dry := defaultSettings(), safe()
	dry.DryRun = true
	return map[string]Settings{"off": off, "noobaa": compatible(), "dry run": dry}
}

// leftAt lets a remediation of n1 come to a state, and its leader end.
func (w *world) leftAt(state kubestate.State) {
	w.t.Helper()
	first := w.lead("h1", safe(), 0, 0)
	w.pass(time.Minute)
	switch state {
	case kubestate.RemFencing:
		w.with(func() { w.pcs["n1"].fault = bothCannot })
		w.after("to fencing", first.end)
	case kubestate.RemTainted:
		w.with(func() { w.trouble.busy = "list pods" })
	}
	w.cutPower("n1")
	w.comesTo("n1", state)
	first.leave()
	w.with(func() { w.trouble.busy = "" })
}

// What was begun ends in each mode when its machine is back, and takes its marks along.
// Until then they stay, and no command is given.
func TestMarksDoNotOutliveTheMode(t *testing.T) {
	for name, s := range otherModes() {
		for _, state := range []kubestate.State{kubestate.RemFencing, kubestate.RemTainted, kubestate.RemDetached} {
			t.Run(name+" after "+state.String(), func(t *testing.T) {
				inWorld(t, 5, 5, func(w *world) {
					w.leftAt(state)
					offs, marks := w.count("off", ""), w.taints("n1")
					h := w.lead("h2", s, 0, 0)
					w.pass(5 * time.Minute)
					if have := w.taints("n1"); len(marks) == 0 || !slices.Equal(have, marks) || w.state("n1") != state {
						t.Errorf("left: while its machine is off it has %v, before %v; it is %v", have, marks, w.state("n1"))
					}
					if s.Mode != ModeOff {
						w.waitsFor(h, ": its taints stay until its machine is back")
					}
					w.wake("n1")
					w.until("the taints are gone", 10*time.Minute, func() bool { return len(w.taints("n1")) == 0 })
					w.until("it has ended", time.Minute, func() bool { return len(w.ledger.view().Remediations()) == 0 })
					if n := w.count("off", ""); n != offs {
						t.Errorf("left: %d commands were given\n%s", n-offs, w.story())
					}
					if n := w.count("delete", ""); n > 1 && s.Mode != ModeNooBaa {
						t.Errorf("left: %d pods were deleted\n%s", n, w.story())
					}
					w.with(func() { w.wrong = nil }) // mode noobaa proves nothing
				})
			})
		}
	}
}

// A Node that is deleted ends its remediation in each mode.
func TestLeftNodeThatIsDeleted(t *testing.T) {
	for name, s := range otherModes() {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 5, 5, func(w *world) {
				w.leftAt(kubestate.RemDetached)
				w.lead("h2", s, 0, 0)
				w.pass(2 * time.Minute)
				w.with(func() { delete(w.nodes, "n1") })
				w.comesTo("n1", kubestate.RemRecovered)
			})
		})
	}
}

// While the mode is off a cluster is opened for as long as something is left there.
func TestModeOffWatchesWhatIsLeft(t *testing.T) {
	off := defaultSettings()
	opened := func(w *world) (all []bool) {
		w.with(func() { all = slices.Clone(w.opened) })
		return all
	}
	inWorld(t, 5, 5, func(w *world) {
		h := w.lead("h1", off, 0, 0)
		w.pass(10 * time.Minute)
		if all := opened(w); len(all) > 0 {
			t.Errorf("left-off: nothing was begun ever, and the cluster was opened %d times", len(all))
		}
		h.leave()
		w.leftAt(kubestate.RemDetached)
		h = w.lead("h2", off, 0, 0)
		w.pass(10 * time.Minute)
		if all := opened(w); !slices.Equal(all, []bool{true}) {
			t.Errorf("left-off: with an open remediation the cluster was opened and closed %v", all)
		}
		w.wake("n1")
		w.pass(10 * time.Minute)
		if all := opened(w); !slices.Equal(all, []bool{true, false}) || len(w.taints("n1")) > 0 {
			t.Errorf("left-off: after it ended the cluster was opened and closed %v, and n1 has %v", all, w.taints("n1"))
		}
		h.leave()
		// An operator cancelled one whose machine was off: its marks are left.
		w.put("n2", Taint{TaintCordon, w.remediations("n1")[0].Intent.String(), "NoSchedule"}, outOfService())
		w.lead("h3", off, 0, 0)
		w.pass(5 * time.Minute)
		if all := opened(w); len(all) != 4 || all[3] || len(w.taints("n2")) > 0 {
			t.Errorf("left-off: of marks without a remediation the cluster was opened and closed %v, and n2 has %v", all,
				w.taints("n2"))
		}
	})
}

// A cluster is named no more: an operator is called, once, and may cancel. Named again it
// goes on where it was, without another power-off command.
func TestClusterThatIsNotNamedAnyMore(t *testing.T) {
	for name, s := range map[string]Settings{"safe": safe(), "off": defaultSettings()} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 5, 5, func(w *world) {
				w.watchRules()
				w.leftAt(kubestate.RemDetached)
				w.with(func() { w.unnamed = true })
				h := w.lead("h2", s, 0, 0)
				w.comesTo("n1", kubestate.RemStuck)
				w.pass(10 * time.Minute)
				all := w.remediations("n1")[0].Steps
				last := all[len(all)-1]
				if n := len(all); all[n-2].State != kubestate.RemDetached ||
					!strings.Contains(last.Reason, "failover.kubeconfigs of h2 names no cluster k") {
					t.Errorf("unnamed: its last steps are %+v", all[n-2:])
				}
				h.leave()
				w.with(func() { w.unnamed = false })
				w.lead("h3", safe(), 0, 0)
				w.comesTo("n1", kubestate.RemDetached)
				if n := w.count("off", "n1"); n != 1 {
					t.Errorf("unnamed: %d power-off commands\n%s", n, w.story())
				}
				w.wake("n1")
				w.recovers()
			})
		})
	}
	inWorld(t, 5, 5, func(w *world) {
		w.leftAt(kubestate.RemDetached)
		w.with(func() { w.unnamed = true })
		w.lead("h2", safe(), 0, 0)
		w.comesTo("n1", kubestate.RemStuck)
		w.ledger.must(kubestate.ReleaseRemediation{Intent: w.remediations("n1")[0].Intent, To: kubestate.RemCancelled,
			By: "me"})
		w.pass(10 * time.Minute)
		if w.state("n1") != kubestate.RemCancelled {
			t.Errorf("unnamed: an operator cancelled it, and it is %v", w.state("n1"))
		}
	})
}
