package failover

import (
	"slices"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// step returns when the newest remediation of a node came to a state.
func (w *world) step(node string, s kubestate.State) fsm.Time {
	all := w.remediations(node)
	for _, step := range all[len(all)-1].Steps {
		if step.State == s {
			return step.At
		}
	}
	w.t.Fatalf("%s never was %v", node, s)
	return 0
}

// What depends on neither reading of the power costs no time of its own: from the command
// to `off` it takes the second between the readings and little more. The command stays
// after its announcement, and all that is looked at between the command and `off`.
func TestFencingOverlaps(t *testing.T) {
	inWorld(t, 3, 1, func(w *world) {
		w.watchRules()
		h := w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.cutPower("n1")
		w.comesTo("n1", kubestate.RemDetached)
		const least, most = modelConfirm, modelConfirm + 300*time.Millisecond
		if took := time.Duration(w.step("n1", kubestate.RemOff) - w.step("n1", kubestate.RemFencing)); took < least ||
			took > most {
			t.Errorf("overlap: off was logged %v after the command was, want %v to %v", took, least, most)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		command, off := slices.Index(h.deeds, "switch off"), slices.Index(h.deeds, "to off")
		if slices.Index(h.deeds, "to fencing") > command || command > off {
			t.Fatalf("overlap: the command is out of order: %v", h.deeds)
		}
		for deed, times := range map[string]int{"read power": 2, "knock": 1, "get lease": 1, "get node": 1} {
			n := 0
			for _, d := range h.deeds[command:off] {
				if d == deed {
					n++
				}
			}
			if n < times {
				t.Errorf("overlap: between the command and off there were %d times %q, want %d: %v", n, deed, times,
					h.deeds[command:off])
			}
		}
	})
}

// renew lets the Lease of a node be renewed now.
func (w *world) renew(name string) {
	w.with(func() { w.nodes[name].lease, w.nodes[name].renewed = w.nodes[name].lease+1, time.Now() })
}

// The leader is lost in the middle of the overlap, and at the same moment the machine,
// whose device lies and whose port is hidden, renews its Lease: the next leader believes
// nothing that the first one saw.
func TestLeaderLostInTheOverlap(t *testing.T) {
	for _, deed := range []string{"read power", "knock", "get lease", "get node"} {
		t.Run(deed, func(t *testing.T) {
			inWorld(t, 5, 2, func(w *world) {
				w.watchRules()
				h := w.lead("h1", safe(), 0, 0)
				w.pass(time.Minute)
				lost := false
				w.after("switch off", func() {
					w.after(deed, func() {
						w.renew("n1")
						h.end()
						w.with(func() { lost = true })
					})
				})
				w.illAndHidden("n1")
				w.until("the leader is lost", 10*time.Minute, func() (is bool) {
					w.with(func() { is = lost })
					return is
				})
				h.leave()
				if s := w.state("n1"); s != kubestate.RemFencing {
					t.Fatalf("overlap: the leader that was lost left it %v", s)
				}
				w.lead("h2", safe(), 0, 0)
				w.comesTo("n1", kubestate.RemStuck)
				w.pass(time.Minute)
				w.keptItsPods()
			})
		})
	}
}

// The Lease is renewed after the leader has read it and before the command goes out, and
// again while the power is read, by a machine whose device lies: it is not believed off.
func TestLeaseRenewedBeforeTheCommand(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		w.watchRules()
		w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.after("to fencing", func() {
			w.after("get lease", func() { w.renew("n1") })
			w.after("switch off", func() { w.after("read power", func() { w.renew("n1") }) })
		})
		w.fault("n1", deviceLies)
		w.with(func() { w.pcs["n1"].hidden, w.pcs["n1"].leaseless = true, true }) // looks dead to all
		w.comesTo("n1", kubestate.RemFencing)
		w.until("it is read off", time.Minute, func() bool { return w.readOff("n1") })
		w.pass(6 * time.Second)
		if s := w.state("n1"); s != kubestate.RemFencing {
			t.Errorf("renewed-before: it is %v though its Lease was renewed 6 s ago\n%s", s, w.story())
		}
		w.with(func() { w.pcs["n1"].leaseless = false })
		w.comesTo("n1", kubestate.RemStuck)
		w.keptItsPods()
	})
}

