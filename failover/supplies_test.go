package failover

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// strips are two power strips that feed each machine together.
type strips struct {
	off  map[string]bool // outlets, by strip and machine
	mute string          // a strip that answers nothing
	stay string          // one whose outlets do not go on
	bmcs bool            // each machine has a BMC, too, which is tried after them
	last bool            // machines that get their supplies back stay off
}

// strip is one of them.
type strip struct {
	h          *hand
	name, node string
}

func (s strip) Name() string { return s.name }

// deed is one call to it; all of them fail while it is mute.
func (s strip) deed(ctx context.Context, what string, f func(all *strips) error) error {
	return s.h.do(ctx, what, func() error {
		if s.h.w.strips.mute == s.name {
			return errors.New("no route to host")
		}
		return f(s.h.w.strips)
	})
}

func (s strip) Power(ctx context.Context, _ Machine) (p Power, err error) {
	err = s.deed(ctx, "read strip", func(all *strips) error {
		p = PowerOn
		if all.off[s.name+s.node] {
			p = PowerOff
		}
		return nil
	})
	return p, err
}

func (s strip) Off(ctx context.Context, _ Machine) error {
	return s.deed(ctx, "switch strip off", func(all *strips) error {
		all.off[s.name+s.node] = true
		if c := s.h.w.pcs[s.node]; all.off["strip-a"+s.node] && all.off["strip-b"+s.node] {
			c.offs++
			c.powerOff()
		}
		return nil
	})
}

func (s strip) On(ctx context.Context, _ Machine) error {
	return s.deed(ctx, "switch strip on", func(all *strips) error {
		if all.stay == s.name {
			return errors.New("the outlet is locked")
		}
		all.off[s.name+s.node] = false
		if !all.last {
			s.h.w.pcs[s.node].powerOn()
		}
		return nil
	})
}

// group is a device of both, as that of failover/fence.
type group struct{ a, b strip }

func (group) Name() string        { return "strips" }
func (g group) Members() []Device { return []Device{g.a, g.b} }
func (g group) Power(ctx context.Context, m Machine) (Power, error) {
	a, failed := g.a.Power(ctx, m)
	if a == PowerOn {
		return a, failed
	}
	b, err := g.b.Power(ctx, m)
	return b, errors.Join(failed, err)
}

func (g group) Off(ctx context.Context, m Machine) error {
	return errors.Join(g.a.Off(ctx, m), g.b.Off(ctx, m))
}

func (g group) On(ctx context.Context, m Machine) error {
	return errors.Join(g.a.On(ctx, m), g.b.On(ctx, m))
}

func onStrips(t *testing.T, f func(w *world)) {
	inWorld(t, 5, 2, func(w *world) {
		w.strips = &strips{off: make(map[string]bool)}
		f(w)
	})
}

// told fails the test unless so many Events say that a supply of n1 may be off.
func (w *world) told(want int) {
	w.t.Helper()
	w.pass(time.Minute)
	if n := w.count("event FailoverHalfOff", "n1"); n != want {
		w.t.Errorf("half-off: %d Events say that a supply may be off, want %d\n%s", n, want, w.story())
	}
}

// A machine that is back though one of its power strips took the command runs on the other
// one, and an operator is told.
func TestMachineThatIsBackOnOneSupply(t *testing.T) {
	onStrips(t, func(w *world) {
		w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.with(func() { w.strips.mute = "strip-b" })
		w.hear("n1", false, false)
		w.comesTo("n1", kubestate.RemStuck)
		w.with(func() { w.strips.mute = "" })
		w.hear("n1", true, true)
		w.comesTo("n1", kubestate.RemCancelled)
		w.told(1)
	})
}

// One that was read off by all its strips is nothing to tell of when it is back.
func TestMachineThatIsBackOnAllSupplies(t *testing.T) {
	onStrips(t, func(w *world) {
		s := safe()
		s.Remedy.PowerOn = true
		w.lead("h1", s, 0, 0)
		w.pass(time.Minute)
		w.cutPower("n1")
		w.comesTo("n1", kubestate.RemRecovered)
		w.told(0)
	})
}

