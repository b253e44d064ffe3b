package failover

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// lyingDays are those of a device that is mapped to another machine: it says off,
// and the machine of the kube node runs on. Whatever sign of life is left has to be
// enough.
func lyingDays() []badDay {
	return []badDay{
		{name: "it renews its Lease, and its port is hidden", stays: true, path: "fencing stuck", happens: func(w *world) {
			w.illAndHidden("n1")
			w.comesTo("n1", kubestate.RemStuck)
			w.pass(10 * time.Minute)
		}, also: (*world).keptItsPods},
		{name: "another leader takes over while the Lease is waited for", stays: true, path: "stuck",
			happens: func(w *world) {
				w.illAndHidden("n1")
				w.comesTo("n1", kubestate.RemFencing)
				w.until("it is read off", time.Minute, func() bool { return w.readOff("n1") })
				w.pass(2 * time.Second)
				w.handOver()
				w.comesTo("n1", kubestate.RemStuck)
				w.pass(10 * time.Minute)
			}, also: (*world).keptItsPods},
		{name: "another leader finds the contradiction in the log", stays: true, path: "fencing stuck",
			happens: func(w *world) {
				w.illAndHidden("n1")
				w.comesTo("n1", kubestate.RemStuck)
				w.handOver()
				w.pass(10 * time.Minute)
			}, also: (*world).keptItsPods},
		{name: "it was contradicted, then it falls silent", stays: true, path: "fencing stuck", happens: func(w *world) {
			w.illAndHidden("n1")
			w.comesTo("n1", kubestate.RemStuck)
			w.cut(true, "n1")
			w.with(func() { w.trouble.forbidden = "get node" }) // and other errors come in between
			w.pass(3 * time.Minute)
			w.with(func() { w.trouble.forbidden = "" })
			w.pass(10 * time.Minute)
		}, also: (*world).keptItsPods},
		{name: "the watch of Leases stands still", stays: true, path: "fencing stuck", happens: func(w *world) {
			w.illAndHidden("n1")
			w.comesTo("n1", kubestate.RemFencing)
			w.with(func() { w.trouble.noLeases = true })
			w.comesTo("n1", kubestate.RemStuck)
			w.pass(10 * time.Minute)
		}, also: (*world).keptItsPods},
		{name: "it is switched on while its Lease is waited for", path: "fencing fencing", happens: func(w *world) {
			w.with(func() { w.pcs["n1"].sick, w.pcs["n1"].hidden = true, true })
			w.comesTo("n1", kubestate.RemFencing)
			w.until("it is read off", time.Minute, func() bool { return w.readOff("n1") })
			w.pass(2 * time.Second)
			w.with(func() { w.pcs["n1"].powerOn() })
			w.comesTo("n1", kubestate.RemDetached)
			w.with(func() { w.pcs["n1"].sick, w.pcs["n1"].hidden = false, false })
		}},
		{name: "its kubelet hangs, its kernel answers", stays: true, path: "fencing stuck", happens: func(w *world) {
			w.fault("n1", deviceLies)
			w.with(func() { w.pcs["n1"].hung = true })
			w.comesTo("n1", kubestate.RemStuck)
			w.pass(10 * time.Minute)
		}, also: (*world).keptItsPods},
		{name: "it hung while it was read off, and goes on", stays: true, path: "fencing off stuck", happens: func(w *world) {
			w.fault("n1", deviceLies)
			w.with(func() { w.pcs["n1"].hung, w.pcs["n1"].hidden = true, true })
			w.after("to off", func() {
				w.with(func() { w.pcs["n1"].hung = false })
				w.pass(5 * modelTick)
			})
			w.comesTo("n1", kubestate.RemStuck)
			w.pass(10 * time.Minute)
		}, also: (*world).keptItsPods},
	}
}

// watchDays are those of a watch that stands still while the API server answers.
func watchDays() []badDay {
	untouched := func(w *world) {
		if all := w.remediations("n1"); len(all) > 0 || w.count("off", "") > 0 {
			w.t.Errorf("stale-watch: a machine that is well was acted on\n%s", w.story())
		}
	}
	return []badDay{
		{name: "the watch of Nodes stands still", stays: true, happens: func(w *world) {
			w.with(func() { w.pcs["n1"].sick = true })
			w.pass(2 * time.Second)
			w.with(func() { w.trouble.noNodes, w.pcs["n1"].sick = true, false })
			w.pass(20 * time.Minute)
		}, also: untouched},
		{
			name: "the watch of Leases stands still, and a port is hidden", stays: true,
			settings: func(s *Settings) { s.Guard.MinHealthy = percent(0) },
			happens: func(w *world) {
				w.with(func() { w.trouble.noLeases, w.pcs["n1"].hidden = true, true })
				w.pass(20 * time.Minute)
			}, also: untouched,
		},
		{name: "a rack is cut off from the API server alone", stays: true, happens: func(w *world) {
			w.cut(true, "n1", "n2")
			w.pass(20 * time.Minute)
			if w.count("off", "") > 0 {
				w.t.Errorf("cut-off: machines that all peers hear were switched off\n%s", w.story())
			}
			w.cut(false, "n1", "n2")
			w.pass(time.Minute)
		}, also: untouched},
	}
}

