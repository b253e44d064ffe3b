package failover

import (
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// A leader is lost in the middle of a remediation, and nobody leads for ten minutes.
// The machine boots meanwhile and works. The next leader looks first.
func TestReopenedRemediationOfAMachineThatWorks(t *testing.T) {
	for _, deed := range []string{"begin", "to cordoned", "to fencing", "switch off", "to off", "to tainted", "to deleted",
		"to detached"} {
		for name, hidden := range map[string]bool{"heard": false, "hidden from the peers": true} {
			t.Run(deed+" "+name, func(t *testing.T) {
				inWorld(t, 5, 2, func(w *world) {
					first := w.lead("h1", safe(), 0, 0)
					w.pass(time.Minute)
					w.after(deed, first.end)
					w.cutPower("n1")
					w.until("the leader is lost", 10*time.Minute, func() bool {
						w.mu.Lock()
						defer w.mu.Unlock()
						return w.hooks[deed] == nil
					})
					first.leave()
					w.wake("n1")
					w.with(func() { w.pcs["n1"].hidden = hidden })
					w.pass(10 * time.Minute)
					w.leavesAlone(func() { w.lead("h2", safe(), 0, 0) }, !hidden)
				})
			})
		}
	}
}

// leavesAlone lets a leader go on with the remediation of n1, which works, and fails
// the test if that costs it anything.
func (w *world) leavesAlone(goOn func(), ends bool) {
	w.t.Helper()
	offs, deletes := w.count("off", "n1"), w.count("delete", "n1")
	goOn()
	w.pass(lingering + 5*time.Minute) // its volumes are attached
	if n := w.count("off", "n1") - offs; n > 0 {
		w.t.Errorf("reopened: a machine that works was switched off %d times\n%s", n, w.story())
	}
	if n := w.count("delete", "n1") - deletes; n > 0 {
		w.t.Errorf("reopened: %d pods of a machine that works were deleted\n%s", n, w.story())
	}
	if ends && !w.state("n1").Ended() {
		w.t.Errorf("reopened: its remediation is still %v\n%s", w.state("n1"), w.story())
	}
}

// A backup holds a remediation that was open. The machine has worked since, or is ill
// by now: no command is given before an operator has released the remediation.
func TestFoundingLeavesRemediationsToAnOperator(t *testing.T) {
	for _, state := range []kubestate.State{kubestate.RemIntent, kubestate.RemCordoned, kubestate.RemFencing,
		kubestate.RemOff, kubestate.RemTainted, kubestate.RemDeleted, kubestate.RemDetached, kubestate.RemStuck} {
		for _, ill := range []bool{false, true} {
			t.Run(state.String(), func(t *testing.T) {
				inWorld(t, 5, 2, func(w *world) {
					w.ledger.reopen(w.nodes["n1"].Node, state)
					if ill {
						w.with(func() { w.pcs["n1"].sick, w.pcs["n1"].hidden = true, true })
					}
					w.pass(time.Minute)
					w.leavesAlone(func() { w.lead("h1", safe(), 0, 0) }, false)
					if !ill {
						return
					}
					if m := w.remediations("n1")[0]; m.State != kubestate.RemStuck || lastReason(m) != kubestate.HeldByFounding {
						t.Fatalf("reopened: it is %v: %q", m.State, lastReason(m))
					}
					w.ledger.must(kubestate.ReleaseRemediation{Intent: w.remediations("n1")[0].Intent, To: kubestate.RemFencing,
						By: "me"})
					w.until("the operator's word counts", 10*time.Minute, func() bool { return w.count("off", "n1") > 0 })
				})
			})
		}
	}
}

// A machine that was off has recovered when it has booted. One that is well again
// without having booted never was off, however long it is well.
func TestBackWithoutABootIsNoRecovery(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		s := safe()
		s.Guard.HealthyDelay = 5 * time.Second
		w.with(func() { // it has no work: a device that lies of a silent machine is not found out
			delete(w.pods, "s-1")
			delete(w.attached, "s-1")
			w.sets = w.sets[1:]
		})
		w.lead("h1", s, 0, 0)
		w.pass(time.Minute)
		w.vanish("n1")
		w.comesTo("n1", kubestate.RemDetached)
		w.hear("n1", true, true)
		w.pass(5 * time.Minute)
		if m := w.remediations("n1")[0]; m.State != kubestate.RemStuck || !contradicted(m) {
			t.Errorf("no-boot: a machine that never was off is %v: %q", m.State, lastReason(m))
		}
	})
}

// A device that can compare the UUID of its machine with that of the machine that died
// is told it at the first reading already, under any leader, and also when the Node has
// been deleted since.
func TestDeviceIsToldWhichMachineDied(t *testing.T) {
	for _, deed := range []string{"to off", "to tainted", "to deleted"} {
		for name, gone := range map[string]bool{"the Node is there": false, "the Node is gone": true} {
			t.Run(deed+" "+name, func(t *testing.T) {
				inWorld(t, 5, 2, func(w *world) {
					first := w.lead("h1", safe(), 0, 0)
					w.pass(time.Minute)
					w.after(deed, first.end)
					w.cutPower("n1")
					w.until("the leader is lost", 10*time.Minute, func() bool {
						w.mu.Lock()
						defer w.mu.Unlock()
						return w.hooks[deed] == nil
					})
					first.leave()
					w.with(func() {
						if gone {
							delete(w.nodes, "n1")
						}
					})
					second := w.lead("h2", safe(), 0, 0)
					w.pass(time.Minute)
					second.mu.Lock()
					defer second.mu.Unlock()
					if len(second.asked) == 0 {
						t.Fatal("the power was never read")
					}
					for i, uuid := range second.asked {
						if uuid != "uuid-of-n1" {
							t.Fatalf("which-machine: at reading %d the device is told the UUID %q", i+1, uuid)
						}
					}
				})
			})
		}
	}
}
