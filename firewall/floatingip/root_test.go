//go:build e2e

package floatingip_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall/floatingip"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// families runs a test for each, with an address that floats between hosts.
func families(t *testing.T, run func(t *testing.T, ip string)) {
	t.Run("IPv4", func(t *testing.T) { run(t, "10.9.0.100") })
	t.Run("IPv6", func(t *testing.T) { run(t, "fd09::100") })
}

// whole writes an address with the mask of a single one.
func whole(ip string) string {
	addr := netip.MustParseAddr(ip)
	return netip.PrefixFrom(addr, addr.BitLen()).String()
}

func TestKernelRemovesWhatIsNotRefreshed(t *testing.T) {
	families(t, func(t *testing.T, ip string) {
		a := newSwitch(t).newHost(1).floats(ip)
		const life = 2 * time.Second // a busy machine does not keep the test waiting for as long
		began := time.Now()
		a.put(life)
		put := time.Now()
		if !a.held() {
			t.Fatal("it is not held right after Put")
		}
		var last time.Time // before the last look that found it: what delays this test does not count
		eventually(t, "the kernel removes it", func() bool {
			now := time.Now()
			if !a.held() {
				return true
			}
			last = now
			return false
		})
		if took := time.Since(began); took < life {
			t.Errorf("it was gone after %v, want %v", took, life)
		}
		if last.After(put.Add(life + time.Second)) {
			t.Errorf("it was there %v after it was put for %v, want at most a second more", last.Sub(put), life)
		}
	})
}

func TestRefreshKeeps(t *testing.T) {
	families(t, func(t *testing.T, ip string) {
		a := newSwitch(t).newHost(1).floats(ip)
		const life = 3 * time.Second // a busy machine does not keep the test waiting for as long
		a.put(life)
		testwait.Every(t, life/4, 2*life+life/2, func() { // into the third life
			if !a.held() {
				t.Fatal("it went although it was refreshed")
			}
			a.put(life)
		})
		a.remove()
		if a.held() {
			t.Error("it is held after Remove")
		}
		a.remove()
	})
}

func TestAnnouncementMovesTheNeighbours(t *testing.T) {
	families(t, func(t *testing.T, ip string) {
		lab := newSwitch(t)
		a, b, client := lab.newHost(1).floats(ip), lab.newHost(2).floats(ip), lab.newHost(3)
		a.put(10 * time.Second)
		client.speak(ip)
		eventually(t, "the client finds the first holder", func() bool { return client.neighbour(ip) == a.mac(lan) })

		a.remove()
		b.put(10 * time.Second)
		if got := client.neighbour(ip); got != a.mac(lan) {
			t.Fatalf("the client has %q before the announcement, want the first holder still", got)
		}
		b.announce()
		eventually(t, "the client finds the second holder", func() bool { return client.neighbour(ip) == b.mac(lan) })
	})
}

func TestNothingIsAnnouncedThatIsNotHeld(t *testing.T) {
	families(t, func(t *testing.T, ip string) {
		a := newSwitch(t).newHost(1).floats(ip)
		if err := a.Try(func() error { return a.address.Announce(t.Context()) }); !errors.Is(err, floatingip.ErrNotHeld) {
			t.Errorf("Announce: %v, want ErrNotHeld", err)
		}
	})
}

func TestConflictNamesTheHolder(t *testing.T) {
	families(t, func(t *testing.T, ip string) {
		lab := newSwitch(t)
		a, b := lab.newHost(1).floats(ip), lab.newHost(2).floats(ip)
		want := func(f floating, holder string) {
			t.Helper()
			wait := 300 * time.Millisecond
			if holder != "" {
				wait = 10 * time.Second // it ends with the answer
			}
			if got, err := f.conflict(t.Context(), wait); err != nil || got != holder {
				t.Errorf("conflict with %q, %v, want %q", got, err, holder)
			}
		}
		want(b, "")
		a.put(10 * time.Second)
		want(b, a.mac(lan))
		want(a, "") // it is the holder

		lab.plug(a.host, "lan2") // answers on the same link, for what the first has
		a.Carry("lan2", "10.9.0.51/24")
		want(a, "")

		b.put(10 * time.Second)
		want(a, b.mac(lan))
		a.remove()
		b.remove()
		want(a, "")
	})
}

