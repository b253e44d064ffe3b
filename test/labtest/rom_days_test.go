//go:build e2e

package labtest

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/testwait"
)

// killing is a moment at which the leader dies.
type killing struct {
	name string
	f    firmware // of the machine
	// seen is the message about the machine after which it dies; "" is when the
	// ROM's banner is shown, two seconds before it asks.
	seen string
	// lost: its whole host dies. Its DHCP server has answered nothing since the
	// banner.
	lost bool
}

func killings() []killing {
	bios := biosIPXE()
	return []killing{
		{name: "leader's host dies with the first DISCOVER", f: bios, seen: "DISCOVER", lost: true},
		{name: "leader SIGKILLed 2 s before the first DISCOVER", f: bios},
		{name: "leader SIGKILLed at the first DISCOVER", f: bios, seen: "DISCOVER"},
		{name: "leader SIGKILLed at the OFFER", f: bios, seen: "OFFER"},
		{name: "leader SIGKILLed at the OFFER", f: uefiNative(), seen: "OFFER"}, // which it takes up seconds later
	}
}

// romHandOvers kills the leader while ROMs ask. They boot nevertheless, from
// another host's server; those that had an offer of the old one, and could not
// take it up any more, begin anew or give up.
func romHandOvers(t *testing.T, report *romReport, boots int, apart bool) {
	l := romKind{machines: boots, apart: apart}.build(t)
	l.Introspect(l.machines)
	for _, k := range killings() {
		machines := l.machines
		if k.f.name != biosIPXE().name { // such a boot takes a minute
			machines = machines[:(boots+4)/5]
		}
		for _, m := range machines {
			if err := l.outlives(report, k, m); err != nil {
				t.Errorf("%s: %s: %v", k.name, m.Name, err)
			}
		}
	}
}

// outlives boots a machine, kills the leader meanwhile, and mends that.
func (l *romLab) outlives(report *romReport, k killing, m openstack.Machine) error {
	l.t.Helper()
	leader := l.WaitLeader()
	l.Eventually(growLimit, "the leader's host alone lets it through", func() error {
		_, err := l.explained(m, leader.Host.number)
		return err
	})
	f := k.f
	seen := l.wire.await(k.seen, m.MAC)
	r, err := l.on(m, f)
	if err != nil {
		return err
	}
	died, err := l.killAt(r, k, leader, seen)
	if err == nil {
		err = r.wait(f.limit, func() bool { return r.ended(f) })
	}
	old := leader.Host.number
	b := l.read(r, m, f, k.name+l.layout())
	all := l.wire.about(m.MAC, r.on)
	if asked, ok := first(all, "DISCOVER"); ok {
		b.Died = died.Sub(asked.at).Seconds()
		if err == nil && !b.Booted {
			b.GaveUp = time.Since(asked.at).Seconds()
		}
	}
	b.Window = window(all, died, old)
	if err == nil {
		b.Why, err = l.explains(m, b.Leader)
	}
	report.add(b)
	switch {
	case err != nil:
	case cameBack(all, old) > 0:
		err = fmt.Errorf("after another host, host %d answered again", old)
	case !b.Window && (!b.Booted || b.Rounds > 1 || b.From == old):
		err = fmt.Errorf("booted from host %d in round %d, and host %d was dead before it had an offer", b.From, b.Rounds,
			old)
	}
	err = errors.Join(l.told(r, m, errors.Join(err, misnamed(all))), r.powerOff())
	l.mend(k, leader)
	return err
}

// layout distinguishes the scenarios of two labs.
func (l *romLab) layout() string {
	if l.apart {
		return ", IP apart"
	}
	return ""
}

// killAt waits for the moment and kills.
func (l *romLab) killAt(r *rom, k killing, leader *Peer, seen <-chan wireMessage) (died time.Time, err error) {
	limit := k.f.limit
	if k.seen == "" || k.lost {
		if err := r.wait(limit, func() bool { return r.console.says(k.f.begins) }); err != nil {
			return died, fmt.Errorf("no banner: %w", err)
		}
	}
	server := l.dhcp[leader.Host]
	if k.lost {
		err = server.Signal(syscall.SIGSTOP)
	}
	if k.seen != "" {
		if _, err := testwait.Take(limit, seen, "the machine sends "+k.seen); err != nil {
			return died, err
		}
	}
	died = time.Now()
	err = errors.Join(err, leader.proc.Signal(syscall.SIGKILL))
	if k.lost {
		err = errors.Join(err, server.End(syscall.SIGKILL, 5*time.Second))
	}
	return died, errors.Join(err, leader.proc.Wait(5*time.Second))
}

