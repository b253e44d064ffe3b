package failover

import (
	"slices"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

type badDay struct {
	name     string
	settings func(*Settings)
	happens  func(w *world)
	path     string // in that of n1
	stays    bool   // not everything becomes well again
	also     func(w *world)
}

// fault sets what is wrong with a device.
func (w *world) fault(node, fault string) { w.with(func() { w.pcs[node].fault = fault }) }

func (w *world) comesTo(node string, s kubestate.State) {
	w.t.Helper()
	w.until(node+" is "+s.String(), 10*time.Minute, func() bool { return w.state(node) == s })
}

// cut parts kube nodes from the API server. Their kubelets answer.
func (w *world) cut(yes bool, names ...string) {
	w.with(func() {
		for _, name := range names {
			w.pcs[name].cut = yes
		}
	})
}

func badDays() []badDay {
	return slices.Concat(deviceDays(), lyingDays(), watchDays(), nodeDays(), powerDays(), goneDays(), clusterDays(),
		apiDays(), operatorDays())
}

func deviceDays() []badDay {
	return []badDay{
		{name: "the device lies about a machine that is cut off", stays: true, path: "fencing stuck",
			happens: func(w *world) {
				w.fault("n1", deviceLies)
				w.cut(true, "n1")
				w.comesTo("n1", kubestate.RemStuck)
				w.pass(5 * time.Minute)
			}, also: func(w *world) {
				switch {
				case w.count("delete", "n1") > 0, w.count("add "+TaintOutOfService, "n1") > 0:
					w.t.Errorf("a machine that lives lost its pods\n%s", w.story())
				case w.count("off", "n1") != 1:
					w.t.Errorf("a device that is contradicted was told %d times to switch off", w.count("off", "n1"))
				case w.count("event FailoverStuck", "n1") != 1:
					w.t.Errorf("nobody was told that it is stuck, or again and again: %d", w.count("event FailoverStuck", "n1"))
				case !strings.HasPrefix(lastReason(w.remediations("n1")[0]), contradiction):
					w.t.Errorf("the reason is %q", lastReason(w.remediations("n1")[0]))
				}
			}},
		{name: "what contradicted its device comes back", path: "fencing stuck cancelled", happens: func(w *world) {
			w.fault("n1", deviceLies)
			w.cut(true, "n1")
			w.comesTo("n1", kubestate.RemStuck)
			w.cut(false, "n1")
		}},
		{name: "the first device never answers", path: "fencing fencing off", happens: func(w *world) {
			w.fault("n1", deviceHangs)
			w.cutPower("n1")
		}},
		{name: "the first device cannot", path: "fencing fencing off", happens: func(w *world) {
			w.fault("n1", deviceCannot)
			w.cutPower("n1")
		}},
		{name: "no device works, then one does", path: "fencing fencing stuck fencing", happens: func(w *world) {
			w.fault("n1", bothCannot)
			w.cutPower("n1")
			w.comesTo("n1", kubestate.RemStuck)
			if last := lastReason(w.remediations("n1")[0]); !strings.Contains(last, "bmc: ") ||
				!strings.Contains(last, "not supported in present state") || !strings.Contains(last, "pdu: ") {
				w.t.Errorf("the reason is %q", last)
			}
			w.fault("n1", "")
		}},
		{name: "the machine takes its time", path: straight, happens: func(w *world) {
			w.fault("n1", deviceLate)
			w.cut(true, "n1")
			w.comesTo("n1", kubestate.RemDetached)
			w.cut(false, "n1")
		}},
		{name: "the device says off once too early", path: straight, happens: func(w *world) {
			w.fault("n1", deviceBlinks)
			w.cut(true, "n1")
			w.comesTo("n1", kubestate.RemDetached)
			w.cut(false, "n1")
		}},
	}
}

func nodeDays() []badDay {
	return []badDay{
		{name: "cut off and alive", path: straight, happens: func(w *world) {
			w.cut(true, "n1")
			w.comesTo("n1", kubestate.RemDetached)
			w.cut(false, "n1")
		}},
		{name: "back while it is fenced", path: "fencing cancelled", happens: func(w *world) {
			w.fault("n1", deviceHangs)
			w.cut(true, "n1")
			w.comesTo("n1", kubestate.RemFencing)
			w.cut(false, "n1")
		}, also: func(w *world) {
			if w.count("off", "n1") > 0 {
				w.t.Error("a machine that had come back was switched off")
			}
		}},
		{name: "back at the moment of the intent", happens: func(w *world) {
			w.after("begin", func() {
				w.wake("n1")
				w.pass(modelTick)
			})
			w.cutPower("n1")
			w.until("it has ended", time.Minute, func() bool { return w.state("n1").Ended() })
		}, path: "intent cancelled", also: func(w *world) {
			if w.count("add "+TaintCordon, "n1")+w.count("off", "n1") > 0 {
				w.t.Errorf("a kube node that was back was acted on\n%s", w.story())
			}
		}},
		{name: "its network is back at the moment of the intent", happens: func(w *world) {
			w.after("begin", func() {
				w.cut(false, "n1")
				w.pass(2 * modelTick)
			})
			w.cut(true, "n1")
			w.comesTo("n1", kubestate.RemCancelled)
		}, path: "intent cancelled", also: func(w *world) {
			if w.count("add "+TaintCordon, "n1")+w.count("off", "n1") > 0 {
				w.t.Errorf("a kube node that was back was acted on\n%s", w.story())
			}
		}},
	}
}

func powerDays() []badDay {
	return []badDay{
		{name: "switched on after off was logged", path: "off fencing", happens: func(w *world) {
			w.after("to off", func() { w.wake("n1") })
			w.cutPower("n1")
			w.comesTo("n1", kubestate.RemDetached)
		}},
		{name: "switched on after the taint, before the deletions", path: "tainted fencing", happens: func(w *world) {
			w.after("to tainted", func() {
				w.with(func() { w.pcs["n1"].powerOn() })
				w.pass(8 * time.Second)
			})
			w.cutPower("n1")
			w.comesTo("n1", kubestate.RemDetached)
		}},
		{name: "well again after the taint, before the deletions", path: "tainted recovered", happens: func(w *world) {
			w.after("to tainted", func() {
				w.wake("n1")
				w.pass(2 * time.Second) // the peers hear it again
			})
			w.cutPower("n1")
			w.comesTo("n1", kubestate.RemRecovered)
		}, also: func(w *world) {
			if w.count("delete", "n1") > 0 {
				w.t.Error("pods of a kube node that was well were deleted")
			}
		}},
		{name: "switched on between the list of pods and the deletion", happens: func(w *world) {
			w.after("list pods", func() { w.wake("n1"); w.pass(2 * modelTick) })
			w.cutPower("n1")
			w.comesTo("n1", kubestate.RemFencing)
		}},
		{name: "the pod is made anew between the list of pods and the deletion", path: straight, happens: func(w *world) {
			w.after("list pods", func() {
				w.with(func() { delete(w.pods, "s-1") })
				w.pass(3 * modelTick)
			})
			w.cutPower("n1")
		}, also: func(w *world) {
			if n := w.count("delete", ""); n != 0 {
				w.t.Errorf("%d pods were deleted that had only the name of the one that was read", n)
			}
		}},
	}
}

func goneDays() []badDay {
	return []badDay{
		{name: "the Node is deleted while it is off", path: "recovered", happens: func(w *world) {
			w.after("to off", func() { w.with(func() { delete(w.nodes, "n1") }) })
			w.cutPower("n1")
			w.until("it has ended", time.Minute, func() bool { return w.state("n1").Ended() })
		}},
		{name: "the Node is deleted before it is off", path: "cancelled", happens: func(w *world) {
			w.fault("n1", deviceHangs)
			w.cutPower("n1")
			w.comesTo("n1", kubestate.RemFencing)
			w.with(func() { delete(w.nodes, "n1") })
			w.until("it has ended", 2*time.Minute, func() bool { return w.state("n1").Ended() })
		}},
		{name: "another Node takes its name", path: "recovered", happens: func(w *world) {
			w.after("to tainted", func() {
				w.wake("n1")
				w.with(func() { w.register(w.pcs["n1"]) })
			})
			w.cutPower("n1")
			w.until("it has ended", time.Minute, func() bool { return w.state("n1").Ended() })
		}, also: func(w *world) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, d := range w.audit {
				if d.uid == w.nodes["n1"].UID {
					w.t.Errorf("the new Node was touched: %v", d)
				}
			}
		}},
	}
}