// illAndHidden gives a kube node a device that lies. Its kubelet says that it is not
// Ready, renews its Lease every ten seconds, and no peer reaches its port.
func (w *world) illAndHidden(name string) {
	w.fault(name, deviceLies)
	w.with(func() { w.pcs[name].sick, w.pcs[name].hidden = true, true })
}

// readOff reports whether a device said off since the newest command.
func (w *world) readOff(name string) (off bool) {
	w.with(func() { off = slices.ContainsFunc(w.pcs[name].reads, func(r reading) bool { return r.off }) })
	return off
}

// handOver ends the newest leadership and lets another peer lead.
func (w *world) handOver() {
	old := w.hands[len(w.hands)-1]
	old.leave()
	w.lead("h2", old.c.o.Settings, 0, 0)
}

// keptItsPods fails the test if a machine that runs lost anything but its place in
// the schedule.
func (w *world) keptItsPods() {
	w.t.Helper()
	last := w.remediations("n1")[0]
	switch {
	case w.count("delete", "n1") > 0, w.count("add "+TaintOutOfService, "n1") > 0:
		w.t.Errorf("lying: a machine that lives lost its pods\n%s", w.story())
	case w.count("off", "n1") != len(w.hands) && w.count("off", "n1") != 1:
		w.t.Errorf("lying: a device that is contradicted was told %d times to switch off\n%s", w.count("off", "n1"),
			w.story())
	case last.State != kubestate.RemStuck || !strings.HasPrefix(lastReason(last), contradiction):
		w.t.Errorf("lying: it is %v: %q", last.State, lastReason(last))
	}
}

// A machine whose kubelet was alive a moment ago is believed to be off only after
// its Lease was not renewed for lease_age: then its work moves.
func TestIllMachineIsFencedAfterItsLeaseIsSilent(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		w.watchRules()
		w.with(func() { w.trouble.operator = true })
		w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.with(func() { w.pcs["n1"].sick, w.pcs["n1"].hidden = true, true })
		var dark, off time.Time
		w.until("its power is gone", 10*time.Minute, func() bool {
			w.with(func() {
				if !w.pcs["n1"].on {
					dark = time.Now()
				}
			})
			return !dark.IsZero()
		})
		w.with(func() { w.pcs["n1"].sick, w.pcs["n1"].hidden = false, false })
		w.until("it is off in the log", time.Minute, func() bool { return w.state("n1") >= kubestate.RemOff })
		off = time.Now()
		const silence = 17 * time.Second // of the Lease, at most ten seconds old when power was taken
		if waited := off.Sub(dark); waited < silence-modelRenew || waited > silence+5*time.Second {
			t.Errorf("lease-silence: off was logged %v after the power was gone", waited)
		}
		w.recovers()
	})
}

// A Node that told the cluster's virtual address: another machine answers there when its own one is dead. Its power is
// not taken, which would make a liar of its device; where it was taken before, the operator is told whose kubelet it
// may be.
func TestAnotherMachineAnswersAtItsAddress(t *testing.T) {
	for _, moment := range []string{"before", "switch off"} {
		t.Run(moment, func(t *testing.T) {
			inWorld(t, 5, 2, func(w *world) {
				w.lead("h1", safe(), 0, 0)
				w.pass(time.Minute)
				moved := func() {
					w.with(func() {
						w.nodes["n1"].Kubelet, w.nodes["n2"].Addresses = "n2:10250", []string{"n2"}
						w.touch(w.nodes["n1"])
						w.touch(w.nodes["n2"])
					})
				}
				if moment == "before" {
					moved()
					w.cutPower("n1")
					w.pass(15 * time.Minute)
					if n := w.count("off", "n1"); n > 0 || len(w.remediations("n1")) > 0 {
						t.Errorf("shared-address: %d commands\n%s", n, w.story())
					}
					return
				}
				w.after(moment, moved)
				w.cutPower("n1")
				w.comesTo("n1", kubestate.RemStuck)
				if why := lastReason(w.remediations("n1")[0]); !strings.Contains(why, "or that of Node n2") {
					t.Errorf("shared-address: stuck: %s", why)
				}
			})
		})
	}
}
