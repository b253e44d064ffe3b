package failover

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// vanish cuts a machine off from everything; its device says off of it since it was
// told so, and it runs on.
func (w *world) vanish(name string) {
	w.fault(name, deviceLies)
	w.hear(name, false, false)
}

// hear lets a machine be heard by the API server and by the peers, or keeps it from
// them.
func (w *world) hear(name string, api, peers bool) {
	w.with(func() { w.pcs[name].cut, w.pcs[name].hidden = !api, !peers })
}

// believedOff lets a machine that runs be believed off, and ends the leadership that
// believed it right after a deed.
func (w *world) believedOff(first *hand, deed string) {
	w.after(deed, first.end)
	w.vanish("n1")
	w.until(deed, 10*time.Minute, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.hooks[deed] == nil
	})
	first.leave()
}

// contradicted fails the test if a machine that runs and is heard lost anything, or
// keeps a mark by which Kubernetes would take something from it.
func (w *world) contradictedInTime() {
	w.t.Helper()
	last := w.remediations("n1")[0]
	taint := false
	w.with(func() {
		taint = slices.ContainsFunc(w.nodes["n1"].Taints, func(t Taint) bool { return t.Key == TaintOutOfService })
	})
	switch {
	case w.count("delete", "n1") > 0:
		w.t.Errorf("returning: %d pods of a machine that is heard were deleted\n%s", w.count("delete", "n1"), w.story())
	case taint:
		w.t.Errorf("returning: a machine that is heard stays out of service\n%s", w.story())
	case last.State != kubestate.RemStuck || !strings.HasPrefix(lastReason(last), contradiction):
		w.t.Errorf("returning: it is %v: %q\n%s", last.State, lastReason(last), w.story())
	}
}

// A machine that was cut off from everything, and whose device lies, is believed off.
// That ends with any sign of life, whoever leads then.
func TestMachineThatIsHeardAgainKeepsItsPods(t *testing.T) {
	for _, sign := range []struct {
		name       string
		api, peers bool
		also       func(p *pc)
	}{
		{name: "everything", api: true, peers: true},
		{name: "its Lease", api: true},
		{name: "its Lease alone", api: true, also: func(p *pc) { p.sick = true }},
		{name: "its kubelet", peers: true},
		{name: "its kernel", peers: true, also: func(p *pc) { p.hung = true }},
	} {
		for _, deed := range []string{"to off", "to tainted"} {
			for _, after := range []time.Duration{0, 30 * time.Second} {
				t.Run(strings.Join([]string{sign.name, deed, after.String()}, " "), func(t *testing.T) {
					inWorld(t, 5, 2, func(w *world) {
						first := w.lead("h1", safe(), 0, 0)
						w.pass(time.Minute)
						w.believedOff(first, deed)
						w.hear("n1", sign.api, sign.peers)
						if sign.also != nil {
							w.with(func() { sign.also(w.pcs["n1"]) })
						}
						w.pass(after)
						w.lead("h2", safe(), 0, 0)
						w.stuckOrEmptied("n1")
						w.pass(5 * time.Minute)
						w.contradictedInTime()
					})
				})
			}
		}
	}
}

// stuckOrEmptied waits until a machine's remediation goes on no further, or has taken
// all its work.
func (w *world) stuckOrEmptied(name string) {
	w.t.Helper()
	w.until(name+" is stuck or emptied", 10*time.Minute, func() bool {
		state := w.state(name)
		return state == kubestate.RemStuck || state == kubestate.RemDetached
	})
}

// The same leader goes on while peers hear a machine that is cut off from the API
// server alone. The proof of a batch that has begun may be five seconds old.
func TestMachineThatPeersHearKeepsItsPods(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.crowd(120)
		w.after("to off", func() { w.hear("n1", false, true) })
		w.vanish("n1")
		w.comesTo("n1", kubestate.RemStuck)
		w.pass(5 * time.Minute)
		w.contradictedInTime()
	})
}

