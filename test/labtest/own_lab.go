//go:build e2e

package labtest

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/test/labtest/httpapi"
	"github.com/trivet-ha/trivet/test/testenv"
)

// ownLab is a gate whose three hosts are guests: the process of a Peer is its
// machine. Trivet runs in it from a configuration file, beside a DHCP server.
type ownLab struct {
	*gateLab
	driver string
	guests map[*Peer]*guest
	heard  map[*asker]*listener
	report *ownReport
}

// ownLease is firewall.lease of the guests.
const ownLease = time.Second

// ownKind is what distinguishes one lab from another.
type ownKind struct {
	driver string
	lacks  []string // modules that no kernel can load
}

// newOwnLab boots three guests, makes a cluster of them, and has one machine wait
// for its ramdisk.
func (k ownKind) build(t *testing.T, report *ownReport) *ownLab {
	image := newOwnImage(t)
	sim := newSimulated(t, 3)
	l := NewHosts(t)
	l.net.bridge(PXE)
	o := &ownLab{driver: k.driver, guests: make(map[*Peer]*guest), heard: make(map[*asker]*listener), report: report}
	o.gateLab = &gateLab{SiteLab: l.Introspecting(sim.addr), machines: sim.machines, floating: l.net.site(floatingHost),
		emulated: true, awaitTaken: o.taken}
	for i, name := range []string{"alpha", "bravo", "charlie"} {
		o.add(i+1, name, image, k)
	}
	for _, p := range o.Peers {
		o.power(p)
	}
	for _, p := range o.Peers {
		o.guests[p].awake()
	}
	o.found()
	o.watch(t)
	return o
}

// add makes a peer that is a guest, and its disk.
func (o *ownLab) add(i int, name string, image ownImage, k ownKind) {
	o.t.Helper()
	p := &Peer{lab: o.Lab, t: o.t, Name: name, wire: httpapi.Client()}
	dir, from := filepath.Join(o.dir, name), filepath.Join(o.dir, name, "files")
	testenv.Must(o.t, os.MkdirAll(from, 0o755))
	site := o.net.site(i)
	p.API, p.Cluster = site+":5050", site+":7350"
	o.furnishGuest(from, p, site, k.driver)
	g := newGuest(o.t, o.net, image, i, from, dir, p.logPath())
	g.lacks = k.lacks
	p.Host, p.http = g.at, g.control()
	o.guests[p] = g
	o.Peers = append(o.Peers, p)
}

// What is on a guest's disk: its configuration, what starts with it, in the order
// of the units of the package (no DHCP server before the door could be shut),
// and what starts trivet: again after a second if it fails, as its unit does, but
// not when a test killed it. No command shuts the door of one that died: it is
// the kernel that is tried.
const (
	guestConfig = `name: %s
data_dir: /data/peer
socket: /run/trivet.sock
api: {listen: ":5050", auth_strategy: noauth}
cluster: {listen: "%[2]s:7350"}
gossip: {listen: "%[2]s:7351"}
ironic: {endpoint: "http://%[3]s"}
firewall: {driver: %[4]s, interface: pxe, lease: %[7]v}
floating_ip: {address: "%[5]s", interface: site}
raft: {timing: %[6]s}
`
	guestBoot = `#!/bin/sh
/data/trivet firewall close --offline --config /data/trivet.yaml && # no filter, no DHCP
dnsmasq --conf-file=/dev/null --port=0 --user=root --group=root --interface=pxe --bind-dynamic --dhcp-range=%s \
	--dhcp-sequential-ip --dhcp-authoritative --no-ping --dhcp-leasefile=/run/leases --pid-file=/run/dnsmasq.pid --log-facility=/run/dnsmasq.log
socat -lf /dev/null TCP-LISTEN:` + guestSocket + `,reuseaddr,fork UNIX-CONNECT:/run/trivet.sock &
[ ! -d /data/peer ] || /data/serve
`
	guestServe = `#!/bin/sh
rm -f /run/killed
setsid /data/supervise </dev/null >/dev/console 2>&1 &
`
	guestSupervise = `#!/bin/sh
until [ -e /run/killed ]; do
	/data/trivet serve --config /data/trivet.yaml &
	echo $! >/run/trivet.pid
	! wait $! || exit
	sleep 1
done
`
)

// ownTimingEnv names the variable with raft.timing of guests, for a machine that
// is too busy to emulate three with the default.
const ownTimingEnv = "TRIVET_E2E_PXE_TIMING"

