//go:build e2e

package host

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/firewall/floatingip"
	"github.com/trivet-ha/trivet/test/netns"
	"github.com/trivet-ha/trivet/test/testwait"
)

// gated is a host of 10.9.0.1 whose floating IP, 10.9.0.100, waits for its lease. The client
// knows the MAC that had it.
func gated(t *testing.T) *holder {
	t.Helper()
	h := newHolder(t, "10.9.0.100", "10.9.0.1/24", "10.9.0.2/24")
	h.expect("without a gate", true)
	h.do(h.address.gate.Arm, shown)
	return h
}

// conf is the configuration of a host whose PXE service needs no door.
func (h *holder) conf() config.Config {
	return config.Config{Firewall: config.Firewall{Driver: Noop},
		FloatingIP: config.FloatingIP{Address: h.ip, Interface: site}}
}

// nft runs a script of nft on the host.
func (h *holder) nft(script string) {
	h.t.Helper()
	h.Do(func() error {
		c := exec.Command("nft", "-f", "-")
		c.Stdin = strings.NewReader(script)
		return c.Run()
	})
}

// ownAddressAnswers has the host get the address as its own, and fails unless it answers.
func (h *holder) ownAddressAnswers(when string) {
	h.t.Helper()
	h.Carry(site, h.ip+"/24")
	if !h.packets() {
		h.t.Errorf("address-left: %s: an address that the host has as its own is silent; tables %q", when, h.tables())
	}
}

// overdue is the context of a process that was stopped: its deadline has passed, its timer has
// not fired.
type overdue struct{ context.Context }

func (overdue) Deadline() (time.Time, bool) { return time.Now().Add(-time.Second), true }

// TestArmThatCannotTell leaves the gate as it is where the kernel cannot be asked whether the
// address is the host's own.
func TestArmThatCannotTell(t *testing.T) {
	h := gated(t)
	h.do(h.address.gate.Open, silence)
	testwait.Until(t, "the end of the lease", func() bool { return !h.packets() })
	h.refuses(context.DeadlineExceeded, func(_ context.Context, d time.Duration) error {
		return h.address.gate.Arm(overdue{t.Context()}, d)
	})
	h.expect("after a failed Arm", false)
}

// TestTablesOfAnotherAreNotHeld: who flushed the rules and built them anew has let the address
// out; that is no lease that lapsed, after which the address may stay.
func TestTablesOfAnotherAreNotHeld(t *testing.T) {
	h := gated(t)
	h.do(h.address.gate.Open, shown)
	h.nft("flush ruleset")
	h.open()
	h.refuses(firewall.ErrForeign, h.address.gate.Hold)
}

// TestForwardedAnswersAreGated: a container's answers leave with the address, too.
func TestForwardedAnswersAreGated(t *testing.T) {
	h := gated(t)
	container := netns.New(t)
	h.Cable("docker0", container, "eth0")
	h.Carry("docker0", "10.8.0.1/24")
	container.Carry("eth0", "10.8.0.2/24")
	container.Do(func() error { return exec.Command("ip", "route", "add", "default", "via", "10.8.0.1").Run() })
	h.Do(func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0) })
	h.nft("table ip nat { chain pre { type nat hook prerouting priority -100; " +
		"ip daddr 10.9.0.100 tcp dport 9 dnat to 10.8.0.2:9\n}\n}")
	h.expect("a published port, before the lease", false)
	h.do(h.address.gate.Open, shown)
	h.expect("a published port, under the lease", true)
}

// TestTablesThatCannotBeBuilt: a process that cannot build the gate removes what an earlier one
// left of it, which nothing would end any more.
func TestTablesThatCannotBeBuilt(t *testing.T) {
	h := gated(t)
	var release func() error
	h.Do(func() (err error) {
		release, err = ownTable("arp trivet_address_probe") // which no other program may change
		return err
	})
	h.Do(func() (err error) {
		h.address, err = NewAddress(h.conf().FloatingIP, slog.New(slog.DiscardHandler))
		return err
	})
	if err := release(); err != nil {
		t.Error(err)
	}
	if h.address.gate != nil {
		t.Fatal("the gate was built")
	}
	h.remove()
	h.expect("held without a gate", true)
	h.remove()
	h.Do(func() error { return h.address.Close(t.Context()) })
	h.ownAddressAnswers("after a process that could not build the gate")
}