// TestAnnouncementOfAStrangerIsHeard has a stranger that answers no question, but
// claims the address by announcements while this host has it. (Over IPv6 a
// stranger that has the address answers, too.)
func TestAnnouncementOfAStrangerIsHeard(t *testing.T) {
	lab := newSwitch(t)
	a, stranger := lab.newHost(1).floats("10.9.0.100"), lab.newHost(2).floats("10.9.0.100")
	a.put(10 * time.Second)
	stranger.put(10 * time.Second)
	stranger.Change(lan, netlink.LinkSetARPOff) // so that it answers nothing
	if got, err := a.conflict(t.Context(), 300*time.Millisecond); err != nil || got != "" {
		t.Fatalf("before it claims anything: %q, %v", got, err)
	}
	heard := make(chan struct{}) // closed when the call below has returned
	var got string
	var err error
	go func() {
		defer close(heard)
		got, err = a.conflict(t.Context(), 9*time.Second)
	}()
	eventually(t, "the claim is heard", func() bool {
		stranger.announce()
		select {
		case <-heard:
			return true
		default:
			return false
		}
	})
	if err != nil || got != stranger.mac(lan) {
		t.Errorf("heard %q, %v, want %s", got, err, stranger.mac(lan))
	}
}

// TestARPIgnore shows with which values of the sysctl neighbours find the address
// as it is put there: doctor warns of the others. Near has an address in the
// subnet of the interface, away another.
func TestARPIgnore(t *testing.T) {
	t.Run("own address", func(t *testing.T) {
		lab := newSwitch(t)
		arpIgnore(t, lab, lab.newHost(1), map[string][2]bool{"0": {true, true}, "1": {true, true}, "2": {true, false},
			"3": {true, true}, "8": {}})
	})
	t.Run("no other address", func(t *testing.T) {
		lab, alone := newSwitch(t), newHost(t)
		lab.plug(alone, lan)
		arpIgnore(t, lab, alone, map[string][2]bool{"0": {true, true}, "1": {true, true}, "3": {}, "8": {}})
	})
}

func arpIgnore(t *testing.T, lab *switchboard, of *host, found map[string][2]bool) {
	a, near, away := of.floats("10.9.0.100"), lab.newHost(2), newHost(t)
	lab.plug(away, lan)
	away.Carry(lan, "192.0.2.7/24")
	away.Change(lan, func(link netlink.Link) error {
		return netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index,
			Dst: netlink.NewIPNet(net.ParseIP("10.9.0.100"))})
	})
	for value, want := range found {
		a.Do(func() error { return os.WriteFile("/proc/sys/net/ipv4/conf/all/arp_ignore", []byte(value), 0) })
		for i, h := range []*host{near, away} {
			a.put(10 * time.Second)
			if got := h.finds("10.9.0.100"); got != want[i] {
				t.Errorf("arp_ignore %s: neighbour %d finds the address: %v, want %v", value, i, got, want[i])
			}
		}
	}
}

func TestConflictTellsSilenceFromNoTimeToListen(t *testing.T) {
	families(t, func(t *testing.T, ip string) {
		a := newSwitch(t).newHost(1).floats(ip)
		short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		began := time.Now()
		if _, err := a.conflict(short, 9*time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("conflict: %v, want the error of the context", err)
		}
		family := "ipv4"
		if netip.MustParseAddr(ip).Is6() {
			family = "ipv6"
		}
		testenv.Took(t, "floatingip.conflict_context_"+family, time.Since(began), 2*time.Second)
	})
}

func TestLeftoversAreRemovedFromAnyInterface(t *testing.T) {
	families(t, func(t *testing.T, ip string) {
		lab := newSwitch(t)
		crashed := lab.newHost(1).floats(ip)
		crashed.put(10 * time.Second)
		lab.plug(crashed.host, "lan2")
		crashed.Carry("lan2", whole(ip)) // for good, as keepalived leaves it

		next := crashed.host.floats(ip)
		next.remove()
		if next.held() {
			t.Error("it is held after Remove")
		}
	})
}

func TestTheHostsOwnAddressIsLeftAlone(t *testing.T) {
	families(t, func(t *testing.T, ip string) {
		subnet := map[string]string{"10.9.0.100": "10.9.0.100/24", "fd09::100": "fd09::100/64"}[ip]
		for name, give := range map[string]func(*host){
			"with a shorter mask": func(h *host) { h.Carry(lan, subnet) },
			"from DHCP":           func(h *host) { h.CarryFor(lan, whole(ip), 600, 300) },
		} {
			t.Run(name, func(t *testing.T) {
				a := newSwitch(t).newHost(1).floats(ip)
				give(a.host)
				err := a.Try(func() error { return a.address.Remove(t.Context()) })
				if !errors.Is(err, floatingip.ErrForeign) || !strings.Contains(err.Error(), lan) {
					t.Errorf("Remove: %v, want ErrForeign and where it is", err)
				}
				if !a.held() {
					t.Error("the host lost its own address")
				}
			})
		}
	})
}

