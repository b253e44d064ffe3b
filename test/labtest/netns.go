//go:build e2e

package labtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/trivet-ha/trivet/test/testenv"
)

// Net is the network of a lab: hosts in network namespaces of their own, on
// switches in one more. The switch "peers" joins the hosts alone; the switch
// "site" also has the tester on it, and with it Ironic and whatever else the lab
// serves; on the switch "pxe" machines boot, where a lab has any. Its methods are
// for the goroutine of the test.
type Net struct {
	t      testing.TB
	prefix string // of the namespaces' names
	block  int    // third byte of the site's addresses

	// Gateway is the tester's address on the site.
	Gateway string
}

// Link is one of a host's cables.
type Link string

// The cables of a host, by the switch they lead to.
const (
	Peers Link = "peers"
	Site  Link = "site"
	PXE   Link = "pxe"
)

// Prefixes of the networks. Peers meet, and machines boot, in networks that no
// other namespace sees; the site's is one that lies in the tester's own
// namespace too, so its third byte is one that is free there.
const (
	peersNet = "10.214.0."
	siteNet  = "10.213."
	pxeNet   = "10.212.0."

	// Machines may boot, and an address may float, over IPv6 as well.
	pxeNet6  = "fd12::"
	siteNet6 = "fd13::"
)

// nsPrefix begins the names of all namespaces of all labs; the ID of the
// tester's process follows.
const nsPrefix = "trivet-lab-"

// NewNet builds a network without hosts. It is gone when the test ends, and
// what a tester that died left behind goes first.
func NewNet(t testing.TB) *Net {
	t.Helper()
	testenv.NeedRoot(t, "ip")
	sweepDead(t)
	n := claim(t)
	t.Cleanup(n.close)
	for _, l := range []Link{Peers, Site} {
		n.bridge(l)
	}
	// A name in the tester's namespace, at most 15 characters.
	cable := "tv" + strconv.FormatInt(int64(os.Getpid()), 36) + n.prefix[len(n.prefix)-4:]
	// Made from here: the namespace of this process's ID is that of its first thread, on
	// which an asker may be in another one just then.
	sh(t, "ip", "link", "add", cable, "type", "veth", "peer", "name", "tester", "netns", n.ns(0))
	n.ip(0, "link", "set", "tester", "master", string(Site), "up")
	n.Gateway = n.site(254)
	sh(t, "ip", "addr", "add", n.Gateway+"/24", "dev", cable)
	sh(t, "ip", "link", "set", cable, "up")
	return n
}

// bridge adds a switch.
func (n *Net) bridge(l Link) {
	n.t.Helper()
	n.ip(0, "link", "add", string(l), "type", "bridge", "forward_delay", "0", "stp_state", "0", "mcast_snooping", "0")
	n.ip(0, "link", "set", string(l), "up")
}

// claim takes a third byte of the site's network that no interface here has yet,
// and that no other lab of this tester has: the namespace of the switches is
// named after it.
func claim(t testing.TB) *Net {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	testenv.Must(t, err)
	used := fmt.Sprint(addrs)
	start := rand.IntN(256)
	for i := range 256 {
		block := (start + i) % 256
		n := &Net{t: t, prefix: fmt.Sprintf("%s%d-%04x", nsPrefix, os.Getpid(), block), block: block}
		if !strings.Contains(used, fmt.Sprintf("%s%d.", siteNet, block)) &&
			exec.Command("ip", "netns", "add", n.ns(0)).Run() == nil {
			return n
		}
	}
	t.Fatalf("labtest: every network %sN.0/24 is in use, or no namespace can be added", siteNet)
	return nil
}

func (n *Net) site(host int) string { return fmt.Sprintf("%s%d.%d", siteNet, n.block, host) }

// ns names the namespace of a host; 0 is that of the switches.
func (n *Net) ns(host int) string { return fmt.Sprintf("%s-h%d", n.prefix, host) }

// ip configures the namespace of a host.
func (n *Net) ip(host int, words ...string) {
	n.t.Helper()
	sh(n.t, append([]string{"ip", "-n", n.ns(host)}, words...)...)
}

// Host is a place of its own for a process.
type Host struct {
	net    *Net
	number int // from 1

	// Peers and Site are its addresses on the two switches.
	Peers, Site string
}

// Host adds host number i, from 1, to both switches.
func (n *Net) Host(i int) *Host {
	n.t.Helper()
	h := n.bare(i)
	h.plug(Peers, h.Peers)
	h.plug(Site, h.Site)
	return h
}

// bare adds a host without a cable.
func (n *Net) bare(i int) *Host {
	n.t.Helper()
	sh(n.t, "ip", "netns", "add", n.ns(i))
	n.ip(i, "link", "set", "lo", "up")
	return &Host{net: n, number: i, Peers: peersNet + strconv.Itoa(i), Site: n.site(i)}
}

// plug leads a cable from a switch to the host, whose end has an address.
func (h *Host) plug(l Link, addr string) {
	h.net.t.Helper()
	n, port := h.net, h.port(l)
	n.ip(0, "link", "add", port, "type", "veth", "peer", "name", string(l), "netns", n.ns(h.number))
	n.ip(0, "link", "set", port, "master", string(l), "up")
	n.ip(h.number, "link", "set", string(l), "address", mac(l, h.number))
	n.ip(h.number, "addr", "add", addr+"/24", "dev", string(l))
	if l == PXE {
		n.ip(h.number, "addr", "add", fmt.Sprint(pxeNet6, h.number, "/64"), "dev", string(l), "nodad")
	}
	n.ip(h.number, "link", "set", string(l), "up")
}

