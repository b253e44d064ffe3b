package failover

import (
	"fmt"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// movedBy is how long it may take after its power until the work of a machine that was shut
// down runs elsewhere.
const movedBy = 12 * time.Second

// shutDown has a machine shut down as systemd does it: its kubelet says so and ends the
// pods, then it is stopped, and after a moment the machine loses its power.
func (w *world) shutDown(name string, grace, after time.Duration) {
	w.shutsDown(name, grace)
	w.pass(after)
	w.cutPower(name)
}

// shutsDown is shutDown until the pods have ended.
func (w *world) shutsDown(name string, grace time.Duration) {
	w.with(func() {
		w.pcs[name].sick = true
		w.nodes[name].Stopping = true
	})
	w.pass(grace)
	w.with(func() { w.pcs[name].runs = make(map[string]string) })
}

// movedWithin returns how long it takes until the work of a machine runs elsewhere, and
// fails the test when that is longer than a bound.
func (w *world) movedWithin(name string, bound time.Duration) {
	w.t.Helper()
	began := time.Now()
	for w.count("delete", name) == 0 && time.Since(began) < 10*time.Minute { // in a bubble
		w.pass(50 * time.Millisecond)
	}
	if took := time.Since(began); took > bound { // in a bubble
		w.t.Errorf("shutdown: its work was moved after %v, at most %v\n%s", took, bound, w.story())
	}
}

// A machine that was shut down on purpose is moved within 12 s of its power, whatever was
// written on its Node by those who shut it down, and at any moment between two renewals of
// its Lease. It is not switched on again.
func TestShutdownIsMovedAtOnce(t *testing.T) {
	for name, on := range map[string]func(n *Node){
		"nothing else": func(*Node) {},
		"cordoned":     func(n *Node) { n.Unschedulable = true },
		"conditions": func(n *Node) {
			n.Conditions = map[string]Observed{conditionShutdown: ObservedTrue, "DrainInProgress": ObservedTrue}
		},
		"planned": func(n *Node) { n.Conditions = map[string]Observed{"MaintenancePlanned": ObservedTrue} },
	} {
		t.Run(name, func(t *testing.T) {
			phases := 2
			if name == "nothing else" {
				phases = 10
			}
			for i := range phases {
				inWorld(t, 5, uint64(i), func(w *world) {
					w.watchRules()
					s := safe()
					s.Remedy.PowerOn = true
					w.lead("h1", s, 0, 0)
					w.pass(time.Minute + time.Duration(i)*1100*time.Millisecond)
					w.with(func() {
						on(&w.nodes["n1"].Node)
						w.touch(w.nodes["n1"])
					})
					w.shutDown("n1", 20*time.Second, time.Duration(i)*200*time.Millisecond)
					w.movedWithin("n1", movedBy)
					w.comesTo("n1", kubestate.RemDetached)
					w.pass(10 * time.Minute)
					if n := w.count("on", "n1"); n > 0 {
						t.Errorf("shutdown: what was shut down on purpose was switched on %d times\n%s", n, w.story())
					}
					w.with(func() {
						w.nodes["n1"].Lifecycle = Lifecycle{}
						w.pcs["n1"].sick = false
						w.touch(w.nodes["n1"])
					})
					w.wake("n1")
					w.recovers()
				})
			}
		})
	}
}

// No command is given to a machine that still shuts down, for up to shutdownLimit: its pods are ending. What
// follows may take not_ready_after.
func TestShutdownIsWaitedFor(t *testing.T) {
	for _, row := range []struct {
		grace, after time.Duration
		late         bool   // one renewal is
		fault        string // of its device
	}{
		{4 * time.Minute, 0, false, ""}, {50 * time.Minute, 0, false, ""}, {12 * time.Minute, 0, true, ""},
		{12 * time.Minute, 4 * time.Minute, false, ""}, {12 * time.Minute, 0, false, deviceRemembers},
	} {
		inWorld(t, 5, 2, func(w *world) {
			w.watchRules()
			w.lead("h1", safe(), 0, 0)
			w.fault("n1", row.fault)
			w.pass(time.Minute)
			w.shutsDown("n1", row.grace)
			if row.late {
				w.with(func() { w.pcs["n1"].leaseless = true })
				w.pass(25 * time.Second)
				w.with(func() { w.pcs["n1"].leaseless = false })
				w.pass(20 * time.Second)
			}
			if row.after > 0 { // its kubelet ends first
				w.with(func() { w.pcs["n1"].up = time.Now().Add(row.after + time.Minute) })
			}
			w.pass(row.after)
			if n := w.count("off", "n1"); n > 0 {
				t.Fatalf("shutdown-ends: %d commands to a machine that ends its pods for %v\n%s", n, row.grace, w.story())
			}
			w.cutPower("n1")
			if row.fault == "" {
				w.movedWithin("n1", movedBy)
			}
			w.comesTo("n1", kubestate.RemDetached)
		})
	}
}

// One that hangs in its shutdown is fenced in the end: with its kubelet after shutdownLimit, without it after
// not_ready_after.
func TestShutdownThatHangsEnds(t *testing.T) {
	for _, alive := range []bool{true, false} {
		inWorld(t, 5, 2, func(w *world) {
			w.watchRules()
			w.lead("h1", safe(), 0, 0)
			w.pass(time.Minute)
			w.shutsDown("n1", 10*time.Minute)
			if bound := shutdownLimit - 10*time.Minute; alive {
				w.pass(bound - time.Minute)
			} else {
				w.with(func() { w.pcs["n1"].up = time.Now().Add(time.Hour) })
				w.pass(safe().Detection.NotReadyAfter - time.Minute)
			}
			if n := w.count("off", "n1"); n > 0 {
				t.Errorf("shutdown-hangs: %d commands too early\n%s", n, w.story())
			}
			w.pass(2 * time.Minute)
			if n := w.count("off", "n1"); n == 0 {
				t.Errorf("shutdown-hangs: it is waited for without a bound\n%s", w.story())
			}
		})
	}
}

// A machine that restarts is not moved: its devices never say off.
func TestRestartIsNoShutdown(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.restarts("n1", 90*time.Second, func(n *apiNode) { n.Unschedulable = true })
		w.pass(5 * time.Minute)
		if n := w.count("off", "n1"); n > 0 {
			t.Errorf("shutdown: %d commands to a machine that restarts\n%s", n, w.story())
		}
	})
}

