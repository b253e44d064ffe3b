//go:build e2e

package labtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/httpapi"
	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/testwait"
)

// bootsEnv is how many machines boot in each scenario that is tried often.
const bootsEnv = "TRIVET_E2E_PXE_BOOTS"

const (
	// romWidth is how many machines run at once: more would starve each other.
	romWidth = 2
	// denialLimit is for how long a machine that is denied goes on asking.
	denialLimit = 45 * time.Second
)

// TestROM boots virtual machines with real firmware from three hosts whose DHCP
// servers are configured by dnsmasq-config, and says from whom they booted and
// when.
func TestROM(t *testing.T) {
	needROMs(t)
	boots := numberOf(t, bootsEnv, 10)
	report := newReport(t)
	t.Run("lists", func(t *testing.T) { romLists(t, report, boots) })
	t.Run("script", func(t *testing.T) { romScript(t, report) })
	t.Run("hand-overs", func(t *testing.T) { romHandOvers(t, report, boots, false) })
	t.Run("hand-overs, floating IP apart", func(t *testing.T) { romHandOvers(t, report, boots, true) })
	t.Run("UEFI", func(t *testing.T) { romUEFI(t, report) })
	t.Run("IPv6", func(t *testing.T) { romIPv6(t, report) })
	t.Run("relay", func(t *testing.T) { romRelayed(t, report, boots) })
}

// romLists boots what is introspected, what is unknown, and what becomes one of
// them; what Ironic knows and nobody introspects gets nothing.
func romLists(t *testing.T, report *romReport, boots int) {
	l := romKind{machines: 4 * boots}.build(t)
	allowed, denied, early, late := l.machines[:boots], l.machines[boots:2*boots], l.machines[2*boots:3*boots],
		l.machines[3*boots:]
	l.refuses(denied[0])
	l.Introspect(allowed)
	l.each(allowed, romWidth, l.bootsFromLeader(report, "introspected", biosIPXE()))
	unknown := []openstack.Machine{openstack.MachineNumber(len(l.machines))}
	l.each(unknown, 1, l.bootsFromLeader(report, "unknown to Ironic", biosIPXE()))
	l.each(denied, 2*romWidth, l.getsNothing(report, "on the blacklist", biosIPXE()))
	l.each(early[:(boots+1)/2], romWidth, func(m openstack.Machine) error {
		l.refuses(m)
		if err := l.Running()[0].Introspect(m.UUID); err != nil {
			return err
		}
		return l.bootsFromLeader(report, "denied, introspected before it asks", biosIPXE())(m)
	})
	l.each(late[:boots-boots/2], romWidth, func(m openstack.Machine) error {
		asked := l.wire.await("DISCOVER", m.MAC)
		started := make(chan error, 1)
		go func() {
			<-asked
			started <- l.Running()[0].Introspect(m.UUID)
		}()
		boots := l.bootsFromLeader(report, "denied, introspected while it asks", biosIPXE())(m)
		start, late := testwait.Take(bootLimit, started, "the introspection of "+m.Name+" starts")
		return errors.Join(boots, start, late)
	})
}

// each does something with every machine, so many at once.
func (l *romLab) each(machines []openstack.Machine, width int, do func(openstack.Machine) error) {
	l.t.Helper()
	err := httpapi.Parallel(len(machines), width, func(k int) error {
		if err := do(machines[k]); err != nil {
			return fmt.Errorf("%s: %w", machines[k].Name, err)
		}
		return nil
	})
	if err != nil {
		l.t.Error(err)
	}
}

// refuses wants every peer to say that a machine boots from no host.
func (l *romLab) refuses(m openstack.Machine) {
	l.t.Helper()
	if why, err := l.explains(m, 0); err != nil || !strings.Contains(why, "blacklist") {
		l.t.Errorf("%s is denied: %q, %v", m.Name, why, err)
	}
}

// on switches a machine on, while some peer leads.
func (l *romLab) on(m openstack.Machine, f firmware) (*rom, error) {
	led := l.leads()
	r, err := l.net.powerOn(l.lan, m, f)
	if err == nil {
		r.led = led
	}
	return r, err
}

// leads waits for a leader and returns its host's number, 0 if there is none.
func (l *romLab) leads() int {
	var leader *Peer
	err := testwait.Poll(context.Background(), electLimit, "a leader", func() (err error) {
		leader, err = l.agreedLeader()
		return err
	})
	if err != nil {
		return 0
	}
	return leader.Host.number
}

// bootsFromLeader switches a machine on, which must boot from the leader's host
// at the first attempt.
func (l *romLab) bootsFromLeader(report *romReport, scenario string, f firmware) func(openstack.Machine) error {
	return func(m openstack.Machine) error {
		return l.boots(report, scenario, m, f, func(r *rom, b romBoot) error {
			if !l.apart && !r.console.says(saysFloating) {
				return errors.New("the floating IP did not answer it")
			}
			return errors.Join(atOnce(b), misnamed(l.wire.about(m.MAC, r.on)))
		})
	}
}

