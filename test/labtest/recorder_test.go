//go:build e2e

package labtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/firewall/pxe"
	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/testenv"
)

// firstMachine is the number of the first machine of the recorder's lab.
const firstMachine = 30

// findLimit is how long a finding may take: the slowest is told after 5 minutes without a call
// (docs/pxe.md#recorder).
const findLimit = 8 * time.Minute

// recorderLab is three hosts that serve DHCP and TFTP, a DHCP relay whose requests they drop, and
// machines that boot badly.
type recorderLab struct {
	*romLab
	t    *testing.T
	used int // of the machines
}

// TestGateTellsWhyNoMachineComes has machines fail to boot in each way that the recorder knows, on
// real interfaces with real servers, and reads what `trivet firewall explain` says.
func TestGateTellsWhyNoMachineComes(t *testing.T) {
	t.Parallel()
	installGate(t)
	l := &recorderLab{romLab: romKind{machines: 20, relayed: true, ether: true}.build(t), t: t}
	l.Introspect(l.machines)
	l.WaitState(endLimit, l.machines, "waiting")
	type found struct {
		codes string
		boot  func(*recorderLab) openstack.Machine
		says  string // of the first finding; TIME is a moment, HOST a peer's host
	}
	silent, _ := l.machine(PXE)
	cases := []found{
		{"denied", denied, "MAC asked through relay 10.211.0.1 and is kept out: what a DHCP relay passes on is dropped " +
			"(firewall.match: ether)"},
		{"foreign-server", foreignServer,
			"another DHCP server, 10.212.0.20 from 02:00:00:70:00:14, offered it 10.212.0.220, and it chose that"},
		{"denied foreign-server", deniedAndForeign, "MAC asked through relay 10.211.0.1 and is kept out: " +
			"what a DHCP relay passes on is dropped (firewall.match: ether)"},
		{"no-offer", noOffer, ""},
		{"refused-address", refusedAddress, `DHCP server HOST refused MAC its address [a-z0-9 ]+: "wrong (address|network)"`},
		{"no-boot-file", func(l *recorderLab) openstack.Machine {
			m, b := l.machine(PXE)
			b.as(iana.EFI_IA32, false).leases("")
			return m
		}, `its firmware, PXE of architecture 6 \(EFI IA32\), is offered an address and no boot file`},
		{"not-fetched", func(l *recorderLab) openstack.Machine { m, _ := l.firmware(); return m },
			"it was given the name snponly.efi, and asked for no file since TIME"},
		{"file-refused", fileRefused, `HOST refused file gone.efi once: "file .*gone.efi not found.*"`},
		{"transfer-broken", broken,
			`file snponly.efi from HOST broke off once, at last after about [0-9]+ bytes: "no room"`},
		{"loop", loop, "it fetched snponly.efi 3 times, and began again each time"},
		{"loader-stopped", loaderStopped, "it fetched snponly.efi, and no iPXE asked since TIME"},
		{"no-kernel", noKernel, "iPXE runs and has fetched trivet.ipxe, and no kernel since TIME"},
		{"no-callback", noCallback,
			"it fetched ironic-agent.initramfs, ironic-agent.kernel, at last at TIME, and has not called"},
	}
	booted := make([]openstack.Machine, len(cases))
	for i, c := range cases {
		booted[i] = c.boot(l)
	}
	l.finds(silent, "silent", "no request of MAC was heard since TIME") // before a stranger asks
	l.finds(unknownMAC(l), "silent unknown-mac", "no request of MAC was heard since TIME")
	for i, c := range cases {
		if c.codes != "no-offer" { // which is found while the server is stopped
			l.finds(booted[i], c.codes, c.says)
		}
	}
	l.killedMeanwhile()
}

// machine is the next one, which is plugged in.
func (l *recorderLab) machine(on Link) (openstack.Machine, *booter) {
	m := l.machines[l.used]
	l.used++
	return m, l.net.plugIn(on, firstMachine+l.used, m).as(iana.EFI_X86_64, false)
}

// firmware is one that has an address, and the name of its loader.
func (l *recorderLab) firmware() (openstack.Machine, *booter) {
	m, b := l.machine(PXE)
	return m, b.leases("")
}

// boot is what the leader says that a machine did last.
func (l *recorderLab) boot(leader *Peer, m openstack.Machine) (*api.Boot, error) {
	r := leader.Trivet("firewall", "explain", m.MAC, "-o", "json", leader.On())
	var rows []api.Explanation
	if err := json.Unmarshal([]byte(r.Out), &rows); err != nil {
		return nil, fmt.Errorf("explain: exit %d, %w: %s%s", r.Code, err, r.Out, r.Err)
	}
	for _, x := range rows {
		if x.Peer == leader.Name && x.Boot != nil {
			return x.Boot, nil
		}
	}
	return nil, fmt.Errorf("explain says nothing of a boot: %s%s", r.Out, r.Err)
}