// A machine that is fenced in its restart was not shut down on purpose: failover.power_on switches it on, as
// soon as no mark of an operator is there, also if Kubernetes' own condition of the shutdown is left.
func TestRestartThatIsFencedIsSwitchedOn(t *testing.T) {
	for name, on := range map[string]func(n *Node){
		"nothing else": func(*Node) {},
		"cordoned":     func(n *Node) { n.Unschedulable = true },
		"condition":    func(n *Node) { n.Conditions = map[string]Observed{conditionShutdown: ObservedTrue} },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 5, 2, func(w *world) {
				w.watchRules()
				s := safe()
				s.Remedy.PowerOn = true
				w.lead("h1", s, 0, 0)
				w.pass(time.Minute)
				w.restarts("n1", 20*time.Minute, func(n *apiNode) { on(&n.Node) })
				w.pass(4 * time.Minute)
				if n := w.count("off", "n1"); n > 0 {
					t.Errorf("restart-on: %d commands to a machine that restarts with its power on\n%s", n, w.story())
				}
				w.comesTo("n1", kubestate.RemDetached)
				w.pass(5 * time.Minute)
				if n := w.count("on", "n1"); n != 0 == (name == "cordoned") {
					t.Errorf("restart-on: %d commands to switch on what was fenced in its restart\n%s", n, w.story())
				}
				w.with(func() {
					w.nodes["n1"].Lifecycle = Lifecycle{}
					w.touch(w.nodes["n1"])
				})
				w.recovers()
			})
		})
	}
}

// What was off before its command is left off, and an operator is told.
func TestShutdownThatIsLeftOffIsTold(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		s := safe()
		s.Remedy.PowerOn = true
		h := w.lead("h1", s, 0, 0)
		w.pass(time.Minute)
		w.shutDown("n1", 20*time.Second, 0)
		w.comesTo("n1", kubestate.RemDetached)
		w.pass(20 * time.Minute)
		if on, told := w.count("on", "n1"), w.count("event FailoverPowerOn", "n1"); on != 0 || told != 1 {
			t.Errorf("left-off: %d commands and %d Events, want an Event\n%s", on, told, w.story())
		}
		w.waitsFor(h, "failover.power_on leaves it off")
	})
}

