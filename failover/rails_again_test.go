package failover

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// lateRail is what begins to forbid a remediation of n1 that has begun, and what ends that.
type lateRail struct {
	name, says  string
	forbid      func(w *world, s *Settings)
	lift        func(w *world, s *Settings)
	before      func(w *world) // the remediation
	othersFirst bool           // n2 is being remedied
}

// labelled marks a kube node as one that is not to be looked after.
func labelled(n Node) bool { return n.Labels["ours"] != "no" }

func lateRails() []lateRail {
	node := func(w *world, change func(n *apiNode)) {
		w.with(func() {
			change(w.nodes["n1"])
			w.touch(w.nodes["n1"])
		})
	}
	return []lateRail{
		{name: "pause", says: "failover is paused",
			forbid: func(w *world, _ *Settings) { w.ledger.must(kubestate.PauseFailover{Paused: true}) },
			lift:   func(w *world, _ *Settings) { w.ledger.must(kubestate.PauseFailover{}) }},
		{name: "opt-out", says: "its annotation trivet.dev/failover-disabled is true",
			forbid: func(w *world, _ *Settings) {
				node(w, func(n *apiNode) { n.Annotations[AnnotationOptOut] = "true" })
			},
			lift: func(w *world, _ *Settings) {
				node(w, func(n *apiNode) { delete(n.Annotations, AnnotationOptOut) })
			}},
		{name: "opt-out that the watch does not show", says: "its annotation trivet.dev/failover-disabled is true",
			forbid: func(w *world, _ *Settings) {
				w.with(func() { w.nodes["n1"].Annotations[AnnotationOptOut] = "true" }) // no new version
			},
			lift: func(w *world, _ *Settings) {
				node(w, func(n *apiNode) { delete(n.Annotations, AnnotationOptOut) })
			}},
		{name: "selector of labels", says: "failover.node_selector does not select it",
			forbid: func(w *world, _ *Settings) {
				node(w, func(n *apiNode) { n.Labels = map[string]string{"ours": "no"} })
			},
			lift: func(w *world, _ *Settings) { node(w, func(n *apiNode) { n.Labels = nil }) }},
		{name: "selector of the settings", says: "failover.node_selector does not select it",
			forbid: func(_ *world, s *Settings) { s.Remedy.Nodes = func(n Node) bool { return n.Name != "n1" } },
			lift:   func(_ *world, s *Settings) { s.Remedy.Nodes = labelled }},
		{name: "cordon", says: "it is cordoned",
			forbid: func(w *world, _ *Settings) { node(w, func(n *apiNode) { n.Unschedulable = true }) },
			lift:   func(w *world, _ *Settings) { node(w, func(n *apiNode) { n.Unschedulable = false }) }},
		{name: "most are silent", says: "3 of 5 kube nodes are unhealthy together",
			forbid: func(w *world, _ *Settings) { w.hear("n2", false, false); w.hear("n3", false, false) },
			lift:   func(w *world, _ *Settings) { w.hear("n2", true, true); w.hear("n3", true, true) }},
		{name: "storm", says: "too many kube nodes were unhealthy together",
			forbid: func(w *world, _ *Settings) {
				lead := w.ledger.view().Leadership().Token
				hold := kubestate.HoldFailover{Cluster: "k", For: 20 * time.Minute, Reason: "a test"}
				w.ledger.do(fsm.Header{Token: lead}, hold)
			},
			lift: func(w *world, _ *Settings) { w.pass(15 * time.Minute) }},
		{name: "etcd's majority", says: "etcd needs 2",
			before: func(w *world) {
				w.with(func() {
					for _, name := range []string{"n1", "n2", "n3"} {
						w.nodes[name].ControlPlane = true
						w.touch(w.nodes[name])
					}
				})
			},
			forbid: func(w *world, _ *Settings) { w.sick("n2", true) },
			lift:   func(w *world, _ *Settings) { w.sick("n2", false) }},
		{name: "a peer runs on it", says: "runs on it",
			forbid: func(w *world, _ *Settings) { node(w, func(n *apiNode) { n.Addresses = []string{"192.0.2.200"} }) },
			lift:   func(w *world, _ *Settings) { node(w, func(n *apiNode) { n.Addresses = nil }) }},
		{name: "rate", says: "0 may (failover.node_rate)",
			forbid: func(_ *world, s *Settings) { s.Guard.NodeRate = 0 },
			lift:   func(_ *world, s *Settings) { s.Guard.NodeRate = 3 }},
	}
}