// A kubelet that is too slow for the leader's question is heard by one peer alone: that
// is a sign, too. Nothing is done while the peers may still take it back.
func TestPeersThatHearAMachineAreWaitedFor(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		first := w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.believedOff(first, "to off")
		w.with(func() { w.pcs["n1"].slow, w.trouble.deaf = true, 2 })
		w.hear("n1", false, true)
		w.pass(30 * time.Second)
		w.lead("h2", safe(), 0, 0)
		w.comesTo("n1", kubestate.RemStuck)
		w.pass(5 * time.Minute)
		w.contradictedInTime()
		if last := lastReason(w.remediations("n1")[0]); !strings.Contains(last, "1 of 3 peers hear its kubelet") {
			t.Errorf("the reason is %q", last)
		}
	})
}

// A Node that becomes Ready is a sign, though its Lease is not renewed and no peer
// reaches it.
func TestMachineThatBecomesReadyKeepsItsPods(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		first := w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.believedOff(first, "to off")
		w.with(func() { w.pcs["n1"].leaseless = true })
		w.pass(time.Minute) // Kubernetes gives it up
		w.lead("h2", safe(), 0, 0)
		w.pass(5 * time.Second)
		w.hear("n1", true, false)
		w.comesTo("n1", kubestate.RemStuck)
		w.pass(5 * time.Minute)
		w.contradictedInTime()
	})
}

// A Node shows Ready for up to 55 s after its machine lost power. A leader that takes
// over meanwhile waits for the Lease, and no longer.
func TestReadyThatHasNotChangedIsNoSign(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		w.watchRules()
		w.with(func() { w.trouble.operator = true })
		first := w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.after("to off", first.end)
		w.cutPower("n1")
		w.comesTo("n1", kubestate.RemOff)
		first.leave()
		w.with(func() {
			if w.nodes["n1"].Ready != kubestate.ReadyTrue {
				t.Fatal("Ready is not what it was")
			}
		})
		w.lead("h2", safe(), 0, 0)
		w.until("its pods are deleted", 25*time.Second, func() bool { return w.state("n1") >= kubestate.RemDeleted })
		w.recovers()
		if got := w.path("n1"); got != straight {
			t.Errorf("it went %s", got)
		}
	})
}

// A device that reads power refutes that the machine is off. The taint goes at once,
// under a leader that does not know yet whether the machine lives: Kubernetes itself
// would go on to let go of what it runs.
func TestTaintGoesWhenTheDeviceReadsPower(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		first := w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.believedOff(first, "to tainted")
		w.fault("n1", "")
		w.lead("h2", safe(), 0, 0)
		w.until("the taint is gone", safe().Detection.LeaseAge/2, func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return !slices.ContainsFunc(w.nodes["n1"].Taints, func(t Taint) bool { return t.Key == TaintOutOfService })
		})
		if n := w.count("delete", "n1"); n > 0 {
			t.Errorf("returning: %d pods of a machine that has power were deleted\n%s", n, w.story())
		}
	})
}

// A machine is switched on in the moment in which it was tainted. The watch does not show
// the taint yet when its device reads power, and the machine is fenced again without it.
func TestTaintGoesThoughTheWatchIsBehind(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		var again, tainted bool
		w.after("to tainted", func() {
			w.with(func() { w.pcs["n1"].powerOn() })
			w.after("to fencing", func() {
				w.with(func() { again, tainted = true, slices.Contains(w.nodes["n1"].Taints, outOfService()) })
			})
		})
		w.cutPower("n1")
		w.comesTo("n1", kubestate.RemDetached)
		w.mu.Lock()
		defer w.mu.Unlock()
		if !again || tainted {
			t.Errorf("late-watch: fenced again: %v, with the taint: %v", again, tainted)
		}
	})
}

// A machine that is switched on after its power-off was logged, and is well before
// anything was tainted, keeps what it has and is not waited for.
func TestMachineThatIsBackBeforeItsTaint(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		first := w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.after("to off", first.end)
		w.cutPower("n1")
		w.comesTo("n1", kubestate.RemOff)
		first.leave()
		w.wake("n1")
		w.pass(time.Minute)
		w.lead("h2", safe(), 0, 0)
		w.until("its remediation has ended", lingering/2, func() bool { return w.state("n1").Ended() })
		if n := w.count("delete", "n1"); n > 0 {
			t.Errorf("returning: %d pods of it were deleted\n%s", n, w.story())
		}
	})
}