// A device that remembers an off of before proves none, whatever is written on the Node
// of a machine that restarts with its power on.
func TestRememberedOffIsNoShutdown(t *testing.T) {
	for name, on := range map[string]func(n *Node){
		"nothing else": func(*Node) {},
		"cordoned":     func(n *Node) { n.Unschedulable = true },
		"kured": func(n *Node) {
			n.Unschedulable = true
			n.Annotations["weave.works/kured-reboot-in-progress"] = "2026-01-01T00:00:00Z"
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 5, 2, func(w *world) {
				w.lead("h1", safe(), 0, 0)
				w.fault("n1", deviceRemembers)
				w.pass(time.Minute)
				away := 90 * time.Second
				if name == "nothing else" {
					away = 8 * time.Second // its Lease counts
				}
				w.restarts("n1", away, func(n *apiNode) { on(&n.Node) })
				w.pass(4 * time.Minute)
				if all := w.remediations("n1"); len(all) > 0 || w.count("off", "n1") > 0 {
					t.Errorf("remembered: a machine that restarts was acted on\n%s", w.story())
				}
			})
		})
	}
}

// restarts has a machine restart gracefully: its kubelet says so, and is away for a time.
func (w *world) restarts(name string, away time.Duration, also func(n *apiNode)) {
	w.with(func() {
		also(w.nodes[name])
		w.pcs[name].sick, w.nodes[name].Stopping = true, true
		w.touch(w.nodes[name])
	})
	w.pass(20 * time.Second)
	w.with(func() { // power stays on
		p := w.pcs[name]
		p.boots, p.up, p.runs, p.sick = p.boots+1, time.Now().Add(away), make(map[string]string), false
		w.nodes[name].Stopping = false
	})
}

// A machine that restarts by a power cycle is dark for seconds, and is not acted on, whatever
// is written on its Node. A mark that announces a restart holds for longer.
func TestPowerCycleIsNoShutdown(t *testing.T) {
	for _, row := range []struct {
		name string
		late time.Duration // after its kubelet
		dark time.Duration
		on   func(n *apiNode)
	}{
		{"nothing else", 0, 1500 * time.Millisecond, func(*apiNode) {}},
		{"nothing else", 0, 6 * time.Second, func(*apiNode) {}},
		{"nothing else", 2 * time.Minute, 6 * time.Second, func(*apiNode) {}},
		{"cordoned", 0, 1500 * time.Millisecond, func(n *apiNode) { n.Unschedulable = true }},
		{"cordoned", 0, 6 * time.Second, func(n *apiNode) { n.Unschedulable = true }},
		{"kured", 0, 2 * time.Minute, func(n *apiNode) {
			n.Annotations["weave.works/kured-reboot-in-progress"] = "2026-01-01T00:00:00Z"
		}},
		{"machine-config-daemon", 0, 2 * time.Minute, func(n *apiNode) {
			n.Annotations["machineconfiguration.openshift.io/state"] = "Working"
			n.Unschedulable = true
		}},
	} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprintf("%s, %v late, dark for %v, %d", row.name, row.late, row.dark, seed), func(t *testing.T) {
				inWorld(t, 5, seed, func(w *world) {
					w.lead("h1", safe(), 0, 0)
					w.pass(time.Minute + time.Duration(seed)*700*time.Millisecond)
					w.restarts("n1", time.Hour, row.on)
					w.pass(row.late)
					w.cutPower("n1")
					w.pass(row.dark)
					w.with(func() {
						w.pcs["n1"].powerOn()
						w.pcs["n1"].up = time.Now().Add(4 * time.Second)
					})
					w.pass(3 * time.Minute)
					if all := w.remediations("n1"); len(all) > 0 || w.count("off", "n1") > 0 {
						t.Errorf("power-cycle: a machine that restarts was acted on\n%s", w.story())
					}
				})
			})
		}
	}
}