func clusterDays() []badDay {
	return []badDay{
		{name: "two at once", path: straight, happens: func(w *world) { w.cutPower("n1", "n2") }, also: func(w *world) {
			if w.path("n2") != straight {
				w.t.Errorf("n2 went %q", w.path("n2"))
			}
		}},
		{name: "two at once with an exhausted budget", happens: func(w *world) {
			w.with(func() { w.trouble.exhausted, w.trouble.lacking = []string{"apps/web"}, true })
			w.cutPower("n1", "n2")
			w.until("one is detached", 2*time.Minute,
				func() bool { return w.state("n1") == kubestate.RemDetached || w.state("n2") == kubestate.RemDetached })
			if w.state("n1") != 0 && w.state("n2") != 0 {
				w.t.Error("a budget that is exhausted did not keep the second one")
			}
			w.with(func() { w.trouble.exhausted = nil })
		}},
		{name: "three of five", stays: true, happens: func(w *world) {
			w.cutPower("n1", "n2", "n3")
			w.pass(10 * time.Minute)
		}, also: func(w *world) {
			if len(w.ledger.view().RemediationHistory(0)) > 0 {
				w.t.Errorf("most of them were down, and something was done\n%s", w.story())
			}
		}},
	}
}

func apiDays() []badDay {
	return []badDay{
		{name: "the API server is silent for 30 s", happens: func(w *world) {
			w.with(func() { w.trouble.silent = true })
			w.pass(30 * time.Second)
			w.with(func() { w.trouble.silent = false })
			w.pass(2 * time.Minute)
		}, also: func(w *world) {
			if len(w.ledger.view().RemediationHistory(0)) > 0 {
				w.t.Errorf("something was done\n%s", w.story())
			}
		}},
		{name: "the API server is silent while it is fenced", path: "fencing off tainted deleted detached recovered",
			happens: func(w *world) {
				w.cutPower("n1")
				w.comesTo("n1", kubestate.RemFencing)
				w.with(func() { w.trouble.silent = true })
				w.pass(10 * time.Minute) // longer than a step is tried
				w.with(func() { w.trouble.silent = false })
			}},
		{name: "a verb is missing", path: "tainted stuck fencing off tainted deleted", happens: func(w *world) {
			w.with(func() { w.trouble.forbidden = "delete pod" })
			w.cutPower("n1")
			w.comesTo("n1", kubestate.RemStuck)
			if last := lastReason(w.remediations("n1")[0]); !strings.Contains(last, "cannot delete pod") {
				w.t.Errorf("the reason does not name the verb: %q", last)
			}
			w.with(func() { w.trouble.forbidden = "" })
		}},
		{name: "another writer drops our taints", path: straight, happens: func(w *world) {
			w.with(func() { w.trouble.losesTaint = 2 })
			w.cutPower("n1")
		}, also: func(w *world) {
			if n := w.count("add "+TaintOutOfService, "n1"); n < 2 {
				w.t.Errorf("the taint was set %d times", n)
			}
		}},
	}
}

