package failover

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// A command to switch the machine on that is refused, or has no effect, is repeated. When
// it was often enough that is said, and the machine is left to an operator.
func TestPowerOnIsRepeated(t *testing.T) {
	for _, row := range []struct {
		name       string
		lost, want int
		comes      bool
	}{
		{"the first works", 0, 1, true},
		{"three are lost", 3, 4, true},
		{"all are lost", 100, powerOnTries, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			inWorld(t, 3, 6, func(w *world) {
				s := safe()
				s.Remedy.PowerOn = true
				h := w.lead("h1", s, 0, 0)
				w.pass(time.Minute)
				w.with(func() { w.pcs["n1"].deafToOn = row.lost })
				w.cutPower("n1")
				w.comesTo("n1", kubestate.RemDetached)
				if row.lost > 0 {
					w.pass(90 * time.Second)
					w.waitsFor(h, "failover.power_on, try 2 of 5 by device bmc")
				}
				w.pass(20 * time.Minute)
				if n := w.count("on", "n1"); n != row.want {
					t.Errorf("power-on: %d commands, want %d\n%s", n, row.want, w.story())
				}
				if row.comes {
					w.recovers()
					return
				}
				w.waitsFor(h, "switch the machine on by hand")
				if n := w.count("event FailoverPowerOn", "n1"); n != 1 {
					t.Errorf("power-on: it was told %d times that the machine stays off", n)
				}
			})
		})
	}
}

// A device that says neither on nor off is asked again, and given no command.
func TestPowerOnByADeviceThatDoesNotSay(t *testing.T) {
	inWorld(t, 3, 6, func(w *world) {
		s := safe()
		s.Remedy.PowerOn = true
		h := w.lead("h1", s, 0, 0)
		w.pass(time.Minute)
		w.after("to detached", func() { w.with(func() { w.pcs["n1"].mumbles = true }) })
		w.cutPower("n1")
		w.comesTo("n1", kubestate.RemDetached)
		w.pass(90 * time.Second)
		w.waitsFor(h, "it does not say whether the machine is on")
		if n := w.count("on", "n1"); n != 0 {
			t.Errorf("power-unknown: %d commands\n%s", n, w.story())
		}
		w.with(func() { w.pcs["n1"].mumbles = false })
		w.recovers()
		if n := w.count("on", "n1"); n != 1 {
			t.Errorf("power-unknown: %d commands once it says off\n%s", n, w.story())
		}
	})
}

// Whoever took the power of a machine that was switched on, or could not be, has opened it. No
// later leader switches it on; one that empties it does.
func TestNextLeaderDoesNotSwitchOnAgain(t *testing.T) {
	for _, row := range []struct {
		name          string
		lost          int // commands that its device loses
		emptied       int // commands of the leader that emptied it
		later, events int // commands and Events of the next one
		early         bool
	}{
		{name: "switched on", emptied: 1, events: 1},
		{name: "given up", lost: 100, emptied: powerOnTries, events: 1},
		{name: "not emptied yet", early: true, later: 1, events: 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			inWorld(t, 5, 2, func(w *world) {
				s := safe()
				s.Remedy.PowerOn = true
				h := w.lead("h1", s, 0, 0)
				w.pass(time.Minute)
				w.with(func() { // it does not come back
					p := w.pcs["n1"]
					p.hidden, p.cut, p.deafToOn = true, true, row.lost
				})
				if row.early {
					w.after("to deleted", h.end)
				}
				w.cutPower("n1")
				if row.early {
					w.until("the leader is lost", 10*time.Minute, h.ended)
				} else {
					w.comesTo("n1", kubestate.RemDetached)
					w.pass(20 * time.Minute)
				}
				if n := w.count("on", "n1"); n != row.emptied {
					t.Fatalf("switched-on: %d commands of the leader that empties it, want %d", n, row.emptied)
				}
				w.cutPower("n1")
				events := w.count("event FailoverPowerOn", "n1")
				h.leave()
				next := w.lead("h2", s, 0, 0)
				w.pass(20 * time.Minute)
				if n := w.count("on", "n1") - row.emptied; n != row.later {
					t.Errorf("switched-on-again: %d commands of the next leader, want %d\n%s", n, row.later, w.story())
				}
				if n := w.count("event FailoverPowerOn", "n1") - events; n != row.events {
					t.Errorf("switched-on-again: %d Events, want %d", n, row.events)
				}
				if row.later == 0 {
					w.waitsFor(next, "if the machine is off, switch it on by hand")
				}
			})
		})
	}
}

// An operator keeps a machine from being switched on while its device is tried: they may
// have opened it.
func TestPowerOnEndsWhenItIsForbidden(t *testing.T) {
	for _, rail := range lateRails() {
		switch rail.name {
		case "pause", "opt-out", "cordon", "opt-out that the watch does not show":
		default:
			continue
		}
		for _, asked := range []bool{true, false} {
			if !asked && strings.Contains(rail.name, "watch") {
				continue // it was read right before the tries
			}
			t.Run(fmt.Sprintf("%s, asked %v", rail.name, asked), func(t *testing.T) {
				inWorld(t, 3, 6, func(w *world) {
					s := safe()
					s.Remedy.PowerOn = true
					h := w.lead("h1", s, 0, 0)
					w.pass(time.Minute)
					away := func() { w.fault("n1", deviceAway) }
					w.after("to detached", func() {
						if asked { // the device is asked whether the machine is off
							away()
							return
						}
						w.after("read power", func() { w.after("confirm", away) })
					})
					w.cutPower("n1")
					w.comesTo("n1", kubestate.RemDetached)
					w.pass(40 * time.Second) // Ready is Unknown: nothing else changes the Node from now on
					rail.forbid(w, &s)
					w.pass(10 * time.Second)
					w.fault("n1", "")
					w.pass(3 * time.Minute)
					if n := w.count("on", "n1"); n > 0 {
						t.Errorf("power-on: %d commands against an operator\n%s", n, w.story())
					}
					w.waitsFor(h, rail.says)
					rail.lift(w, &s)
					w.recovers()
				})
			})
		}
	}
}

// A device that has another name since it took the power is not asked, and that is told.
func TestPowerOnByADeviceThatIsGone(t *testing.T) {
	inWorld(t, 3, 6, func(w *world) {
		s := safe()
		s.Remedy.PowerOn = true
		h := w.lead("h1", s, 0, 0)
		w.pass(time.Minute)
		w.after("to detached", func() { w.with(func() { w.trouble.renamed = true }) })
		w.cutPower("n1")
		w.comesTo("n1", kubestate.RemDetached)
		w.pass(90 * time.Second)
		w.waitsFor(h, "failover.power_on, try 2 of 5 by device bmc: it is not configured any more")
		if n := w.count("on", "n1"); n > 0 {
			t.Errorf("power-on: a device that is gone was told %d times", n)
		}
	})
}