// atOnce wants a machine to have booted from the leader at the first attempt.
func atOnce(b romBoot) error {
	if b.From != b.Leader && b.From != b.Led || b.Rounds > 1 {
		return fmt.Errorf("booted from host %d in round %d; want host %d, at once", b.From, b.Rounds, b.Leader)
	}
	return nil
}

// boots switches a machine on that must boot; a verdict says how.
func (l *romLab) boots(report *romReport, scenario string, m openstack.Machine, f firmware,
	verdict func(*rom, romBoot) error) error {
	r, err := l.on(m, f)
	if err != nil {
		return err
	}
	err = l.finishes(report, scenario, r, m, f, verdict)
	return errors.Join(l.told(r, m, err), r.powerOff())
}

// finishes waits until a machine that was switched on has booted, and reports.
func (l *romLab) finishes(report *romReport, scenario string, r *rom, m openstack.Machine, f firmware,
	verdict func(*rom, romBoot) error) error {
	err := r.wait(f.limit, func() bool { return r.ended(f) })
	b := l.read(r, m, f, scenario)
	if err == nil && !b.Booted {
		err = errors.New("it gave up")
	}
	if err == nil {
		b.Why, err = l.explains(m, b.Leader)
	}
	report.add(b)
	if err == nil {
		err = verdict(r, b)
	}
	return err
}

// getsNothing switches a machine on that must not be answered.
func (l *romLab) getsNothing(report *romReport, scenario string, f firmware) func(openstack.Machine) error {
	return func(m openstack.Machine) error { return l.isDenied(report, scenario, m, f) }
}

func (l *romLab) isDenied(report *romReport, scenario string, m openstack.Machine, f firmware) error {
	r, err := l.on(m, f)
	if err != nil {
		return err
	}
	err = r.wait(f.limit, func() bool {
		asked, ok := first(l.wire.about(m.MAC, r.on), l.question())
		return ok && time.Since(asked.at) > denialLimit
	})
	b := l.read(r, m, f, scenario)
	if err == nil {
		b.Why, err = l.explains(m, 0)
	}
	report.add(b)
	if err == nil && (b.Booted || b.Answers > 0 || b.Questions < 3) {
		err = fmt.Errorf("it asked %d times and got %d answers, booted: %v; want silence", b.Questions, b.Answers, b.Booted)
	}
	return errors.Join(l.told(r, m, err), r.powerOff())
}

// question is what a machine asks in order to boot by the lab's version of IP.
func (l *romLab) question() string {
	if l.six {
		return "SOLICIT"
	}
	return "DISCOVER"
}

// read gathers what became of a machine.
func (l *romLab) read(r *rom, m openstack.Machine, f firmware, scenario string) romBoot {
	now := time.Now()
	b := romBoot{Scenario: scenario, Machine: m.Name, Firmware: f.name, Led: r.led, Booted: r.console.says(saysEnd),
		Rounds: strings.Count(r.console.text(), f.begins)}
	all := l.wire.about(m.MAC, r.on)
	for _, one := range all {
		if one.link != l.lan {
			continue
		}
		if one.answers() {
			b.Answers++
		}
		if one.kind == l.question() {
			b.Questions++
		}
	}
	if b.Booted {
		b.From = r.console.number(saysHost)
		b.On = now.Sub(r.on).Seconds()
		if asked, ok := first(all, l.question()); ok {
			b.Asked = now.Sub(asked.at).Seconds()
		}
		b.Exposed = exposure(all).Seconds()
	}
	b.Leader = l.leads()
	return b
}

// exposure is from the first offer to the first request, of the version of IP
// that was booted by: iPXE asks by both, and boots by the old one if it can.
func exposure(all []wireMessage) time.Duration {
	for _, kinds := range [][2]string{{"OFFER", "REQUEST"}, {"ADVERTISE", "REQUEST6"}} {
		if taken, ok := first(all, kinds[1]); ok {
			offered, _ := first(all, kinds[0])
			return taken.at.Sub(offered.at)
		}
	}
	return 0
}

// told logs what a machine that failed had to say, and what passed the wire.
func (l *romLab) told(r *rom, m openstack.Machine, err error) error {
	if err == nil {
		return nil
	}
	var lines []string
	for _, one := range l.wire.about(m.MAC, r.on) {
		lines = append(lines, fmt.Sprintf("%6.1f s %s %s from %s, server %v, relay %v", one.at.Sub(r.on).Seconds(), one.link,
			one.kind, one.source, one.server, one.relay))
	}
	l.t.Logf("%s wrote:\n%s\nand its wire saw:\n%s", m.Name, program.Tail(r.console.text(), 40), strings.Join(lines, "\n"))
	return err
}