func ownTiming() string { return cmp.Or(os.Getenv(ownTimingEnv), "normal") }

// furnishGuest writes what is going to be the disk of a peer's guest.
func (o *ownLab) furnishGuest(dir string, p *Peer, site, driver string) {
	o.t.Helper()
	door := o.Tap.Door(p.Name, net.JoinHostPort(o.net.Gateway, "0"))
	host := len(o.Peers) + 1
	pool := fmt.Sprintf("%s%d,%s%d,255.255.255.0,120s", pxeNet, 40*host, pxeNet, 40*host+39)
	for name, text := range map[string]string{
		"trivet.yaml": fmt.Sprintf(guestConfig, p.Name, site, door, driver, o.floating, ownTiming(), ownLease),
		"boot":        fmt.Sprintf(guestBoot, pool),
		"serve":       guestServe,
		"supervise":   guestSupervise,
	} {
		testenv.Must(o.t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
	}
	sh(o.t, "cp", os.Getenv(BinaryEnv), filepath.Join(dir, "trivet"))
}

// power switches a peer's guest on.
func (o *ownLab) power(p *Peer) {
	o.t.Helper()
	g := o.guests[p]
	g.power()
	p.proc, p.aside = g.qemu, true // until its peer answers
	p.http.CloseIdleConnections()  // nobody answers on those to what it was before
}

// found makes a cluster of the three guests.
func (o *ownLab) found() {
	o.t.Helper()
	first := o.Peers[0]
	o.guests[first].must("/data/trivet init --config /data/trivet.yaml")
	o.serve(first)
	o.WaitLeader()
	for _, p := range o.Peers[1:] {
		o.join(p, first)
		o.serve(p)
	}
	o.WaitVoters(3)
}

// join makes a peer one of the cluster of another. On a busy machine two emulated
// peers may be without a leader for a moment.
func (o *ownLab) join(p, through *Peer) {
	o.t.Helper()
	o.Eventually(guestLimit, p.Name+" joins", func() error {
		token, err := o.guests[through].try("/data/trivet token create -q --config /data/trivet.yaml")
		if err == nil {
			_, err = o.guests[p].try(
				fmt.Sprintf("/data/trivet join %s --token %s --wait 20s --config /data/trivet.yaml", through.Cluster,
					strings.TrimSpace(token)))
		}
		return err
	})
}

// watch begins to ask, and has a machine wait for its ramdisk.
func (o *ownLab) watch(t *testing.T) {
	o.client = o.net.bootClient()
	o.denied = o.boot(t, o.machines[1])
	o.address = o.client.askFor(t, "the floating IP", o.floating)
	o.Introspect(o.machines[:1])
	o.allowed = o.boot(t, o.machines[0])
	o.heard[o.allowed] = o.client.listen(t, PXE, unix.ETH_P_IP, o.allowed.q)
	o.heard[o.address] = o.client.listen(t, Site, unix.ETH_P_ARP, o.address.q)
	o.settled()
}

// taken waits as that of a gate does, in the time of machines that are emulated.
func (o *ownLab) taken(since time.Time, old int) {
	o.t.Helper()
	for _, a := range []*asker{o.allowed, o.address} {
		o.Eventually(guestLimit, "another host answers "+a.name, func() error {
			if to, _, _ := o.heard[a].handOver(since, old); to == 0 {
				return fmt.Errorf("none but host %d did", old)
			}
			return nil
		})
	}
}

// hold is D: for how long a door stays open after its last proof.
func (o *ownLab) hold() time.Duration { return 2 * ownLease }

// serve starts trivet in a guest and waits until it answers.
func (o *ownLab) serve(p *Peer) {
	o.t.Helper()
	o.guests[p].must("/data/serve")
	o.serves(p)
}

func (o *ownLab) serves(p *Peer) {
	o.t.Helper()
	o.Eventually(guestLimit, p.Name+" answers", func() error {
		_, err := p.Status()
		return err
	})
	p.aside = false
}

// signal sends a signal to the trivet of a guest. But for CONT nothing is
// expected of the peer from then on.
func (o *ownLab) signal(p *Peer, name string) {
	o.t.Helper()
	line := "kill -" + name + " $(cat /run/trivet.pid)"
	if name == "KILL" {
		line = "touch /run/killed; " + line
	}
	o.guests[p].must(line)
	p.aside = name != "CONT"
}