// A machine that was shut down gets power in the moment before its command.
func TestShutdownIsReadBeforeTheCommand(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.with(func() {
			w.nodes["n1"].Unschedulable = true
			w.touch(w.nodes["n1"])
		})
		w.after("to fencing", func() { w.with(func() { w.pcs["n1"].powerOn() }) })
		w.shutDown("n1", 20*time.Second, 0)
		w.with(func() { w.pcs["n1"].sick, w.nodes["n1"].Stopping = false, false })
		w.pass(2 * time.Minute)
		if n := w.count("off", "n1"); n > 0 {
			t.Errorf("read-again: %d commands to a machine that was switched on\n%s", n, w.story())
		}
	})
}

// A machine in maintenance that was shut down stays as it is until the mark is gone.
func TestMaintenanceIsNoShutdown(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		w.watchRules()
		w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.with(func() {
			w.nodes["n1"].Conditions = map[string]Observed{"MaintenanceInProgress": ObservedTrue}
			w.touch(w.nodes["n1"])
		})
		w.shutDown("n1", 20*time.Second, 0)
		w.pass(30 * time.Minute)
		if n := w.count("off", "n1") + w.count("delete", "n1"); n > 0 {
			t.Fatalf("shutdown: %d deeds on a machine in maintenance\n%s", n, w.story())
		}
		w.with(func() {
			w.nodes["n1"].Conditions = nil
			w.touch(w.nodes["n1"])
		})
		w.comesTo("n1", kubestate.RemDetached)
	})
}

// A device that says off of another machine is not believed for what a kubelet announced:
// while the machine answers, or renews its Lease, or the leader never heard it, it lives.
func TestShutdownIsNotBelievedOfALiar(t *testing.T) {
	for name, happens := range map[string]func(p *pc){
		"it answers":          func(*pc) {},
		"its kernel answers":  func(p *pc) { p.hung = true },
		"it was never heard":  func(*pc) {},
		"no machine is heard": func(*pc) {},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 5, 2, func(w *world) {
				w.lead("h1", safe(), 0, 0)
				w.pass(time.Minute)
				w.with(func() {
					w.pcs["n1"].hidden = name == "it was never heard"
				})
				w.pass(10 * time.Second)
				w.with(func() {
					w.pcs["n1"].sick, w.nodes["n1"].Stopping = true, true
					w.pcs["n1"].fault = deviceSaysOff
				})
				w.pass(5 * time.Second)
				w.with(func() {
					for _, p := range w.machines() {
						p.slow = name == "no machine is heard" // by the leader
					}
					w.pcs["n1"].leaseless = name == "no machine is heard" // else a renewal may save it
					happens(w.pcs["n1"])
				})
				w.pass(12 * time.Second)
				if n := w.count("off", "n1") + w.count("delete", "n1"); n > 0 {
					t.Errorf("shutdown: a liar was believed\n%s", w.story())
				}
			})
		})
	}
}

// The leader is lost while a machine that was shut down loses its power, and at each step
// of what follows: the next one finishes, and nothing runs twice.
func TestShutdownAcrossLeaders(t *testing.T) {
	for _, moment := range []string{"begin", "to cordoned", "to fencing", "switch off", "to off", "to tainted"} {
		t.Run(moment, func(t *testing.T) {
			inWorld(t, 5, 2, func(w *world) {
				w.watchRules()
				h := w.lead("h1", safe(), 0, 0)
				w.pass(time.Minute)
				w.with(func() {
					w.nodes["n1"].Unschedulable = true
					w.touch(w.nodes["n1"])
				})
				w.after(moment, h.end)
				w.shutDown("n1", 20*time.Second, 0)
				w.until(moment, 2*time.Minute, h.ended)
				h.leave()
				w.lead("h2", safe(), 0, 0)
				w.comesTo("n1", kubestate.RemDetached)
			})
		})
	}
}

// Readings that come long after one another do not add up: the machine may have run between.
func TestReadingsFarApartAreNoShutdown(t *testing.T) {
	began := time.Now()
	s := shutdown{said: true, heard: true}
	for at := time.Duration(0); at <= time.Minute; at += offLife + time.Second {
		s.noteReading(began.Add(at), 0)
		if got := s.state(began.Add(at)); got.Off {
			t.Errorf("apart: after %v it is off", at)
		}
	}
	for at := time.Minute; at <= time.Minute+darkFor; at += time.Second {
		s.noteReading(began.Add(at), 0)
	}
	if got := s.state(began.Add(time.Minute + darkFor)); !got.Proven {
		t.Error("apart: readings of a second after one another are no proof")
	}
}
