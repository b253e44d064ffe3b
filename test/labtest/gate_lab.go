//go:build e2e

package labtest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/testenv"
)

// Limits of a gate.
const (
	// bootLimit is how long a machine that boots goes on asking for an offer:
	// that of iPXE. It is the goal of most figures.
	bootLimit = 7500 * time.Millisecond
	// calm is how long nothing may change before a test takes it for a fact.
	calm = time.Second
	// steadyShare of what is asked between hand-overs is to get exactly one answer.
	steadyShare = 0.99
)

// clientHost is the number of the host on which machines boot, and floatingHost
// that of the floating IP.
const (
	clientHost   = 9
	floatingHost = 200
	// relayedFamily is added to the family of a machine's transactions that
	// come through a relay: it may ask directly, too.
	relayedFamily = 128
)

// gateLab is a lab whose hosts each have a DHCP server on a LAN where machines
// boot. A client on that LAN asks for offers, and for who has the floating IP.
type gateLab struct {
	*SiteLab
	machines []openstack.Machine
	client   *Host
	driver   string
	longest  worst // times without an answer, and times that a host answered for too long
	six      bool  // IPv6 is what is asked by
	files    bool  // the lists are files for the DHCP servers
	emulated bool  // the hosts are guests, which on a busy machine miss a question or two
	floating string
	dhcp     map[*Host]*program.Process

	// The machine that waits for its ramdisk, and one that Ironic knows and
	// nobody introspects.
	allowed, denied *asker
	address         *asker // ask who has the floating IP

	right, all int // answers between hand-overs
	pardoned   int // offers to what is denied, right after a flush

	// awaitTaken is taken, of guests another.
	awaitTaken func(since time.Time, old int)
}

// installGate brings in a DHCP server, and what empties an nf_tables from the
// outside.
func installGate(t testing.TB) {
	t.Helper()
	if program.Installed("/usr/sbin/dnsmasq") && program.Installed("/usr/sbin/nft") &&
		program.Installed("/usr/sbin/iptables") {
		return
	}
	program.Install(t, "a DHCP server", "dnsmasq-base", "nftables", "iptables")
}

// gateKind is what distinguishes one gate from another.
type gateKind struct {
	machines int         // that Ironic knows, 3 if it is less
	six      bool        // machines boot, and the address floats, over IPv6
	env      []string    // of the peers
	furnish  func(*Peer) // completes a new peer, if not nil
}

func (k gateKind) build(t *testing.T, driver string) *gateLab {
	testenv.NeedRoot(t, "ip")
	installGate(t)
	sim := newSimulated(t, max(3, k.machines))
	l := NewHosts(t)
	g := &gateLab{machines: sim.machines, driver: driver, longest: make(worst), six: k.six, files: driver == "dnsmasq",
		floating: l.net.site(floatingHost), dhcp: make(map[*Host]*program.Process)}
	if k.six {
		g.floating = fmt.Sprint(siteNet6, floatingHost)
	}
	g.awaitTaken = g.taken
	g.SiteLab = l.site(siteKind{ironic: sim.addr, driver: driver, floating: g.floating, on: Site, env: k.env,
		furnish: func(p *Peer) {
			g.prepare(p)
			if k.furnish != nil {
				k.furnish(p)
			}
		}})
	g.Trio()
	for _, p := range g.Peers {
		g.serveDHCP(p.Host)
	}
	g.client = l.net.bootClient()
	g.denied = g.boot(t, g.machines[1])
	if !k.six {
		g.address = g.client.askFor(t, "the floating IP", g.floating)
		return g
	}
	question := whoIs{hardware(t, mac(Site, clientHost)), netip.MustParseAddr(g.floating)}
	g.address = g.client.ask(t, "the floating IP", Site, unix.ETH_P_IPV6, question)
	return g
}

// pxe is the host's address where machines boot.
func (h *Host) pxe() string { return fmt.Sprint(pxeNet, h.number) }

// hostsDir is where a host's DHCP server finds the lists of driver dnsmasq.
func (g *gateLab) hostsDir(h *Host) string {
	return filepath.Join(g.dir, fmt.Sprintf("hosts%d", h.number))
}

// prepare does for driver dnsmasq what the unit does at boot, before peer and
// DHCP server start.
func (g *gateLab) prepare(p *Peer) {
	if !g.files {
		return
	}
	g.t.Helper()
	p.Env = append(p.Env, "TRIVET_FIREWALL_DHCP_HOSTSDIR="+g.hostsDir(p.Host))
	p.Host.sh(os.Getenv(BinaryEnv), "firewall", "close", "--offline", "--purge", "--config", "/dev/null",
		"--firewall-driver", "dnsmasq", "--firewall-interface", string(PXE), "--firewall-dhcp-hostsdir", g.hostsDir(p.Host))
}

