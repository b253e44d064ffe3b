//go:build e2e

package labtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/firewall/pxe"
	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// foreignHost is the number of the host with another DHCP server.
const foreignHost = 20

// Words of the stand-in for the ramdisk, on the console.
const (
	saysHost     = "lab: booted from host "
	saysFloating = "lab: the floating IP answered"
	saysEnd      = "lab: end"
)

// standIn is booted in place of the ramdisk: a script of iPXE that says from
// which host it came and asks the floating IP for its versions. It stays.
const standIn = `#!ipxe
echo ` + saysHost + `%d
imgfetch --timeout 10000 --name answer http://%s/ && echo ` + saysFloating + ` || echo lab: it did not
echo ` + saysEnd + `
:stay
sleep 60
goto stay
`

// Names of the stand-in and its companion in the TFTP root.
const (
	standInName   = "ironic-agent.kernel"
	companionName = "ironic-agent.initramfs"
)

// far is the cable to the network behind a relay.
const far Link = "far"

// The prefix of that network, and the relay's number among the hosts.
const (
	farNet    = "10.211.0."
	relayHost = 8
)

// romKind is what distinguishes one lab of real machines from another.
type romKind struct {
	machines int  // that Ironic knows
	six      bool // the hosts have no IPv4 where machines boot
	relayed  bool // machines are behind a relay
	ether    bool // what the relay passes on is dropped; it asks another server as well
	apart    bool // the floating IP is not on the machines' LAN
}

// romLab is three hosts that serve DHCP and TFTP as dnsmasq-config says, and a
// LAN for virtual machines with real firmware. The floating IP is on that LAN,
// or apart from it.
type romLab struct {
	*SiteLab
	romKind
	machines []openstack.Machine
	floating string // host:port
	lan      Link   // of the machines
	wire     wire
	dhcp     map[*Host]*program.Process
}

func (k romKind) build(t *testing.T) *romLab {
	t.Helper()
	sim := newSimulated(t, k.machines)
	l := NewHosts(t)
	kind := siteKind{ironic: sim.addr, driver: "nftables", floating: fmt.Sprint(pxeNet, floatingHost), on: PXE,
		furnish: func(p *Peer) {
			if k.six {
				l.net.ip(p.Host.number, "addr", "del", p.Host.pxe()+"/24", "dev", string(PXE))
			}
		}}
	switch {
	case k.six:
		kind.floating = fmt.Sprint(pxeNet6, floatingHost)
	case k.apart:
		kind.floating, kind.on = l.net.site(floatingHost), Site
	}
	if k.relayed && !k.ether {
		kind.env = []string{"TRIVET_FIREWALL_MATCH=chaddr"}
	}
	r := &romLab{romKind: k, SiteLab: l.site(kind), machines: sim.machines, lan: PXE,
		dhcp: make(map[*Host]*program.Process)}
	r.floating = netip.AddrPortFrom(netip.MustParseAddr(kind.floating), 5050).String()
	r.Trio()
	if k.relayed {
		r.relay()
	}
	for _, p := range r.Peers {
		r.furnishBoot(p, kind.floating)
		r.serveDHCP(p)
	}
	r.wire.listen(t, l.net, PXE)
	return r
}

func (l *romLab) root(p *Peer) string { return filepath.Join(l.dir, p.Name+"-boot") }

