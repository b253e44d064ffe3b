//go:build e2e

package labtest

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/test/labtest/httpapi"
	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/sandbox/machine"
	"github.com/trivet-ha/trivet/test/sandbox/simironic"
	"github.com/trivet-ha/trivet/test/testenv"
)

// peersNet6 is where peers meet who have no IPv4.
const peersNet6 = "fd14::"

// TestWithoutIPv4 runs three peers on hosts that have no IPv4 address: they find
// each other by addresses written in every way, and a machine is introspected
// from its first SOLICIT to the callback to the floating IP.
func TestWithoutIPv4(t *testing.T) {
	t.Parallel()
	s := newSixLab(t)
	floating := fmt.Sprint(siteNet6, floatingHost)
	script := s.Peers[0].Must("dnsmasq-config", "--boot-script", "--floating-ip-address", floating,
		"--floating-ip-interface", string(Site),
		"--api-listen", "[::]:5050", "--config", "/dev/null")
	_, url, _ := strings.Cut(script, "ipa-inspection-callback-url=")
	url, _, _ = strings.Cut(url, " ")
	url, _, _ = strings.Cut(url, ",") // the hosts follow
	if want := "http://[" + floating + "]:5055/v1/continue"; url != want {
		t.Fatalf("the ramdisk is told %q, want %q", url, want)
	}
	s.boots(url)
	for _, p := range s.Peers {
		p.serveBoot()
	}
	m := s.machines[0]
	s.Introspect(s.machines[:1], s.Followers()[0])
	wire := s.client.socket(PXE, unix.ETH_P_IPV6)
	leader := s.WaitLeader().Host.number
	ask := bootRequest{wire: wire, mac: hardware(t, m.MAC), arch: 7, six: true}
	given := ask.lease(t, leader)
	if want := fmt.Sprintf("tftp://[%s%d]/snponly.efi", pxeNet6, leader); given.file != want ||
		!netip.MustParsePrefix(pxeNet6+"/64").Contains(given.address) {
		t.Errorf("the machine was given %v, want an address and %s", given, want)
	}
	s.fleet.Power(m.UUID, "power on")
	s.MustFinish(endLimit, s.machines[:1])
	s.healthy()

	s.WaitLeader().Kill9()
	killed := time.Now()
	s.Eventually(growLimit, "the API on the floating IP", func() error {
		reply, err := ask6(s.client, net.JoinHostPort(floating, "5050"), "/v1/introspection/"+m.UUID)
		if err == nil && (reply.Status != http.StatusOK ||
			!strings.Contains(string(reply.Body), "http://["+floating+"]:5050/v1/introspection/"+m.UUID)) {
			err = fmt.Errorf("%d %s", reply.Status, reply.Body)
		}
		return err
	})
	testenv.Took(t, "labtest.ipv6_only_address", time.Since(killed), bootLimit)
}

// sixLab is a lab whose hosts have addresses of IPv6 alone, Ironic and who boots
// on one more host.
type sixLab struct {
	*SiteLab
	client   *Host
	machines []openstack.Machine
	fleet    *machine.Fleet
}

