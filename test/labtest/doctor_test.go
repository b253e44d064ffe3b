//go:build e2e

package labtest

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/doctor"
	"github.com/trivet-ha/trivet/doctor/host"
	"github.com/trivet-ha/trivet/firewall/pxe"
	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/testenv"
)

// patientLab is three hosts with DHCP by dnsmasq, as each peer writes it for
// its own, and with all that machines would boot.
type patientLab struct {
	*SiteLab
	t        *testing.T
	floating string
	raw      *program.Process // ISC dhcpd on the first host
}

// TestDoctorFindsWhatIsPlanted plants one fault of each kind, two of them on
// every host, has them found by name, mends them all, and hears nothing more.
func TestDoctorFindsWhatIsPlanted(t *testing.T) {
	t.Parallel()
	testenv.NeedRoot(t, "ip")
	installGate(t)
	if !program.Installed("/usr/sbin/dhcpd") {
		program.Install(t, "a DHCP server that reads raw sockets", "isc-dhcp-server")
	}
	l := newPatients(t)
	alpha, bravo, charlie := l.Peers[0], l.Peers[1], l.Peers[2]

	ramdisk := l.bootFile(bravo, "ironic-agent.initramfs")
	testenv.Must(t, os.Remove(ramdisk))
	right := l.overlap(charlie, bravo)
	port := l.cut(charlie, alpha, bravo)
	l.found(alpha, "error ports bravo charlie does not reach its peers ("+port+"/tcp), alpha does; bravo reaches charlie",
		"error pools charlie overlaps that of bravo", "error raw-dhcp alpha answers a machine that every host denies",
		"error boot bravo ramdisk tftp://")

	l.write(ramdisk, "ramdisk")
	l.write(l.conf(charlie), right)
	charlie.Host.sh("nft", "delete", "table", "inet", "cut")
	testenv.Must(t, l.raw.End(syscall.SIGTERM, 5*time.Second))
	l.serve(alpha)
	l.Reconfigure() // a peer tests the other hosts when it starts, and then each minute
	for _, p := range l.Peers {
		l.Eventually(growLimit, "trivet doctor finds nothing, on "+p.Name, func() error {
			if r := p.Trivet("doctor", l.checks(), p.On()); r.Code != 0 || r.Out != "" ||
				!strings.Contains(r.Err, "nothing found on 3 hosts") {
				return fmt.Errorf("exit %d\n%s%s", r.Code, r.Out, r.Err)
			}
			return nil
		})
	}
	charlie.Kill9()
	l.found(alpha, "error peers charlie it says nothing")
	if r := charlie.Trivet("doctor", charlie.On()); r.Code != 1 || !strings.Contains(r.Out, "no peer runs on this host") {
		t.Errorf("without a peer: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
}

// newPatients starts three peers, and DHCP: on the first host by a server that
// the others are right to complain of.
func newPatients(t *testing.T) *patientLab {
	t.Helper()
	hosts := NewHosts(t)
	l := &patientLab{t: t, floating: hosts.net.site(floatingHost)}
	l.SiteLab = hosts.site(siteKind{ironic: newSimulated(t, 3).addr, driver: "nftables", floating: l.floating, on: Site,
		env: []string{"TRIVET_FIREWALL_FREEZE=100ms"}, // the hosts may be guests, which without it is a finding
		furnish: func(p *Peer) {
			p.Env = append(p.Env, "TRIVET_DOCTOR_DNSMASQ_CONF="+l.conf(p))
			if l.raw == nil {
				l.serveRaw(p.Host)
			}
		}})
	l.Trio()
	for _, p := range l.Peers[1:] {
		l.serve(p)
	}
	return l
}

// cut lets no new connection from one peer's host to another's peers' port; what
// is established stays. It returns that port.
func (l *patientLab) cut(from, through, to *Peer) (port string) {
	l.t.Helper()
	var members []admin.Member
	testenv.Must(l.t, json.Unmarshal([]byte(through.Must("members", "-o", "json", through.On())), &members))
	i := slices.IndexFunc(members, func(m admin.Member) bool { return m.Name == to.Name })
	host, port, err := net.SplitHostPort(members[i].Address)
	testenv.Must(l.t, err)
	rules := fmt.Sprintf(
		"table inet cut { chain out { type filter hook output priority 0; ip daddr %s tcp dport %s ct state new drop; }; }",
		host, port)
	from.Host.sh("nft", rules)
	return port
}

// checks are the flags for all checks, but that of configurations, since each peer
// of the lab reaches Ironic its own way, and that of clocks where nothing keeps the
// clock of this machine right: every host of the lab has it.
func (l *patientLab) checks() []string {
	var asked unix.Timex
	_, err := unix.Adjtimex(&asked)
	kept := err == nil && asked.Status&unix.STA_UNSYNC == 0
	w := host.Limits("/").CPUWeight // peers are children of the test
	weighs := w == 0 || w >= 500
	var out []string
	for _, c := range doctor.Checks() {
		if c.Name != "config" && (kept || c.Name != "clock") && (weighs || c.Name != "limits") {
			out = append(out, "--check", c.Name)
		}
	}
	return out
}

// conf is where serveBoot writes the configuration of dnsmasq.
func (l *patientLab) conf(p *Peer) string { return l.bootFile(p, "dnsmasq.conf") }

func (l *patientLab) bootFile(p *Peer, name string) string {
	return filepath.Join(l.dir, p.Name+"-boot", name)
}

func (l *patientLab) write(path, text string) {
	l.t.Helper()
	testenv.Must(l.t, os.WriteFile(path, []byte(text), 0o644))
}

// serveRaw runs ISC dhcpd, which hears what every rule drops.
func (l *patientLab) serveRaw(h *Host) {
	l.t.Helper()
	conf, leases := filepath.Join(l.dir, "dhcpd.conf"), filepath.Join(l.dir, "dhcpd.leases")
	l.write(conf, fmt.Sprintf("authoritative;\nping-check off;\nsubnet %s0 netmask 255.255.255.0 { range %s240 %s250; }\n",
		pxeNet, pxeNet, pxeNet))
	l.write(leases, "")
	l.raw = program.Run(l.t, h.Command("/usr/sbin/dhcpd", "-4", "-f", "-q", "--no-pid", "-cf", conf, "-lf", leases,
		"-user", "root", "-group", "root", string(PXE)), syscall.SIGKILL)
}

// serve runs dnsmasq on a peer's host, with all that machines boot from it.
func (l *patientLab) serve(p *Peer) {
	l.t.Helper()
	p.serveBoot()
	for _, name := range append(pxe.Files(), "ironic-agent.kernel", "ironic-agent.initramfs") {
		l.write(l.bootFile(p, name), "what "+name+" would hold")
	}
	script := p.Must("dnsmasq-config", "--boot-script", "--floating-ip-address", l.floating, "--floating-ip-interface",
		string(Site), p.On())
	l.write(l.bootFile(p, pxe.ScriptName), script)
}

// overlap lets one peer's pools be those of another, and returns what its
// configuration was.
func (l *patientLab) overlap(p, other *Peer) (before string) {
	l.t.Helper()
	read := func(p *Peer) string {
		text, err := os.ReadFile(l.conf(p))
		testenv.Must(l.t, err)
		return string(text)
	}
	for line := range strings.Lines(read(other)) {
		if words := strings.Split(strings.TrimPrefix(line, "dhcp-range=set:"), ","); strings.HasPrefix(line, "dhcp-range=") {
			if _, err := netip.ParseAddr(words[1]); err != nil {
				l.t.Fatalf("what is %q?", line)
			}
			before = read(p)
			l.write(l.conf(p), before+line)
			return before
		}
	}
	l.t.Fatalf("%s gives nothing away", other.Name)
	return ""
}

// found waits until doctor on a peer names all that is wanted, each as
// "SEVERITY CHECK PEER WORDS", and nothing else that is an error or a warning
// but of the same checks on the same hosts.
func (l *patientLab) found(on *Peer, wanted ...string) {
	l.t.Helper()
	l.Eventually(growLimit, "trivet doctor finds what is planted", func() error {
		r := on.Trivet("doctor", "-o", "json", l.checks(), on.On())
		var findings []doctor.Finding
		if err := json.Unmarshal([]byte(r.Out), &findings); err != nil || r.Code != 1 {
			return fmt.Errorf("exit %d: %w\n%s%s", r.Code, err, r.Out, r.Err)
		}
		for _, want := range wanted {
			if !slices.ContainsFunc(findings, func(f doctor.Finding) bool { return fits(f, want) }) {
				return fmt.Errorf("not found: %s\n%s", want, r.Out)
			}
		}
		for _, f := range findings {
			for _, host := range f.Hosts() {
				words := fmt.Sprintf("%s %s %s ", f.Severity, f.Check, host)
				if f.Severity != doctor.Info &&
					!slices.ContainsFunc(wanted, func(want string) bool { return strings.HasPrefix(want, words) }) {
					return fmt.Errorf("found on %s, and not planted: %+v", host, f)
				}
			}
		}
		return nil
	})
}

func fits(f doctor.Finding, want string) bool {
	return slices.ContainsFunc(f.Hosts(), func(host string) bool {
		rest, ok := strings.CutPrefix(want, fmt.Sprintf("%s %s %s ", f.Severity, f.Check, host))
		return ok && strings.Contains(f.Text, rest) && len(f.Remedy) > 0
	})
}
