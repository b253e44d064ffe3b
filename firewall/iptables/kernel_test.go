//go:build e2e

package iptables

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/firewall/rawsocket"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// The two ends of the cable: machines boot at far, and the host filters at near.
const (
	near = "pxe0"
	far  = "machine0"
)

var layout = firewall.Layout{Interface: near, Match: firewall.MatchEther}

// waitLimit bounds every wait for something that must come.
const waitLimit = 10 * time.Second

// onBoth runs a test on each back end, in a network namespace that it alone
// has: the thread of the subtest is in it, and ends with it.
func onBoth(t *testing.T, test func(t *testing.T, b Backend)) {
	testenv.NeedRoot(t, "iptables-legacy", "ip6tables-legacy", "iptables-nft", "ip6tables-nft")
	for _, b := range []Backend{Legacy, NFTable} {
		t.Run(string(b), func(t *testing.T) {
			namespace(t)
			test(t, b)
		})
	}
}

// namespace moves the thread of the test into a new network namespace, with a
// lock of its own: other programs of this machine are not disturbed.
func namespace(t testing.TB) {
	t.Helper()
	t.Setenv("XTABLES_LOCKFILE", filepath.Join(t.TempDir(), "xtables.lock"))
	runtime.LockOSThread() // never unlocked, so that the thread ends with the test
	must(t, unix.Unshare(unix.CLONE_NEWNET))
	must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: near}, PeerName: far}))
	for _, name := range []string{near, far, "lo"} {
		link, err := netlink.LinkByName(name)
		must(t, err)
		must(t, netlink.LinkSetUp(link))
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// site is a host that filters, the machines on its cable and what listens on it.
type site struct {
	t      testing.TB
	socket rawsocket.Socket        // for frames at the far end
	hears  map[uint16]*net.UDPConn // by port: IPv4, and IPv6 for 547
}

// free is a port that is not gated: what is sent to it comes through, and
// after everything that was sent before.
const free = 5353

func newSite(t testing.TB) *site {
	t.Helper()
	link, err := netlink.LinkByName(far)
	must(t, err)
	socket, err := rawsocket.Open(link.Attrs().Index, unix.ETH_P_IP, nil)
	must(t, err)
	s := &site{t: t, socket: socket, hears: make(map[uint16]*net.UDPConn)}
	t.Cleanup(func() { must(t, socket.Close()) })
	for _, port := range []uint16{67, 4011, free} {
		s.hears[port], err = net.ListenUDP("udp4", &net.UDPAddr{Port: int(port)})
		must(t, err)
	}
	at, err := net.InterfaceByName(near)
	must(t, err)
	s.hears[547], err = net.ListenMulticastUDP("udp6", at,
		&net.UDPAddr{IP: net.ParseIP(dhcpServers), Port: 547, Zone: near})
	must(t, err)
	t.Cleanup(func() {
		for _, c := range s.hears {
			must(t, c.Close())
		}
	})
	return s
}

// dhcpServers is the group to which DHCPv6 clients speak.
const dhcpServers = "ff02::1:2"

// frame is a datagram from a machine to everybody.
func frame(from string, port uint16) []byte {
	mac, err := net.ParseMAC(from)
	if err != nil {
		panic(err)
	}
	payload := []byte(from)
	udp := binary.BigEndian.AppendUint16(nil, 68)
	udp = binary.BigEndian.AppendUint16(udp, port)
	udp = binary.BigEndian.AppendUint16(udp, uint16(8+len(payload)))
	udp = append(udp, 0, 0) // no checksum, which IPv4 allows
	udp = append(udp, payload...)
	if port == 547 {
		return frame6(mac, udp)
	}
	ip := []byte{0x45, 0, 0, byte(20 + len(udp)), 0, 0, 0, 0, 64, unix.IPPROTO_UDP, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255}
	binary.BigEndian.PutUint16(ip[10:], rawsocket.Checksum(ip))
	return join([]byte{255, 255, 255, 255, 255, 255}, mac, []byte{8, 0}, ip, udp)
}

func frame6(mac net.HardwareAddr, udp []byte) []byte {
	from, to := net.ParseIP("fe80::5054:ff:fe00:1"), net.ParseIP(dhcpServers)
	pseudo := join(from, to, []byte{0, 0, 0, byte(len(udp)), 0, 0, 0, unix.IPPROTO_UDP}, udp)
	binary.BigEndian.PutUint16(udp[6:], rawsocket.Checksum(pseudo))
	ip := join([]byte{0x60, 0, 0, 0, 0, byte(len(udp)), unix.IPPROTO_UDP, 1}, from, to)
	return join([]byte{0x33, 0x33, 0, 1, 0, 2}, mac, []byte{0x86, 0xdd}, ip, udp)
}

func join(all ...[]byte) (out []byte) {
	for _, b := range all {
		out = append(out, b...)
	}
	return out
}

// passes reports whether a machine is heard on a gated port.
func (s *site) passes(mac string, port uint16) bool {
	s.t.Helper()
	s.send(mac, port)
	s.send(mac, free)
	c := s.hears[free]
	must(s.t, c.SetReadDeadline(time.Now().Add(waitLimit)))
	if _, _, err := c.ReadFrom(make([]byte, 64)); err != nil {
		s.t.Fatalf("the port that is not gated hears nothing from %s: %v", mac, err)
	}
	return s.arrived(port) // it is there by now, or it was dropped
}

func (s *site) send(mac string, port uint16) {
	s.t.Helper()
	must(s.t, s.socket.Send(frame(mac, port)))
}

// arrived reports whether something waits at a port, and takes it.
func (s *site) arrived(port uint16) bool {
	s.t.Helper()
	raw, err := s.hears[port].SyscallConn()
	must(s.t, err)
	var got error
	must(s.t, raw.Read(func(fd uintptr) bool {
		_, _, got = unix.Recvfrom(int(fd), make([]byte, 64), unix.MSG_DONTWAIT)
		return true
	}))
	if got != nil && !errors.Is(got, unix.EAGAIN) {
		s.t.Fatal(got)
	}
	return got == nil
}

// expect checks a machine on every gated port.
func (s *site) expect(why, mac string, want bool) {
	s.t.Helper()
	for _, port := range firewall.Gated() {
		if got := s.passes(mac, port); got != want {
			s.t.Errorf("%s: %s on port %d passes: %v, want %v", why, mac, port, got, want)
		}
	}
}

// warm waits until the cable carries both families.
func (s *site) warm() *site {
	s.t.Helper()
	testwait.UntilWithin(s.t, waitLimit, "the cable carries both families, without rules", func() bool {
		return s.passes(unknown, 67) && s.passes(unknown, 547)
	})
	return s
}

const (
	allowed = "52:54:00:00:00:01"
	denied  = "52:54:00:00:00:02"
	both    = "52:54:00:00:00:03"
	unknown = "52:54:00:00:00:04"
)

func filterOn(t testing.TB, b Backend) *Filter {
	t.Helper()
	f, err := newOn(t.Context(), layout, b)
	must(t, err)
	return f
}

func TestPackets(t *testing.T) {
	onBoth(t, func(t *testing.T, b Backend) {
		s, f, ctx := newSite(t).warm(), filterOn(t, b), t.Context()
		must(t, f.Seal(ctx))
		s.expect("sealed", allowed, false)
		must(t, f.Replace(ctx, firewall.Ruleset{Allow: []string{allowed, both}, Deny: []string{denied, both}, Pass: true}))
		s.expect("replaced", allowed, true)
		s.expect("replaced", denied, false)
		s.expect("on both lists", both, true)
		s.expect("on neither list", unknown, true)
		pass := false
		must(t, f.Change(ctx, firewall.Change{Unallow: []string{both}, Undeny: []string{denied}, Deny: []string{unknown},
			Pass: &pass}))
		s.expect("changed", allowed, true)
		s.expect("changed", both, false)
		s.expect("changed", denied, false) // by the missing pass rule
		want := firewall.Ruleset{Allow: []string{allowed}, Deny: []string{both, unknown}}
		if got, err := f.Read(ctx); err != nil || !got.Equal(want) {
			t.Errorf("read %+v, %v; want %+v", got, err, want)
		}
		must(t, Remove(ctx))
		s.expect("removed", denied, true)
		must(t, Remove(ctx))
		if left := printed(t, f, listTable) + printed(t, f, leaseTable); strings.Contains(left, "TRIVET") {
			t.Errorf("after Remove there is left:\n%s", left)
		}
	})
}

// printed is what iptables-save says of both families.
func printed(t testing.TB, f *Filter, name string) (all string) {
	t.Helper()
	for _, family := range f.tools.families {
		saved, err := runCommand(t.Context(), "", family.save, "-t", name)
		must(t, err)
		all += string(saved)
	}
	return all
}

// do runs a command of the first family, as somebody else would.
func do(t testing.TB, f *Filter, args ...string) {
	t.Helper()
	_, err := runCommand(t.Context(), "", f.tools.families[0].command, args...)
	must(t, err)
}

func TestForeignHands(t *testing.T) {
	onBoth(t, func(t *testing.T, b Backend) {
		f, ctx := filterOn(t, b), t.Context()
		rules := firewall.Ruleset{Allow: []string{allowed}, Deny: []string{denied}, Pass: true}
		for _, c := range []struct {
			what   string
			args   []string
			change bool // Change sees it too
		}{
			{"a flush of everything", []string{"-F"}, true},
			{"a flush of a list", []string{"-F", denyChain}, true},
			{"a flush of the gate", []string{"-F", gateChain}, true},
			{"the jump deleted", append([]string{"-D", input}, jump(layout, gateChain)...), true},
			{"a rule before the jump", []string{"-I", input, "1", "-p", "udp", "-j", "ACCEPT"}, false},
			{"a rule in the gate", []string{"-I", gateChain, "1", "-j", "ACCEPT"}, false},
			{"a MAC of an unknown machine", []string{"-A", allowChain, "-m", "mac", "--mac-source", unknown, "-j", "ACCEPT"},
				false},
			{"another verdict", []string{"-R", denyChain, "1", "-m", "mac", "--mac-source", denied, "-j", "ACCEPT"}, true},
		} {
			must(t, f.Replace(ctx, rules))
			do(t, f, c.args...)
			got, err := f.Read(ctx)
			if !errors.Is(err, firewall.ErrForeign) {
				t.Errorf("%s: read %+v, %v", c.what, got, err)
			}
			err = f.Change(ctx, firewall.Change{Deny: []string{unknown}})
			if c.change != errors.Is(err, firewall.ErrForeign) {
				t.Errorf("%s: change: %v", c.what, err)
			}
			must(t, f.Replace(ctx, rules))
			if got, err := f.Read(ctx); err != nil || !got.Equal(rules) {
				t.Errorf("%s: after Replace %+v, %v", c.what, got, err)
			}
		}
	})
}

func TestManyMACs(t *testing.T) {
	onBoth(t, func(t *testing.T, b Backend) {
		f, ctx := filterOn(t, b), t.Context()
		rules := firewall.Ruleset{Allow: []string{allowed}, Deny: series(10_000), Pass: true}
		began := time.Now()
		must(t, f.Replace(ctx, rules))
		built := time.Since(began)
		if got, err := f.Read(ctx); err != nil || !got.Equal(rules) {
			t.Fatalf("10,000 MACs are not read back: %d, %v", len(got.Deny), err)
		}
		began = time.Now()
		must(t, f.Change(ctx, firewall.Change{Deny: []string{both}, Undeny: []string{rules.Deny[5000]}}))
		t.Logf("full build %v, one change %v", built, time.Since(began))
		rules = rules.With(firewall.Change{Deny: []string{both}, Undeny: []string{rules.Deny[5000]}})
		if got, err := f.Read(ctx); err != nil || !got.Equal(rules) {
			t.Errorf("the change is not read back: %d, %v", len(got.Deny), err)
		}
		must(t, f.Replace(ctx, firewall.Ruleset{}))
		if left := printed(t, f, listTable); strings.Contains(left, denyChain+"-") {
			t.Errorf("parts of the long list are left:\n%s", left)
		}
	})
}

// series are n MACs in order.
func series(n int) (macs []string) {
	for i := range n {
		macs = append(macs, fmt.Sprintf("52:54:01:%02x:%02x:%02x", i>>16, i>>8&0xff, i&0xff))
	}
	return macs
}

func TestLockHeld(t *testing.T) {
	onBoth(t, func(t *testing.T, b Backend) {
		if b != Legacy {
			return // it takes no lock
		}
		f := filterOn(t, b)
		file, err := os.Create(os.Getenv("XTABLES_LOCKFILE"))
		must(t, err)
		defer file.Close()
		must(t, unix.Flock(int(file.Fd()), unix.LOCK_EX))
		limited, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		err = f.Replace(limited, firewall.Ruleset{})
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("(process %d)", os.Getpid())) {
			t.Errorf("the holder of the lock is not named: %v", err)
		}
		if err := f.Change(t.Context(), firewall.Change{}); !errors.Is(err, errUnknown) {
			t.Errorf("a change after a failure: %v", err)
		}
	})
}