func newSixLab(t *testing.T) *sixLab {
	testenv.NeedRoot(t, "ip")
	installGate(t)
	l := NewHosts(t)
	l.net.bridge(PXE)
	s := &sixLab{SiteLab: &SiteLab{Lab: l}, client: l.net.Host(clientHost),
		machines: []openstack.Machine{openstack.MachineNumber(0), openstack.MachineNumber(1)}}
	s.client.plug(PXE, s.client.pxe())
	s.client.withoutIPv4()
	ironic := s.serveIronic()
	l.furnish = func(p *Peer) {
		p.Host.plug(PXE, p.Host.pxe())
		p.Host.withoutIPv4()
		n := p.Host.number
		// the floating IP comes and goes
		p.API, p.Listen = fmt.Sprintf("[%s%d]:5050", siteNet6, n), []string{"", ":5050", "[::]:5050", ":5050"}[n]
		p.Cluster, p.Gossip = fmt.Sprintf("[%s%d]:7350", peersNet6, n), fmt.Sprintf("[%s%d]:7351", peersNet6, n)
		p.wire.Transport = &http.Transport{DialContext: s.client.dial}
		p.Env = append(p.Env, "TRIVET_IRONIC_ENDPOINT="+ironic, "TRIVET_FIREWALL_DRIVER=nftables",
			"TRIVET_FIREWALL_INTERFACE="+string(PXE),
			fmt.Sprint("TRIVET_FLOATING_IP_ADDRESS=", siteNet6, floatingHost), "TRIVET_FLOATING_IP_INTERFACE="+string(Site))
	}
	founder := l.Found("alpha")
	for name, listen := range map[string]string{"bravo": ":735%d", "charlie": "[::]:735%d"} {
		p := l.Add(name)
		p.Cluster, p.Gossip = fmt.Sprintf(listen, 0), fmt.Sprintf(listen, 1)
		p.Join(founder) // what it advertises is the address from which it reaches the founder
		p.Start()
	}
	s.WaitVoters(3)
	return s
}

// withoutIPv4 takes the host's IPv4 addresses away, and gives it one of IPv6
// where peers meet and on the site.
func (h *Host) withoutIPv4() {
	h.net.t.Helper()
	for l, prefix := range map[Link]string{Peers: peersNet6, Site: siteNet6, PXE: ""} {
		h.net.ip(h.number, "-4", "addr", "flush", "dev", string(l))
		if prefix != "" {
			h.net.ip(h.number, "addr", "add", fmt.Sprint(prefix, h.number, "/64"), "dev", string(l), "nodad")
		}
	}
}

// ask6 gets what is at a path, as a client on a host does.
func ask6(h *Host, addr, path string) (httpapi.Reply, error) {
	client := &http.Client{Transport: &http.Transport{DialContext: h.dial, DisableKeepAlives: true}, Timeout: time.Second}
	return httpapi.Ask(client, addr, http.MethodGet, path, nil, nil)
}

// serveIronic starts a simulated Ironic on the client's host and returns its URL.
func (s *sixLab) serveIronic() string {
	server := simironic.New(simironic.Options{})
	for _, m := range s.machines {
		enrol(s.t, server, m)
	}
	s.t.Cleanup(server.Close)
	addr := fmt.Sprintf("[%s%d]:6385", siteNet6, clientHost)
	s.client.serve(addr, server)
	return "http://" + addr
}

// boots makes a machine of the lab that posts to a URL when it is switched on.
func (s *sixLab) boots(url string) {
	s.fleet = machine.NewFleet(machine.Options{
		Callbacks: []string{url},
		Client:    &http.Client{Transport: &http.Transport{DialContext: s.client.dial}, Timeout: fleetLimit},
		Logger:    slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	s.t.Cleanup(s.fleet.Close)
	for _, m := range s.machines {
		s.fleet.Add(m.Hardware())
	}
}

// healthy wants that no peer has anything to warn of, and that all hear each
// other's gossip.
func (s *sixLab) healthy() {
	s.t.Helper()
	for _, p := range s.Peers {
		s.Eventually(electLimit, p.Name+" is content", func() error {
			st, err := p.Status()
			for _, w := range st.Warnings {
				err = errors.Join(err, fmt.Errorf("%s: %s", w.Code, w.Text))
			}
			var servers []api.Peer
			err = errors.Join(err, p.Call("GET", "/v1/peers", nil, &servers))
			for _, other := range servers {
				if !strings.Contains(other.Address, "@["+peersNet6) || other.Gossip != "alive" {
					err = errors.Join(err, fmt.Errorf("%s at %s is %s", other.Name, other.Address, other.Gossip))
				}
			}
			return err
		})
	}
}