// A guard rail that begins to forbid after a remediation has begun, at any step before
// its machine was off, holds its command under the leader that began it and under the
// next one; its reason is what the verdict says; and without it the work goes on.
func TestGuardRailsAreAskedBeforeEachCommand(t *testing.T) {
	for _, rail := range append(lateRails(), lateBudgets()...) {
		for _, moment := range []string{"begin", "to cordoned", "to fencing", "stuck"} {
			for _, next := range []bool{false, true} {
				name := rail.name + "/" + moment
				if next {
					name += ", next leader"
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					inWorld(t, 5, 2, func(w *world) { w.meetsRail(rail, moment, next) })
				})
			}
		}
	}
}

func (w *world) meetsRail(rail lateRail, moment string, next bool) {
	w.watchRules()
	s := safe()
	s.Remedy.Nodes, s.Detection.NotReadyAfter = labelled, 0
	h := w.lead("h1", s, 0, 0)
	if rail.before != nil {
		rail.before(w)
	}
	w.pass(time.Minute)
	if rail.othersFirst {
		w.cutPower("n2")
		w.comesTo("n2", kubestate.RemDetached)
	}
	forbid := func() {
		rail.forbid(w, &s)
		h.c.Renew(s)
		w.pass(15 * time.Second) // until peers have noticed
	}
	var met atomic.Bool
	switch {
	case moment == "stuck":
		w.fault("n1", bothCannot)
	case next:
		w.after(moment, h.end)
	default:
		w.after(moment, func() { forbid(); met.Store(true) })
	}
	w.cutPower("n1")
	w.until(moment, 2*time.Minute, func() bool {
		return met.Load() || moment == "stuck" && w.state("n1") == kubestate.RemStuck || next && h.ended()
	})
	if next {
		h.leave()
		forbid()
		h = w.lead("h2", s, 0, 0)
	}
	if moment == "stuck" && !next {
		forbid()
	}
	w.fault("n1", "")
	w.pass(4 * time.Minute)
	w.holdsBack(h, rail.says)
	w.with(func() { w.trouble.operator = true })
	rail.lift(w, &s)
	h.c.Renew(s)
	w.recovers()
	if w.count("off", "n1") == 0 {
		w.t.Errorf("late-rail: its power was not taken when nothing forbade it any more\n%s", w.story())
	}
}

// holdsBack fails the test unless n1's open remediation waits, with a reason, and gave no
// command.
func (w *world) holdsBack(h *hand, says string) {
	w.t.Helper()
	if n := w.count("off", "n1"); n > 0 {
		w.t.Fatalf("late-rail: %d power-off commands were given against a guard rail\n%s", n, w.story())
	}
	w.waitsFor(h, says)
}

// waitsFor fails the test unless n1's open remediation waits, with a reason.
func (w *world) waitsFor(h *hand, says string) {
	w.t.Helper()
	all := h.c.Verdicts("k")
	i := slices.IndexFunc(all, func(v Verdict) bool { return v.Node.Name == "n1" })
	if i < 0 || all[i].Remediation == nil {
		w.t.Fatalf("late-rail: no remediation of n1 is open: %+v\n%s", all, w.story())
	}
	v := all[i]
	first, _, _ := strings.Cut(strings.Join(v.Why, "\n"), "\n")
	if v.Act || !strings.Contains(v.Would, "its remediation waits at") || !strings.Contains(first, says) {
		w.t.Errorf("why-it-waits: would %q, why %q, which is to begin with %q", v.Would, v.Why, says)
	}
}

// ended reports whether a leadership was ended by a hook.
func (h *hand) ended() bool {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	return h.over
}

// A device tries a command for minutes. A guard rail that begins to forbid meanwhile ends
// the tries: the device is back later, and the machine with it.
func TestGuardRailsEndTheTriesOfADevice(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		h := w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.fault("n1", deviceAway)
		w.cutPower("n1")
		w.comesTo("n1", kubestate.RemFencing)
		w.pass(10 * time.Second)
		w.ledger.must(kubestate.PauseFailover{Paused: true})
		w.pass(5 * time.Second)
		w.fault("n1", "")
		w.pass(2 * time.Minute)
		w.holdsBack(h, "failover is paused")
		w.with(func() { w.trouble.operator = true })
		w.ledger.must(kubestate.PauseFailover{})
		w.recovers()
	})
}