// serveDHCP starts a DHCP server, of both versions of IP, with pools of its own
// on a host. It asks nobody whether an address is free, and logs to a file.
func (g *gateLab) serveDHCP(h *Host) {
	g.t.Helper()
	pool := fmt.Sprintf("%s%d,%s%d,255.255.255.0,120s", pxeNet, 40*h.number, pxeNet, 40*h.number+39)
	pool6 := fmt.Sprintf("%s%d000,%s%dfff,64,120s", pxeNet6, h.number, pxeNet6, h.number)
	words := []string{"--conf-file=/dev/null", "--port=0", "--interface=" + string(PXE), "--bind-dynamic",
		"--dhcp-range=" + pool, "--dhcp-range=" + pool6, "--dhcp-sequential-ip", "--dhcp-authoritative", "--no-ping"}
	if g.files {
		words = append(words, "--dhcp-hostsdir="+g.hostsDir(h))
	}
	g.dhcp[h] = h.dnsmasq(filepath.Join(g.dir, fmt.Sprintf("dhcp%d", h.number)), words...)
}

// boot asks for an offer to a machine, by the lab's version of IP.
func (g *gateLab) boot(t *testing.T, m openstack.Machine) *asker {
	t.Helper()
	if g.six {
		return g.solicit(t, m)
	}
	return g.discover(t, m)
}

// waits has a machine wait for its ramdisk, and ask for offers.
func (g *gateLab) waits(t *testing.T) {
	t.Helper()
	g.Introspect(g.machines[:1])
	g.allowed = g.boot(t, g.machines[0])
}

// discover asks for an offer of DHCP over IPv4.
func (g *gateLab) discover(t *testing.T, m openstack.Machine) *asker {
	t.Helper()
	at := hardware(t, m.MAC)
	return g.client.ask(t, "an offer to "+m.Name, PXE, unix.ETH_P_IP, discover{mac: at, family: uint32(at[5]) + 1})
}

// solicit asks for an offer of DHCPv6. Answers come to the machine's own
// address, for which the client's kernel answers to neighbours.
func (g *gateLab) solicit(t *testing.T, m openstack.Machine) *asker {
	t.Helper()
	at := hardware(t, m.MAC)
	g.net.ip(clientHost, "addr", "replace", linkLocal(at).String()+"/64", "dev", string(PXE), "nodad")
	return g.client.ask(t, "an advertisement to "+m.Name, PXE, unix.ETH_P_IPV6, solicit{at})
}

func hardware(t testing.TB, text string) net.HardwareAddr {
	t.Helper()
	at, err := net.ParseMAC(text)
	testenv.Must(t, err)
	return at
}

// silent waits until nobody has answered for a while.
func (g *gateLab) silent(limit time.Duration, askers ...*asker) {
	g.t.Helper()
	for _, a := range askers {
		g.Eventually(limit, "nobody answers "+a.name, func() error {
			if all := a.since(time.Now().Add(-calm)); answered(all) > 0 || len(all) < 2 {
				return fmt.Errorf("%d of the last %d times somebody did", answered(all), len(all))
			}
			return nil
		})
	}
}

// settled waits until the leader's host, and no other, has answered for a while.
func (g *gateLab) settled() *Peer {
	g.t.Helper()
	var leader *Peer
	limit := growLimit
	if g.emulated {
		limit = guestLimit
	}
	g.Eventually(limit, "the leader's host alone answers", func() (err error) {
		leader, err = g.agreedLeader()
		if err != nil {
			return err
		}
		for _, a := range []*asker{g.allowed, g.address} {
			all := a.since(time.Now().Add(-calm))
			n := steady(all, leader.Host.number)
			if enough := n == len(all) || g.emulated && n == answered(all) && 2*n >= len(all); !enough || n < 2 {
				err = errors.Join(err, fmt.Errorf("ask for %s: %d of %d by host %d alone", a.name, n, len(all), leader.Host.number))
			}
		}
		return err
	})
	return leader
}

// taken waits until a host other than the old one answers.
func (g *gateLab) taken(since time.Time, old int) {
	g.t.Helper()
	for _, a := range []*asker{g.allowed, g.address} {
		g.Eventually(electLimit, "another host answers "+a.name, func() error {
			if h := judge(a.since(since), old); h.to == 0 {
				return fmt.Errorf("%d of %d times host %d did", answered(a.since(since)), len(a.since(since)), old)
			}
			return nil
		})
	}
}

// filter is what a peer says of its own.
func (p *Peer) filter() (api.Firewall, error) {
	var rows []api.Firewall
	if err := p.Call("GET", "/v1/firewall", nil, &rows); err != nil {
		return api.Firewall{}, err
	}
	if len(rows) != 1 {
		return api.Firewall{}, fmt.Errorf("%d rows, want its own", len(rows))
	}
	return rows[0], nil
}