// TestNeverASource asks the kernel for sources where it would have liked the
// floating address: it came first, the host's own lies elsewhere, the
// destination is near, far, or everybody.
func TestNeverASource(t *testing.T) {
	route := func(h *host, to string) {
		h.Change(lan, func(link netlink.Link) error {
			dst, err := netlink.ParseIPNet(to)
			if err != nil {
				return err
			}
			return netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: dst})
		})
	}
	t.Run("IPv4", func(t *testing.T) {
		for name, own := range map[string]string{"own beside it": lan, "own elsewhere": "lan2"} {
			t.Run(name, func(t *testing.T) {
				lab := newSwitch(t)
				h := newHost(t)
				lab.plug(h, lan)
				lab.plug(h, "lan2")
				a := h.floats("10.9.0.100")
				a.put(10 * time.Second)
				h.Carry(own, "192.0.2.1/24")
				route(h, "10.9.0.0/24")
				route(h, "0.0.0.0/0")
				for _, to := range []string{"10.9.0.2", "198.51.100.1", "255.255.255.255"} {
					if got := h.speak(to); got != netip.MustParseAddr("192.0.2.1") {
						t.Errorf("the source for %s is %s", to, got)
					}
				}
			})
		}
	})
	t.Run("IPv6", func(t *testing.T) {
		lab := newSwitch(t)
		h := newHost(t)
		lab.plug(h, lan)
		lab.plug(h, "lan2")
		a := h.floats("fd09::100")
		a.put(10 * time.Second)
		h.Carry("lan2", "2001:db8::1/64")
		route(h, "fd09::/64")
		route(h, "::/0")
		for _, to := range []string{"fd09::2", "fd08::1"} {
			if got := h.speak(to); got != netip.MustParseAddr("2001:db8::1") {
				t.Errorf("the source for %s is %s", to, got)
			}
		}
	})
}

func TestInterfaceGoneAndBack(t *testing.T) {
	families(t, func(t *testing.T, ip string) {
		lab := newSwitch(t)
		a, b := lab.newHost(1).floats(ip), lab.newHost(2).floats(ip)
		fails := func(with string) {
			t.Helper()
			_, conflictErr := a.conflict(t.Context(), time.Second)
			for call, err := range map[string]error{
				"Put":      a.Try(func() error { return a.address.Put(t.Context(), time.Second) }),
				"Announce": a.Try(func() error { return a.address.Announce(t.Context()) }),
				"Conflict": conflictErr,
			} {
				if err == nil || !strings.Contains(err.Error(), with) {
					t.Errorf("%s: %v, want %q", call, err, with)
				}
			}
			a.remove()
		}
		works := func() {
			t.Helper()
			a.put(10 * time.Second)
			a.announce()
			if got, err := b.conflict(t.Context(), time.Second); err != nil || got != a.mac(lan) {
				t.Errorf("conflict with %q, %v, want %q", got, err, a.mac(lan))
			}
		}
		works()
		a.Change(lan, netlink.LinkSetDown)
		fails("lan is down")
		a.Change(lan, netlink.LinkSetUp)
		works()
		a.Change(lan, netlink.LinkDel)
		if a.held() {
			t.Error("it outlived its interface")
		}
		fails(`no interface "lan"`)
		lab.plug(a.host, lan)
		works()
	})
}

func TestInterfacesThatCannotCarry(t *testing.T) {
	lab := newSwitch(t)
	a := lab.newHost(1).floats("fd09::100")
	a.Do(func() error {
		return os.WriteFile("/proc/sys/net/ipv6/conf/"+lan+"/disable_ipv6", []byte("1"), 0)
	})
	err := a.Try(func() error { return a.address.Put(t.Context(), time.Second) })
	if err == nil || !strings.Contains(err.Error(), "net.ipv6.conf.lan.disable_ipv6") {
		t.Errorf("Put with IPv6 off: %v", err)
	}
}

func TestMissingCapabilitiesAreNamed(t *testing.T) {
	families(t, func(t *testing.T, ip string) {
		a := newSwitch(t).newHost(1).floats(ip)
		a.put(10 * time.Second)
		a.Do(func() error { // of this one thread
			header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
			var none [2]unix.CapUserData
			return unix.Capset(&header, &none[0])
		})
		_, conflictErr := a.conflict(t.Context(), time.Second)
		for _, call := range []struct {
			name string
			err  error
			want string
		}{
			{"Put", a.Try(func() error { return a.address.Put(t.Context(), time.Second) }), "CAP_NET_ADMIN"},
			{"Remove", a.Try(func() error { return a.address.Remove(t.Context()) }), "CAP_NET_ADMIN"},
			{"Announce", a.Try(func() error { return a.address.Announce(t.Context()) }), "CAP_NET_RAW"},
			{"Conflict", conflictErr, "CAP_NET_RAW"},
		} {
			if !errors.Is(call.err, unix.EPERM) || !strings.Contains(call.err.Error(), call.want) {
				t.Errorf("%s: %v, want %s", call.name, call.err, call.want)
			}
		}
	})
}