// ownTable has a process of nft own a table until release is called.
func ownTable(name string) (release func() error, err error) {
	c := exec.Command("nft", "-i")
	in, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	release = func() error { return errors.Join(in.Close(), c.Wait()) }
	if _, err := io.WriteString(in, "add table "+name+" { flags owner; }\nlist tables\n"); err != nil {
		return nil, errors.Join(err, release())
	}
	said := make([]byte, 0, 4096)
	for !strings.Contains(string(said), "table "+name) { // it has answered
		n, err := out.Read(said[len(said):cap(said)])
		if said = said[:len(said)+n]; err != nil {
			return nil, errors.Join(err, release())
		}
	}
	return release, nil
}

// together does something in the host's namespace from two threads at once.
func (h *holder) together(what func() error) {
	h.t.Helper()
	fd, failed := h.FD(), make([]error, 2)
	var work sync.WaitGroup
	for i := range failed {
		work.Go(func() {
			runtime.LockOSThread() // and never unlocked: the thread ends in that namespace
			if failed[i] = unix.Setns(fd, unix.CLONE_NEWNET); failed[i] == nil {
				failed[i] = what()
			}
		})
	}
	work.Wait()
	if err := errors.Join(failed...); err != nil {
		h.t.Errorf("address-left: %v", err)
	}
}

// TestProcessesAskTheKernelAtOnce: what one builds to see what the kernel can do is in no
// other's way.
func TestProcessesAskTheKernelAtOnce(t *testing.T) {
	h := gated(t)
	h.together(func() error {
		for range 20 {
			a, err := NewAddress(h.conf().FloatingIP, slog.New(slog.DiscardHandler))
			if err != nil {
				return err
			}
			if a.gate == nil {
				return errors.New("the kernel could not gate the address, beside another that asked")
			}
			if err := a.gate.Lease.Close(); err != nil {
				return err
			}
		}
		return nil
	})
	h.together(func() error { return CloseOffline(t.Context(), h.conf()) })
	h.ownAddressAnswers("after two that took the address away at once")
}

// expiring ends when it was asked so many times.
type expiring struct {
	context.Context
	left int
}

func (e *expiring) Err() error {
	if e.left--; e.left < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// TestGateEndsWithTheAddress, also where the kernel took all the time that there was to
// remove it.
func TestGateEndsWithTheAddress(t *testing.T) {
	h := gated(t)
	h.do(h.address.Put, time.Second)
	if err := h.Try(func() error { return h.address.Remove(&expiring{t.Context(), 2}) }); err != nil {
		t.Logf("Remove: %v", err)
	}
	h.ownAddressAnswers("after the address was removed in the last moment")
}

// TestOwnAddressIsNotPut: what the host has as its own keeps its life, with a gate and without.
func TestOwnAddressIsNotPut(t *testing.T) {
	for _, made := range [][3]string{
		{"10.9.0.100", "10.9.0.1/24", "10.9.0.2/24"}, {"fd09::100", "fd09::1/64", "fd09::2/64"},
	} {
		h := newHolder(t, made[0], made[1], made[2])
		_, mask, _ := strings.Cut(made[1], "/")
		h.Carry(site, made[0]+"/"+mask)
		h.refuses(floatingip.ErrForeign, func(ctx context.Context, _ time.Duration) error {
			return h.address.Put(ctx, time.Second)
		})
	}
}

// TestAnnouncementsEndWithTheLease: no table sees what a packet socket sends.
func TestAnnouncementsEndWithTheLease(t *testing.T) {
	h := gated(t)
	h.do(h.address.Put, 5*time.Second)
	h.refuses(context.DeadlineExceeded, func(context.Context, time.Duration) error {
		return h.address.Announce(&expiring{t.Context(), 1}) // when it opens its sockets
	})
}

// TestDriverIsNotChangedByAFailure: a kernel that cannot be asked this once has nf_tables all the
// same, and rules of iptables would stay below a filter that does not know them.
func TestDriverIsNotChangedByAFailure(t *testing.T) {
	h := gated(t)
	c := config.Config{Firewall: config.Firewall{Driver: "auto", Interface: site, Match: "ether",
		Lease: 400 * time.Millisecond}}
	var release func() error
	h.Do(func() (err error) {
		release, err = ownTable("inet trivet_pxe_probe")
		return err
	})
	defer func() {
		if err := release(); err != nil {
			t.Error(err)
		}
	}()
	h.refuses(unix.EPERM, func(ctx context.Context, _ time.Duration) error { return CloseOffline(ctx, c) })
	if f := New(c.Firewall, slog.New(slog.DiscardHandler)); f.Driver == "iptables" {
		t.Errorf("driver-kept: the filter is of driver %s", f.Driver)
	}
	h.Do(func() error {
		rules, err := exec.Command("iptables", "-S").Output()
		if strings.Contains(string(rules), "TRIVET") {
			t.Errorf("driver-kept: iptables has\n%s", rules)
		}
		return err
	})
}