// One strip that is on has the machine run: it is switched on only when all of them are.
func TestPowerOnOfAllSupplies(t *testing.T) {
	for _, back := range []bool{false, true} {
		onStrips(t, func(w *world) {
			s := safe()
			s.Remedy.PowerOn = true
			w.lead("h1", s, 0, 0)
			w.pass(time.Minute)
			w.with(func() {
				w.strips.stay = "strip-b"
				w.pcs["n1"].hidden, w.pcs["n1"].cut = !back, !back
			})
			w.cutPower("n1")
			w.comesTo("n1", kubestate.RemDetached)
			if back {
				w.comesTo("n1", kubestate.RemRecovered)
				w.told(1)
				return
			}
			w.pass(90 * time.Second)
			w.with(func() { w.strips.stay = "" })
			w.pass(2 * time.Minute)
			off := false
			w.with(func() { off = w.strips.off["strip-bn1"] })
			if off {
				t.Errorf("half-on: the second strip stays off for good\n%s", w.story())
			}
		})
	}
}

// A BMC takes the power after the strips could not: one strip stays off, which power_on switches on
// again, and of which else an Event tells.
func TestStripThatIsOffThoughAnotherDeviceTookThePower(t *testing.T) {
	for _, on := range []bool{true, false} {
		onStrips(t, func(w *world) {
			s := safe()
			s.Remedy.PowerOn = on
			w.lead("h1", s, 0, 0)
			w.pass(time.Minute)
			w.with(func() {
				w.strips.bmcs, w.strips.mute = true, "strip-b"
				w.pcs["n1"].hidden, w.pcs["n1"].cut = true, true
			})
			w.cutPower("n1")
			w.after("to detached", func() { w.with(func() { w.strips.mute = "" }) })
			w.comesTo("n1", kubestate.RemDetached)
			if !on {
				w.wake("n1")
			}
			w.pass(90 * time.Second)
			var off bool
			w.with(func() {
				off = w.strips.off["strip-an1"]
				w.pcs["n1"].hidden, w.pcs["n1"].cut = false, false
			})
			if off == on {
				t.Errorf("strip-before: with power_on %v strip a is off: %v\n%s", on, off, w.story())
			}
			w.comesTo("n1", kubestate.RemRecovered)
			if on {
				w.told(0)
			} else {
				w.told(1)
			}
		})
	}
}

// A machine that stays off when it has its supplies back is switched on by its BMC, which takes minutes to answer
// then. One that cannot, or does not tell, is told of.
func TestMachineThatStaysOffWithItsSupplies(t *testing.T) {
	for _, row := range []struct {
		name    string
		fault   string // of the BMC
		lasts   time.Duration
		on      int // commands of the BMC
		events  int
		returns bool
	}{
		{"the BMC answers", "", 0, 1, 0, true},
		{"it takes two minutes", bothCannot, 2 * time.Minute, 1, 0, true},
		{"it never answers", bothCannot, time.Hour, 0, 1, false},
		{"it remembers", deviceRemembers, time.Hour, 0, 1, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			onStrips(t, func(w *world) {
				s := safe()
				s.Remedy.PowerOn = true
				w.lead("h1", s, 0, 0)
				w.pass(time.Minute)
				w.with(func() { w.strips.bmcs, w.strips.last = true, true })
				w.cutPower("n1")
				w.after("to detached", func() { w.fault("n1", row.fault) })
				w.comesTo("n1", kubestate.RemDetached)
				w.pass(row.lasts)
				w.fault("n1", "")
				w.pass(20 * time.Minute)
				on, told := w.count("on", "n1"), w.count("event FailoverPowerOn", "n1")
				if on != row.on || told != row.events {
					t.Errorf("stays-off: %d commands by the BMC and %d Events, want %d and %d\n%s", on, told, row.on, row.events,
						w.story())
				}
				if row.returns {
					w.recovers()
				}
			})
		})
	}
}