// A machine boots, becomes Ready and renews its Lease in the moment when it is switched
// off again. That is what it was before, and contradicts nothing.
func TestMachineThatBootsAsItIsSwitchedOff(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		w.with(func() { w.trouble.operator = true })
		first := w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.after("to tainted", first.end)
		w.cutPower("n1")
		w.comesTo("n1", kubestate.RemTainted)
		first.leave()
		w.with(func() {
			w.pcs["n1"].powerOn()
			w.pcs["n1"].up = time.Now().Add(time.Hour) // its kubelet starts below
		})
		w.after("switch off", func() {
			w.with(func() {
				n := w.nodes["n1"]
				n.BootID, n.Ready, n.renewed, n.lease = w.pcs["n1"].bootID(), kubestate.ReadyTrue, time.Now(), n.lease+1
				w.touch(n)
			})
		})
		w.lead("h2", safe(), 0, 0)
		w.recovers()
	})
}

// A packet filter keeps the peers from the kubelet of a machine that is back: its taints go
// when it has been well for long, which is said meanwhile, and not sooner. So do those that
// a remediation left which is forgotten.
func TestMachineThatNoPeerHearsReturns(t *testing.T) {
	inWorld(t, 5, 5, func(w *world) {
		w.put("n2", Taint{TaintCordon, "7", "NoSchedule"}, outOfService())
		w.with(func() { w.pcs["n2"].hidden = true })
		h := w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.cutPower("n1")
		w.comesTo("n1", kubestate.RemDetached)
		w.with(func() { w.pcs["n1"].hidden = true })
		w.wake("n1")
		w.pass(ownWord - time.Minute)
		w.waitsFor(h, "3 of 3 peers do not hear its kubelet: a packet filter may keep the peers from n1:10250")
		if len(w.taints("n1")) != 2 {
			t.Errorf("own-word: after %v it has %v", ownWord-time.Minute, w.taints("n1"))
		}
		w.until("the taints go", 4*time.Minute, func() bool { return len(w.taints("n1")) == 0 && len(w.taints("n2")) == 0 })
		if got := w.path("n1"); got != straight {
			t.Errorf("own-word: it went %s", got)
		}
	})
}

// A machine that no peer hears, and that is ill now and then, keeps its taints.
func TestOwnWordHasNoGaps(t *testing.T) {
	inWorld(t, 5, 5, func(w *world) {
		w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.cutPower("n1")
		w.comesTo("n1", kubestate.RemDetached)
		w.with(func() { w.pcs["n1"].hidden = true })
		w.wake("n1")
		for range 3 {
			w.pass(ownWord - time.Minute)
			w.sick("n1", true)
			w.pass(5 * time.Second)
			w.sick("n1", false)
		}
		if len(w.taints("n1")) != 2 {
			t.Errorf("own-word: it was never well for %v, and has %v", ownWord, w.taints("n1"))
		}
	})
}

// A machine that is back while its remediation waits, and that is taken into service by hand, dies again:
// its new work is moved, too. While our cordon is there it is none of that.
func TestMachineThatDiesAgainBeforeItsRemediationEnds(t *testing.T) {
	for _, cordoned := range []bool{false, true} {
		t.Run(fmt.Sprintf("cordoned %v", cordoned), func(t *testing.T) {
			inWorld(t, 5, 2, func(w *world) {
				w.watchRules()
				w.lead("h1", safe(), 0, 0)
				w.pass(time.Minute)
				w.cutPower("n1")
				w.comesTo("n1", kubestate.RemDetached)
				w.with(func() { w.pcs["n1"].hidden = true }) // a packet filter: it is waited for
				w.wake("n1")
				w.pass(2 * time.Minute)
				w.with(func() {
					n := w.nodes["n1"]
					n.Taints = slices.DeleteFunc(n.Taints, func(have Taint) bool { return !cordoned || have.Key != TaintCordon })
					w.touch(n)
					w.make("s-9", "n1")
				})
				w.pass(time.Minute)
				w.cutPower("n1")
				w.pass(10 * time.Minute)
				there := false
				w.with(func() { there = w.pods["s-9"] != nil && w.pods["s-9"].Node == "n1" })
				if all := w.remediations("n1"); there != cordoned || len(all) == 1 != cordoned {
					t.Errorf("died-again: its new work is there: %v, after %d remediations\n%s", there, len(all), w.story())
				}
			})
		})
	}
}