// A device that lies also answers late, and the kubelet is heard again once it was asked:
// what it did not say before the second reading counts for nothing after it.
func TestDeviceThatAnswersLate(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		w.watchRules()
		w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.after("switch off", func() {
			w.after("knock", func() {
				w.pass(knockLimit + 100*time.Millisecond)
				w.with(func() { w.pcs["n1"].hidden, w.trouble.deaf = false, modelPeers })
			})
		})
		w.fault("n1", deviceLiesLate)
		w.with(func() { w.pcs["n1"].hidden, w.pcs["n1"].cut = true, true })
		w.comesTo("n1", kubestate.RemStuck)
		w.pass(time.Minute)
		w.keptItsPods()
	})
}

// The machine runs on in the dark half of what its device says, and neither peers nor the
// API server hear it: the second reading alone tells that it is on.
func TestSecondReadingDecides(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		w.watchRules()
		w.with(func() { w.trouble.operator = true })
		w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.fault("n1", deviceBlinks)
		w.with(func() { w.pcs["n1"].hidden, w.pcs["n1"].cut = true, true })
		w.comesTo("n1", kubestate.RemDetached)
		w.with(func() { w.pcs["n1"].hidden, w.pcs["n1"].cut = false, false })
		w.recovers()
	})
}

// A device that does not answer when the power is to be read again, after the wait for a
// silent Lease, has confirmed nothing: the machine was switched on meanwhile.
func TestDeafDeviceConfirmsNothing(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		w.watchRules()
		w.with(func() { w.trouble.operator = true })
		w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.with(func() { w.pcs["n1"].sick, w.pcs["n1"].hidden = true, true })
		w.comesTo("n1", kubestate.RemFencing)
		w.until("it is read off", time.Minute, func() bool { return w.readOff("n1") })
		w.pass(2 * time.Second)
		w.with(func() { w.pcs["n1"].powerOn() })
		w.after("read power", func() {
			w.fault("n1", deviceCannot)
			w.bg.Go(func() {
				w.pass(500 * time.Millisecond)
				w.fault("n1", "")
			})
		})
		w.comesTo("n1", kubestate.RemDetached)
		w.with(func() { w.pcs["n1"].sick, w.pcs["n1"].hidden = false, false })
		w.recovers()
	})
}

// A peer that takes back what it heard is no tick to be waited for, at any phase.
func TestVoteEndsTheWait(t *testing.T) {
	for phase := range 4 {
		inWorld(t, 3, 1, func(w *world) {
			w.watchRules()
			w.lead("h1", safe(), 0, 0)
			w.pass(time.Minute)
			uid := w.nodes["n1"].UID
			says := func(silent bool) {
				s := w.ledger.sessions[2]
				w.ledger.do(fsm.Header{Session: s},
					kubestate.VoteNodes{Session: s, Cluster: "k", Votes: []kubestate.Vote{{UID: uid, Silent: silent}}})
			}
			w.after("switch off", func() { says(false) })
			w.cutPower("n1")
			w.comesTo("n1", kubestate.RemFencing)
			w.until("it is read off", time.Minute, func() bool { return w.readOff("n1") })
			w.pass(modelConfirm + 200*time.Millisecond + time.Duration(phase)*250*time.Millisecond)
			said := fsm.Time(time.Since(w.ledger.began))
			says(true)
			w.comesTo("n1", kubestate.RemDetached)
			const most = knockLimit + 300*time.Millisecond
			if took := time.Duration(w.step("n1", kubestate.RemOff) - said); took > most {
				t.Errorf("vote-ends-wait: off was logged %v after the last peer had taken back what it heard, want at most %v",
					took, most)
			}
		})
	}
}