func operatorDays() []badDay {
	return []badDay{
		{name: "out of service by an operator", happens: func(w *world) {
			theirs := Taint{TaintOutOfService, "nodeshutdown", "NoExecute"}
			w.cutPower("n1")
			w.with(func() { n := w.nodes["n1"]; n.Taints = append(n.Taints, theirs); w.touch(n) })
			w.until("only theirs is left", 10*time.Minute, func() bool { return w.state("n1") == kubestate.RemRecovered })
			w.with(func() {
				if !slices.Equal(w.nodes["n1"].Taints, []Taint{theirs}) {
					w.t.Errorf("the taints are %v", w.nodes["n1"].Taints)
				}
				w.nodes["n1"].Taints = nil
			})
		}},
		{name: "deletions fail", path: straight, happens: func(w *world) {
			w.with(func() { w.trouble.failDelete = 3 })
			w.cutPower("n1")
		}},
		{name: "a pause holds a power-off", path: "cancelled", happens: func(w *world) {
			w.fault("n1", deviceHangs)
			w.cut(true, "n1")
			w.comesTo("n1", kubestate.RemFencing)
			w.ledger.must(kubestate.PauseFailover{Paused: true, By: "me"})
			w.pass(5 * time.Minute)
			if w.count("off", "n1") > 0 {
				w.t.Error("its power was taken during a pause")
			}
			w.cut(false, "n1")
			w.pass(20 * time.Second)
			w.ledger.must(kubestate.PauseFailover{})
		}},
		{name: "a machine is switched on again", path: straight, settings: func(s *Settings) { s.Remedy.PowerOn = true },
			happens: func(w *world) {
				w.with(func() { w.trouble.operator = false })
				w.cutPower("n1")
			}, also: func(w *world) {
				if w.count("on", "n1") != 1 {
					w.t.Errorf("it was switched on %d times", w.count("on", "n1"))
				}
			}},
		{name: "a dry run", stays: true, settings: func(s *Settings) { s.DryRun = true }, happens: func(w *world) {
			w.cutPower("n1")
			w.pass(10 * time.Minute)
		}, also: func(w *world) {
			if len(w.audit) > 0 || len(w.ledger.view().RemediationHistory(0)) > 0 {
				w.t.Errorf("something was done\n%s", w.story())
			}
		}},
	}
}