// A machine whose remediation is stuck returns, and the peers do not hear it. It is
// cordoned and restarted on purpose. What it was before it booted is over.
func TestMachineThatHasBootedIsJudgedAgain(t *testing.T) {
	for _, moment := range []string{"begin", "to cordoned", "to fencing", "stuck"} {
		t.Run(moment, func(t *testing.T) {
			inWorld(t, 5, 2, func(w *world) {
				h := w.lead("h1", safe(), 0, 0)
				w.pass(time.Minute)
				if moment == "stuck" {
					w.fault("n1", bothCannot)
				} else {
					w.after(moment, h.end)
				}
				w.cutPower("n1")
				w.until(moment, 2*time.Minute, func() bool { return h.ended() || w.state("n1") == kubestate.RemStuck })
				if moment != "stuck" {
					h.leave()
				}
				w.wake("n1")
				w.with(func() { w.pcs["n1"].hidden, w.pcs["n1"].sick = true, true }) // it is not Ready yet
				w.pass(12 * time.Second)
				w.with(func() {
					w.nodes["n1"].Unschedulable = true
					w.touch(w.nodes["n1"])
				})
				if moment != "stuck" {
					w.lead("h2", safe(), 0, 0)
				}
				w.cutPower("n1") // it restarts, and takes its time
				w.fault("n1", "")
				w.pass(4 * time.Minute)
				if n := w.count("off", "n1"); n > 0 {
					t.Errorf("judged-again: what was restarted on purpose was switched off %d times\n%s", n, w.story())
				}
				if m := w.remediations("n1")[0]; m.State != kubestate.RemCancelled {
					t.Errorf("judged-again: its remediation is %v\n%s", m.State, w.story())
				}
			})
		})
	}
}

// The work of a machine that was off goes on whatever forbids other power-offs by then,
// also where its device is lost and the next one has to prove the same.
func TestGuardRailsLetWhatIsOffFinish(t *testing.T) {
	for _, deed := range []string{"to off", "to tainted", "to deleted"} {
		for _, next := range []bool{false, true} {
			t.Run(deed, func(t *testing.T) {
				inWorld(t, 5, 2, func(w *world) {
					h := w.lead("h1", safe(), 0, 0)
					w.pass(time.Minute)
					met := make(chan struct{}) // closed by the hook
					w.after(deed, func() {
						w.fault("n1", deviceCannot)
						w.hear("n2", false, false)
						w.hear("n3", false, false)
						if next {
							h.end()
						}
						close(met)
					})
					w.cutPower("n1")
					<-met // in a bubble
					w.pass(20 * time.Second)
					if next {
						h.leave()
						w.lead("h2", safe(), 0, 0)
					}
					w.comesTo("n1", kubestate.RemDetached)
					if w.runs("s-1") == "n1" {
						t.Errorf("its work did not move\n%s", w.story())
					}
				})
			})
		}
	}
}

// A machine that was off is switched on by hand. Others have come to need it, so it is not
// switched off again, and recovers.
func TestGuardRailsHoldWhatHasPowerAgain(t *testing.T) {
	for _, next := range []bool{false, true} {
		inWorld(t, 5, 2, func(w *world) {
			w.with(func() {
				for _, name := range []string{"n1", "n2", "n3"} {
					w.nodes[name].ControlPlane = true
				}
			})
			h := w.lead("h1", safe(), 0, 0)
			w.pass(time.Minute)
			met := make(chan struct{}) // closed by the hook
			w.after("to tainted", func() {
				w.sick("n2", true)
				if next {
					h.end()
				}
				w.pass(time.Second)
				w.with(func() { w.pcs["n1"].powerOn() })
				close(met)
			})
			w.cutPower("n1")
			<-met // in a bubble
			if next {
				h.leave()
				h = w.lead("h2", safe(), 0, 0)
			}
			offs := w.count("off", "n1")
			w.until("its remediation has ended", 10*time.Minute, func() bool { return w.state("n1").Ended() })
			if n := w.count("off", "n1") - offs; n > 0 {
				t.Errorf("late-rail: it was switched off again %d times against a guard rail\n%s", n, w.story())
			}
		})
	}
}

// A machine that was off boots, and falls silent again. That is another death: it is
// judged by all signs and guard rails before it is switched off.
func TestMachineThatBootedSinceItWasOffIsJudgedAgain(t *testing.T) {
	for _, fault := range []string{"", bothCannot} { // also where no device reads that it has power
		inWorld(t, 5, 2, func(w *world) {
			w.leaderLostAt("to tainted", func() { w.cutPower("n1") })
			w.wake("n1")
			w.pass(30 * time.Second)
			w.with(func() {
				w.nodes["n1"].Annotations[AnnotationOptOut] = "true"
				w.touch(w.nodes["n1"])
			})
			w.hear("n1", false, false)
			w.fault("n1", fault)
			w.lead("h2", safe(), 0, 0)
			offs := w.count("off", "n1")
			w.pass(10 * time.Minute)
			if n := w.count("off", "n1") - offs; n > 0 {
				t.Errorf("judged-again: it was switched off %d times\n%s", n, w.story())
			}
			if m := w.remediations("n1")[0]; m.State != kubestate.RemRecovered {
				t.Errorf("judged-again: its remediation is %v\n%s", m.State, w.story())
			}
			w.with(func() {
				if slices.Contains(w.nodes["n1"].Taints, outOfService()) {
					t.Error("judged-again: a machine that runs stays out of service")
				}
			})
		})
	}
}