// TestChoice builds rules of somebody else in one back end, and finds ours there.
func TestChoice(t *testing.T) {
	onBoth(t, func(t *testing.T, b Backend) {
		ctx := t.Context()
		old := filterOn(t, otherBackend(b))
		must(t, old.Seal(ctx))
		f, err := New(ctx, layout)
		must(t, err)
		if f.Backend() != otherBackend(b) {
			t.Errorf("ours stand in %s and the choice is %s", otherBackend(b), f.Backend())
		}
		do(t, filterOn(t, b), "-A", input, "-p", "tcp", "--dport", "9", "-j", "DROP")
		f, err = New(ctx, layout)
		must(t, err)
		if f.Backend() != b {
			t.Fatalf("the host's rules stand in %s and the choice is %s", b, f.Backend())
		}
		must(t, f.Replace(ctx, firewall.Ruleset{}))
		if left := printed(t, old, listTable); strings.Contains(left, "TRIVET") {
			t.Errorf("our chains stay in %s, where they drop:\n%s", otherBackend(b), left)
		}
	})
}

func TestNotPermitted(t *testing.T) {
	onBoth(t, func(t *testing.T, b Backend) {
		must(t, unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_NET_ADMIN, 0, 0, 0)) // of this thread, and what it starts
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var caps [2]unix.CapUserData
		must(t, unix.Capget(&header, &caps[0]))
		caps[0].Effective &^= 1 << unix.CAP_NET_ADMIN
		caps[0].Permitted &^= 1 << unix.CAP_NET_ADMIN
		must(t, unix.Capset(&header, &caps[0]))
		f, err := newOn(t.Context(), layout, b)
		if err == nil || !strings.Contains(err.Error(), "CAP_NET_ADMIN") {
			t.Errorf("without permission: %+v, %v", f, err)
		}
		t.Log(err)
	})
}