// furnishBoot fills the TFTP root of a peer's host with what dnsmasq-config
// names, and writes both of its documents.
func (l *romLab) furnishBoot(p *Peer, floating string) {
	l.t.Helper()
	root := l.root(p)
	testenv.Must(l.t, os.Mkdir(root, 0o755))
	for _, loader := range []string{biosLoader, uefiLoader} {
		sh(l.t, "cp", loader, root)
	}
	words := []any{"dnsmasq-config", p.On(), "--firewall-interface", string(PXE), "--floating-ip-address", floating,
		"--floating-ip-interface", string(PXE)}
	files := map[string]string{
		standInName:   fmt.Sprintf(standIn, p.Host.number, l.floating),
		companionName: strings.Repeat("not a ramdisk\n", 1<<12),
		pxe.ScriptName: p.Must(
			append(words, "--boot-script", "--api-listen", ":5050", "--api-tls-certificate", "off")...),
		"dnsmasq.conf":     p.Must(append(words, "--tftp-root", root)...),
		"dnsmasq-far.conf": l.farPool(p.Host),
	}
	for name, text := range files {
		testenv.Must(l.t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
	}
}

// serveDHCP starts dnsmasq on a peer's host with what the peer printed.
func (l *romLab) serveDHCP(p *Peer) {
	l.t.Helper()
	conf := "--conf-file=" + l.root(p)
	l.dhcp[p.Host] = p.Host.dnsmasq(l.root(p), conf+"/dnsmasq.conf", conf+"/dnsmasq-far.conf")
}

// relay puts a network behind a real DHCP relay, which forwards what machines
// ask to every host, and routes.
func (l *romLab) relay() {
	l.t.Helper()
	n := l.net
	n.bridge(far)
	h := n.bare(relayHost)
	h.plug(PXE, h.pxe())
	h.plug(far, farNet+"1")
	words := []string{"--conf-file=/dev/null", "--port=0"}
	for _, p := range l.Peers {
		words = append(words, "--dhcp-relay="+farNet+"1,"+p.Host.pxe())
		n.ip(p.Host.number, "route", "add", farNet+"0/24", "via", h.pxe())
	}
	if l.ether {
		words = append(words, fmt.Sprint("--dhcp-relay=", farNet, "1,", pxeNet, foreignHost))
	}
	h.sh("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
	h.dnsmasq(filepath.Join(l.dir, "relay"), words...)
	l.lan = far
	l.wire.listen(l.t, n, far)
}

// farPool is what a host gives away behind the relay; "" where there is none.
func (l *romLab) farPool(h *Host) string {
	if !l.relayed {
		return ""
	}
	first := 64 * h.number
	return fmt.Sprintf("dhcp-range=set:far,%s%d,%s%d,255.255.255.0,1800s\ndhcp-option=tag:far,option:router,%s1\n", farNet,
		first-32, farNet, first+31-32, farNet)
}

// explains waits until every peer that answers says, of its own host, that the
// machine boots from that host alone; 0 is none. It returns the leader's reason.
func (l *romLab) explains(m openstack.Machine, host int) (why string, err error) {
	err = testwait.Poll(context.Background(), bootLimit, "every peer says from which host "+m.Name+" boots",
		func() (err error) {
			why, err = l.explained(m, host)
			return err
		})
	return why, err
}

func (l *romLab) explained(m openstack.Machine, host int) (why string, err error) {
	asked := l.Running()[0]
	r := asked.Trivet("firewall", "explain", m.MAC, "-o", "json", asked.On())
	var rows []api.Explanation
	if err := json.Unmarshal([]byte(r.Out), &rows); err != nil {
		return "", fmt.Errorf("explain: exit %d, %w: %s%s", r.Code, err, r.Out, r.Err)
	}
	told := 0
	for _, p := range l.Peers {
		for _, x := range rows {
			if x.Peer != p.Name || x.Error != "" {
				continue
			}
			told++
			if x.Verdict == "unknown" || (x.Verdict == "accept") != (p.Host.number == host) {
				err = errors.Join(err, fmt.Errorf("explain: %s says of %s: %s: %s", p.Name, m.Name, x.Verdict, x.Why))
			}
			if x.Role == "leader" {
				why = x.Why
			}
		}
	}
	if told < len(l.Running()) {
		err = errors.Join(err, fmt.Errorf("explain: %d of %d peers answered: %s", told, len(l.Running()), r.Out))
	}
	return why, err
}