// No command at all is given to a machine that its operator has opted out: its power is
// not switched on either.
func TestOptOutHoldsPowerOn(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		s := safe()
		s.Remedy.PowerOn = true
		h := w.lead("h1", s, 0, 0)
		w.pass(time.Minute)
		w.after("to off", func() { w.with(func() { w.nodes["n1"].Annotations[AnnotationOptOut] = "true" }) })
		w.cutPower("n1")
		w.comesTo("n1", kubestate.RemDetached)
		w.pass(2 * time.Minute)
		if n := w.count("on", "n1"); n > 0 {
			t.Errorf("late-rail: it was switched on %d times", n)
		}
		all := h.c.Verdicts("k")
		if why := strings.Join(all[0].Why, "; "); !strings.Contains(why, "failover-disabled is true") {
			t.Errorf("why-it-waits: %q", why)
		}
		w.with(func() { delete(w.nodes["n1"].Annotations, AnnotationOptOut); w.touch(w.nodes["n1"]) })
		w.recovers()
		if n := w.count("on", "n1"); n != 1 {
			t.Errorf("it was switched on %d times", n)
		}
	})
}

// The budget of two that died together is asked of the second alone: else each would wait
// for the other.
func TestTwoThatDiedTogetherDoNotWaitForEachOther(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		w.with(func() { w.trouble.operator = true })
		w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.fault("n1", bothCannot)
		w.fault("n2", bothCannot)
		w.cutPower("n1", "n2")
		w.comesTo("n1", kubestate.RemStuck)
		w.comesTo("n2", kubestate.RemStuck)
		w.with(func() { w.trouble.exhausted, w.trouble.lacking = []string{"pdb"}, true })
		w.fault("n1", "")
		w.fault("n2", "")
		w.until("one has recovered", 10*time.Minute, func() bool {
			return w.state("n1").Ended() || w.state("n2").Ended()
		})
		if a, b := w.count("off", "n1"), w.count("off", "n2"); a > 0 && b > 0 && !w.well() {
			t.Errorf("late-rail: both were switched off against a budget\n%s", w.story())
		}
		w.recovers()
	})
}

// A pause that comes while leadership is proven, in the moment before the command is sent,
// holds it.
func TestPauseRightBeforeTheCommand(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		h := w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.after("to fencing", func() {
			w.after("confirm", func() { w.ledger.must(kubestate.PauseFailover{Paused: true}) })
		})
		w.cutPower("n1")
		w.comesTo("n1", kubestate.RemFencing)
		w.pass(time.Minute)
		w.holdsBack(h, "failover is paused")
		w.with(func() { w.trouble.operator = true })
		w.ledger.must(kubestate.PauseFailover{})
		w.recovers()
	})
}

// An opt-out that only the storage shows yet keeps a remediation from beginning.
func TestOptOutThatTheWatchDoesNotShow(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		h := w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.with(func() { w.nodes["n1"].Annotations[AnnotationOptOut] = "true" }) // no new version
		w.cutPower("n1")
		w.pass(40 * time.Second) // Ready is still True
		if all := w.remediations("n1"); len(all) > 0 {
			t.Errorf("late-rail: a remediation began\n%s", w.story())
		}
		if why := strings.Join(h.c.Verdicts("k")[0].Why, "; "); !strings.Contains(why, "failover-disabled is true") {
			t.Errorf("why-it-waits: %q", why)
		}
	})
}

// The remediation that is open does not count against its own rate.
func TestRateDoesNotCountTheOpenOne(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		s := safe()
		s.Guard.NodeRate = 1
		w.lead("h1", s, 0, 0)
		w.pass(time.Minute)
		w.cutPower("n1")
		w.comesTo("n1", kubestate.RemDetached)
	})
}

// A machine whose device was away is cut off from the API server alone by now: the peers
// hear it. It is not held for dead before not_ready_after, and neither commanded nor
// cancelled.
func TestMachineThatPeersHearIsNotSwitchedOff(t *testing.T) {
	for _, next := range []bool{false, true} {
		inWorld(t, 5, 2, func(w *world) {
			h := w.lead("h1", safe(), 0, 0)
			w.pass(time.Minute)
			w.fault("n1", bothCannot)
			w.cut(true, "n1")
			w.hear("n1", false, false)
			w.comesTo("n1", kubestate.RemStuck)
			if next {
				h.leave()
				h = w.lead("h2", safe(), 0, 0)
			}
			w.hear("n1", false, true)
			w.fault("n1", "")
			w.pass(2 * time.Minute)
			w.holdsBack(h, "3 of 3 peers hear its kubelet")
			w.until("Kubernetes' own word counts", 6*time.Minute, func() bool { return w.count("off", "n1") > 0 })
		})
	}
}