func BenchmarkReplace(b *testing.B) { benchmark(b, true) }
func BenchmarkChange(b *testing.B)  { benchmark(b, false) }

// benchmark programs lists of some lengths, as a whole or by one MAC. It reports the
// time of processors, that of the programs which it runs included, too.
func benchmark(b *testing.B, whole bool) {
	testenv.NeedRoot(b, "iptables-legacy", "iptables-nft")
	for _, backend := range []Backend{Legacy, NFTable} {
		for _, n := range []int{100, 1000, 10_000} {
			b.Run(fmt.Sprintf("%s/%d MACs", backend, n), func(b *testing.B) {
				namespace(b)
				programs(b, filterOn(b, backend), firewall.Ruleset{Deny: series(n)}, whole)
			})
		}
	}
}

func programs(b *testing.B, f *Filter, rules firewall.Ruleset, whole bool) {
	b.Helper()
	must(b, f.Replace(b.Context(), rules))
	before, odd := cpu(b), false
	for b.Loop() {
		c := firewall.Change{Deny: []string{unknown}}
		if odd = !odd; !odd {
			c = firewall.Change{Undeny: c.Deny}
		}
		if whole {
			must(b, f.Replace(b.Context(), rules))
		} else {
			must(b, f.Change(b.Context(), c))
		}
	}
	b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/op")
}

// cpu is the time of processors that this process and those it waited for took so far.
func cpu(b *testing.B) (sum time.Duration) {
	b.Helper()
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var used unix.Rusage
		must(b, unix.Getrusage(who, &used))
		sum += time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}
	return sum
}