// mend brings back what a killing took.
func (l *romLab) mend(k killing, leader *Peer) {
	l.t.Helper()
	if k.lost {
		l.serveDHCP(leader)
	}
	leader.Start()
	l.WaitVoters(3)
	l.WaitLeader()
}

// window reports whether the leader died when the machine had an offer of its
// host, or was about to get it, and had not taken it up.
func window(all []wireMessage, died time.Time, old int) bool {
	offered, ok := first(all, "OFFER")
	taken, asks := first(all, "REQUEST")
	return ok && offered.host == old && (!asks || taken.at.After(died))
}

// cameBack counts the answers of a host after another one had answered.
func cameBack(all []wireMessage, host int) (n int) {
	gone := false
	for _, m := range all {
		switch {
		case !m.answers() || m.host == 0:
		case m.host != host:
			gone = true
		case gone:
			n++
		}
	}
	return n
}

// romUEFI boots machines whose firmware is UEFI, with its own PXE and with that
// of iPXE, each way.
func romUEFI(t *testing.T, report *romReport) {
	l := romKind{machines: 5}.build(t)
	l.Introspect(append(l.machines[:2:2], l.machines[4]))
	// At once: each takes up its offer seconds later, and must have one of its own.
	l.each(l.machines[:2], 2, l.bootsFromLeader(report, "introspected", uefiNative()))
	l.each(l.machines[4:], 1, l.bootsFromLeader(report, "introspected", uefiIPXE()))
	l.each(l.machines[2:3], 1, l.getsNothing(report, "on the blacklist", uefiNative()))
	l.each(l.machines[3:4], 1, l.getsNothing(report, "on the blacklist", uefiIPXE()))
}

// romIPv6 does the same where the hosts have IPv6 alone; one machine asks for a
// minute over IPv4 before.
func romIPv6(t *testing.T, report *romReport) {
	l := romKind{machines: 4, six: true}.build(t)
	l.Introspect(l.machines[:2])
	l.each(l.machines[:1], 1, l.bootsFromLeader(report, "introspected, IPv6 alone", biosIPXE()))
	l.each(l.machines[1:2], 1, l.bootsFromLeader(report, "introspected, IPv6 alone", uefiNative()))
	l.each(l.machines[2:3], 1, l.getsNothing(report, "on the blacklist, IPv6 alone", biosIPXE()))
	l.each(l.machines[3:], 1, l.getsNothing(report, "on the blacklist, IPv6 alone", uefiSix()))
}

// romRelayed boots machines behind a relay: all frames that the hosts see are
// the relay's, and what is inside them decides.
func romRelayed(t *testing.T, report *romReport, boots int) {
	l := romKind{machines: 2 * boots, relayed: true}.build(t)
	allowed, denied := l.machines[:boots], l.machines[boots:]
	l.Introspect(allowed)
	l.each(allowed, romWidth, func(m openstack.Machine) error {
		return errors.Join(l.bootsFromLeader(report, "introspected, behind a relay", biosIPXE())(m), l.cameByRelay(m))
	})
	l.each(denied, 2*romWidth, func(m openstack.Machine) error {
		return errors.Join(l.getsNothing(report, "on the blacklist, behind a relay", biosIPXE())(m), l.cameByRelay(m))
	})
}

// cameByRelay wants the hosts to have seen what a machine asked in frames of the
// relay alone, which name it.
func (l *romLab) cameByRelay(m openstack.Machine) error {
	frames := 0
	for _, one := range l.wire.about(m.MAC, time.Time{}) {
		if one.link != PXE || one.kind != "DISCOVER" {
			continue
		}
		frames++
		if one.source != mac(PXE, relayHost) || !one.relay.Equal(net.ParseIP(farNet+"1")) {
			return fmt.Errorf("the hosts saw a DISCOVER from %s by relay %v", one.source, one.relay)
		}
	}
	if frames == 0 {
		return errors.New("the hosts saw no DISCOVER")
	}
	return nil
}