// finds waits until exactly these findings are told, and the first one in this sentence.
func (l *recorderLab) finds(m openstack.Machine, codes, says string) {
	l.t.Helper()
	leader := l.WaitLeader()
	var found []api.BootFinding
	l.Eventually(findLimit, "finding "+codes, func() error {
		boot, err := l.boot(leader, m)
		if err != nil {
			return err
		}
		var got []string
		found = boot.Findings
		for _, f := range found {
			got = append(got, f.Code)
		}
		if strings.Join(got, " ") != codes {
			return fmt.Errorf("found is %q, of %+v", got, boot.Steps)
		}
		text := regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`).ReplaceAllString(found[0].Text, "TIME")
		text = regexp.MustCompile(regexp.QuoteMeta(pxeNet)+`[1-3]\b`).ReplaceAllString(text, "HOST")
		text = strings.ReplaceAll(text, m.MAC, "MAC")
		if says != text && !regexp.MustCompile("^"+says+"$").MatchString(text) {
			return fmt.Errorf("the operator reads\n%s, want\n%s", text, says)
		}
		return nil
	})
	for _, f := range found {
		l.t.Logf("%s: %s\n  %s", f.Code, f.Text, f.Remedy)
	}
}

func unknownMAC(l *recorderLab) openstack.Machine {
	m, _ := l.machine(PXE)
	l.net.plugIn(PXE, firstMachine+100, stranger()).as(iana.EFI_X86_64, false).send(dhcpv4.MessageTypeDiscover)
	return m
}

// denied asks behind the relay.
func denied(l *recorderLab) openstack.Machine {
	m, b := l.machine(far)
	b.send(dhcpv4.MessageTypeDiscover)
	return m
}

// serveForeign has another server answer one machine alone, until the end of the test.
func (l *recorderLab) serveForeign(m openstack.Machine, pool string) {
	l.t.Helper()
	h := &Host{net: l.net, number: foreignHost}
	h.dnsmasq(filepath.Join(l.dir, "foreign-"+strings.ReplaceAll(m.MAC, ":", "")), "--conf-file=/dev/null", "--port=0",
		"--interface="+string(PXE), "--bind-dynamic", "--no-ping", "--dhcp-authoritative",
		"--dhcp-range="+pool+","+pool+",255.255.255.0,120s", "--dhcp-host="+m.MAC+",set:its", "--dhcp-ignore=tag:!its")
}

func foreignServer(l *recorderLab) openstack.Machine {
	m, b := l.machine(PXE)
	h := l.net.bare(foreignHost)
	h.plug(PXE, h.pxe())
	l.net.ip(foreignHost, "route", "add", farNet+"0/24", "via", fmt.Sprint(pxeNet, relayHost))
	l.serveForeign(m, pxeNet+"220")
	b.chooses("") // both offer
	b.leases(h.pxe())
	return m
}

// deniedAndForeign is behind the relay, which asks another server as well.
func deniedAndForeign(l *recorderLab) openstack.Machine {
	m, b := l.machine(far)
	l.serveForeign(m, farNet+"220")
	b.leases(pxeNet + fmt.Sprint(foreignHost))
	return m
}

// noOffer asks while the leader's host does not serve.
func noOffer(l *recorderLab) openstack.Machine {
	m, b := l.machine(PXE)
	server := l.dhcp[l.WaitLeader().Host]
	testenv.Must(l.t, server.Signal(syscall.SIGSTOP))
	l.t.Cleanup(func() { testenv.Must(l.t, server.Signal(syscall.SIGCONT)) })
	if b.asks(ofKind(dhcpv4.MessageTypeOffer, ""), dhcpv4.MessageTypeDiscover) != nil {
		l.t.Error("it got an offer of a server that is stopped")
	}
	l.finds(m, "no-offer", "MAC asked for an address 5 times, is let in, and no server offered it one")
	testenv.Must(l.t, server.Signal(syscall.SIGCONT))
	return m
}

// refusedAddress asks for an address that is not the one that it was offered.
func refusedAddress(l *recorderLab) openstack.Machine {
	m, b := l.machine(PXE)
	offer := b.chooses("")
	if b.takes(offer.ServerIdentifier(), net.IPv4(192, 0, 2, 99), dhcpv4.MessageTypeNak) == nil {
		l.t.Error("the server did not refuse an address of another network")
	}
	return m
}

func fileRefused(l *recorderLab) openstack.Machine {
	m, b := l.firmware()
	if err := b.fetches("gone.efi", whole); err == nil || !strings.Contains(err.Error(), "not found") {
		l.t.Errorf("a file that is not there: %v", err)
	}
	return m
}

func broken(l *recorderLab) openstack.Machine {
	m, b := l.firmware()
	testenv.Must(l.t, b.fetches("snponly.efi", 80))
	return m
}

func loop(l *recorderLab) openstack.Machine {
	m, b := l.machine(PXE)
	for range 3 {
		testenv.Must(l.t, b.leases("").fetches("snponly.efi", whole))
	}
	return m
}

func loaderStopped(l *recorderLab) openstack.Machine {
	m, b := l.firmware()
	testenv.Must(l.t, b.fetches("snponly.efi", whole))
	return m
}

func noKernel(l *recorderLab) openstack.Machine {
	m, b := l.firmware()
	testenv.Must(l.t, b.fetches("snponly.efi", whole))
	testenv.Must(l.t, b.as(iana.EFI_X86_64, true).leases("").fetches(pxe.ScriptName, whole))
	return m
}

func noCallback(l *recorderLab) openstack.Machine {
	m, b := l.firmware()
	testenv.Must(l.t, b.fetches("snponly.efi", whole))
	b.as(iana.EFI_X86_64, true).leases("")
	for _, file := range []string{pxe.ScriptName, pxe.Kernel, pxe.Ramdisk} {
		testenv.Must(l.t, b.fetches(file, whole))
	}
	return m
}

// killedMeanwhile kills the leader in the middle of a boot, which goes on with the next one's
// host: the track does too, and says from when to when nothing was heard.
func (l *recorderLab) killedMeanwhile() {
	l.t.Helper()
	m, b := l.firmware()
	testenv.Must(l.t, b.fetches("snponly.efi", whole))
	before := l.WaitLeader()
	l.Eventually(growLimit, "the file stands in the log", func() error { return l.did(before, m, "fetched") })
	before.Kill9()
	next := l.WaitLeader()
	// Until then the kernel of the killed one may let it in, and what it is sent by one host no other hears.
	await(l.t, growLimit, "the next leader has PXE open", next.filter, func(f api.Firewall) bool { return f.Door.Open })
	b.as(iana.EFI_X86_64, true).leases("")
	testenv.Must(l.t, b.fetches(pxe.ScriptName, whole))
	l.Eventually(growLimit, "the track goes on, with a gap", func() error {
		return errors.Join(l.did(next, m, "asked", "offered", "chose", "leased", "fetched", "unheard", "asked", "offered",
			"chose", "leased", "fetched"), l.heardBy(next, m, before.Name, next.Name))
	})
	l.finds(m, "no-kernel", "iPXE runs and has fetched trivet.ipxe, and no kernel since TIME")
}

// did reports whether the steps of a machine are these, but for those when it spoke, or end with
// the one that is given.
func (l *recorderLab) did(leader *Peer, m openstack.Machine, kinds ...string) error {
	boot, err := l.boot(leader, m)
	if err != nil {
		return err
	}
	var got []string
	for _, s := range boot.Steps {
		if s.Kind != "spoke" {
			got = append(got, s.Kind)
		}
	}
	if len(kinds) == 1 && len(got) > 0 {
		got = got[len(got)-1:]
	}
	if !slices.Equal(got, kinds) {
		return fmt.Errorf("the steps are %q, want %q", got, kinds)
	}
	return nil
}

// heardBy reports whether one peer heard what was before the gap, and another what came after it.
func (l *recorderLab) heardBy(leader *Peer, m openstack.Machine, first, then string) error {
	boot, err := l.boot(leader, m)
	if err != nil {
		return err
	}
	by := first
	for _, s := range boot.Steps {
		if s.Kind == "unheard" {
			by = then
			if s.Time == s.Until {
				err = errors.Join(err, fmt.Errorf("the gap has no length: %+v", s))
			}
		}
		if s.Peer != by {
			err = errors.Join(err, fmt.Errorf("step %+v, want peer %s", s, by))
		}
	}
	return err
}

// TestROMIsTold boots real iPXE ROMs, and reads what the operator does: one machine comes up but
// for its call, the other one lacks its kernel.
func TestROMIsTold(t *testing.T) {
	needROMs(t)
	l := &recorderLab{romLab: romKind{machines: 2}.build(t), t: t}
	l.Introspect(l.machines)
	l.bootsTold(l.machines[0], "no-callback",
		"it fetched .*ironic-agent.initramfs, ironic-agent.kernel.*, at last at TIME, and has not called")
	testenv.Must(l.t, os.Remove(filepath.Join(l.root(l.WaitLeader()), standInName)))
	l.bootsTold(l.machines[1], "file-refused no-kernel", `HOST refused file ironic-agent.kernel [a-z0-9 ]+: .*not found.*`)
}

// bootsTold switches a machine on until these findings are told.
func (l *recorderLab) bootsTold(m openstack.Machine, codes, says string) {
	l.t.Helper()
	f := biosIPXE()
	r, err := l.on(m, f)
	testenv.Must(l.t, err)
	defer func() { testenv.Must(l.t, r.powerOff()) }()
	testenv.Must(l.t, r.wait(f.limit, func() bool {
		boot, err := l.boot(l.WaitLeader(), m)
		return err == nil && slices.ContainsFunc(boot.Steps, func(s api.BootStep) bool {
			return s.Kind == "fetched" || s.Kind == "failed"
		})
	}))
	l.finds(m, codes, says)
}