// mac is the hardware address of a host's end of a cable: whoever reads an
// answer sees by its last byte whose it is.
func mac(l Link, host int) string { return fmt.Sprintf("02:00:00:%02x:00:%02x", l[0], host) }

// port names the switch's end of a cable.
func (h *Host) port(l Link) string { return fmt.Sprintf("%s%d", l, h.number) }

// Cut takes cables off their switches. The host sees no loss of carrier:
// nothing it sends arrives, and nobody refuses it.
func (h *Host) Cut(links ...Link) {
	h.net.t.Helper()
	for _, l := range links {
		h.net.ip(0, "link", "set", h.port(l), "nomaster")
	}
}

// Heal puts the cables to the peers and the site back.
func (h *Host) Heal() {
	h.net.t.Helper()
	for _, l := range []Link{Peers, Site} {
		h.net.ip(0, "link", "set", h.port(l), "master", string(l))
	}
}

// Shape has the switch send to the host, and the host to the switch, as a queueing
// discipline of tc says, such as "tbf", "rate", "8mbit", …; without one at once again.
func (h *Host) Shape(l Link, discipline ...string) {
	h.net.t.Helper()
	for ns, dev := range map[string]string{h.net.ns(0): h.port(l), h.net.ns(h.number): string(l)} {
		words := []string{"tc", "-n", ns, "qdisc", "replace", "dev", dev, "root"}
		if len(discipline) == 0 {
			words[4] = "del"
		}
		sh(h.net.t, append(words, discipline...)...)
	}
}

// Command prepares a command that runs on the host; a nil host is the tester's
// own. The process that is started becomes the command.
func (h *Host) Command(name string, args ...string) *exec.Cmd {
	if h == nil {
		return exec.Command(name, args...)
	}
	return exec.Command("ip", append([]string{"netns", "exec", h.net.ns(h.number), name}, args...)...)
}

// sh runs a command on the host that has to succeed.
func (h *Host) sh(words ...string) {
	h.net.t.Helper()
	sh(h.net.t, h.Command(words[0], words[1:]...).Args...)
}

// bootClient adds the host on which machines boot.
func (n *Net) bootClient() *Host {
	n.t.Helper()
	h := n.Host(clientHost)
	h.plug(PXE, h.pxe())
	return h
}

// dial connects from the host to an address, not to a name.
func (h *Host) dial(ctx context.Context, network, addr string) (conn net.Conn, err error) {
	err = h.enter(func() (err error) {
		conn, err = new(net.Dialer).DialContext(ctx, network, addr)
		return err
	})
	return conn, err
}

// listenTCP takes an address of the host.
func (h *Host) listenTCP(addr string) (l net.Listener) {
	h.net.t.Helper()
	testenv.Must(h.net.t, h.enter(func() (err error) {
		l, err = net.Listen("tcp", addr)
		return err
	}))
	return l
}

// serve answers requests at an address of the host until the test ends.
func (h *Host) serve(addr string, handler http.Handler) {
	h.net.t.Helper()
	listener := h.listenTCP(addr)
	web := &http.Server{Handler: handler, ReadHeaderTimeout: callLimit}
	go func() { _ = web.Serve(listener) }()     // ends with Close, and says no more than that
	h.net.t.Cleanup(func() { _ = web.Close() }) // what is under way is of no interest any more
}

func (n *Net) close() {
	names, err := namespaces()
	if err != nil {
		n.t.Errorf("clean up the network: %v", err)
		return
	}
	for _, name := range names {
		if strings.HasPrefix(name, n.prefix+"-") {
			if err := removeNamespace(name); err != nil {
				n.t.Errorf("clean up the network: %v", err)
			}
		}
	}
}

// namespaces lists those that have a name.
func namespaces() ([]string, error) {
	entries, err := os.ReadDir("/run/netns")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

// removeNamespace ends what runs in a lab's namespace and deletes it; its links
// go with it.
func removeNamespace(name string) error {
	out, err := exec.Command("ip", "netns", "pids", name).Output()
	if err != nil {
		return fmt.Errorf("processes in namespace %s: %w", name, err)
	}
	for _, word := range strings.Fields(string(out)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			return err
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("process %d in namespace %s: %w", pid, name, err)
		}
	}
	if out, err := exec.Command("ip", "netns", "del", name).CombinedOutput(); err != nil {
		return fmt.Errorf("delete namespace %s: %w: %s", name, err, out)
	}
	return nil
}

// sweepDead removes the networks of testers that do not run any more.
func sweepDead(t testing.TB) {
	t.Helper()
	names, err := namespaces()
	if err != nil {
		t.Fatalf("look for leftovers: %v", err)
	}
	owner := regexp.MustCompile(`^` + nsPrefix + `(\d+)-`)
	for _, name := range names {
		found := owner.FindStringSubmatch(name)
		if found == nil {
			continue
		}
		if _, err := os.Stat("/proc/" + found[1]); !errors.Is(err, os.ErrNotExist) {
			continue // it lives, or its ID was given to another: then the next sweep gets it
		}
		err := removeNamespace(name)
		if _, gone := os.Stat("/run/netns/" + name); err != nil && !errors.Is(gone, os.ErrNotExist) {
			t.Fatalf("remove what a dead test left: %v", err) // else another tester was faster
		}
	}
}
