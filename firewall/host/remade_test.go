package host

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/firewall/netif"
	"github.com/trivet-ha/trivet/firewall/nftables"
	"github.com/trivet-ha/trivet/test/hostkernel"
	"github.com/trivet-ha/trivet/test/testwait"
)

// TestAFilterThatComesLate wants a host to get its filter without a restart, and
// the lists to be told.
func TestAFilterThatComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := errors.New("too busy"), errors.New("no directory")
		tries, closed := 0, false
		kernel := &hostkernel.Model{}
		watched := make(chan struct{})
		at := netif.Place{Index: 2, Name: "pxe"}
		f := newRemadeFilter(broken{first}.filter(), func(func(*nftables.Filter)) (Filter, error) {
			if tries++; tries == 1 {
				return Filter{}, second
			}
			return Filter{Chains: kernel, Lease: kernel, Driver: "nftables", Foreign: watched, place: at,
				close: []func() error{func() error { closed = true; return nil }}}, nil
		}, func(int) (netif.Place, error) { return at, nil }, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		var work sync.WaitGroup
		work.Go(func() { f.Run(ctx) })
		defer work.Wait()
		defer stop()

		rules := firewall.Ruleset{Deny: []string{firewall.TestMAC}}
		if err := f.Chains.Replace(t.Context(), rules); !errors.Is(err, first) {
			t.Errorf("before: %v", err)
		}
		time.Sleep(retryFirst)
		synctest.Wait()
		<-f.Foreign // of the newest reason
		if err := f.Lease.Shut(t.Context()); !errors.Is(err, second) {
			t.Errorf("after the second failure: %v", err)
		}
		time.Sleep(2 * retryFirst)
		<-f.Foreign
		if err := f.Chains.Replace(t.Context(), rules); err != nil {
			t.Errorf("late-filter: %v", err)
		}
		if got, err := kernel.Read(t.Context()); err != nil || !got.Equal(rules) {
			t.Errorf("late-filter: the kernel has %+v, %v", got, err)
		}
		watched <- struct{}{}
		<-f.Foreign
		if err := f.Close(); err != nil || !closed {
			t.Errorf("closed: %v, %v", closed, err)
		}
	})
}

// A filter whose interface moved and that could not be made at once is tried again
// soon, after twice as long each time, and never later than lateEvery.
func TestAFilterIsTriedAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, tries := time.Now(), []time.Duration(nil)
		kernel := &hostkernel.Model{}
		first := Filter{Chains: kernel, Lease: kernel, place: netif.Place{Index: 2, Name: "pxe"}}
		f := newRemadeFilter(first, func(func(*nftables.Filter)) (Filter, error) {
			tries = append(tries, time.Since(began))
			return Filter{}, errors.New("the kernel is busy")
		}, func(int) (netif.Place, error) { return netif.Place{Index: 2, Name: "br0"}, nil }, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		var work sync.WaitGroup
		work.Go(func() { f.Run(ctx) })
		defer work.Wait()
		defer stop()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		// It moved after placeEvery.
		want := []time.Duration{1 * time.Second, 1250 * time.Millisecond, 1750 * time.Millisecond, 2750 * time.Millisecond,
			4750 * time.Millisecond,
			8750 * time.Millisecond, 16750 * time.Millisecond, 31750 * time.Millisecond, 46750 * time.Millisecond}
		if len(tries) < len(want) || !slices.Equal(tries[:len(want)], want) {
			t.Errorf("filter-retried: tried at %v, want %v and so on", tries, want)
		}
		if most := int(5 * time.Minute / lateEvery); len(tries) > most+len(want) {
			t.Errorf("filter-retried: %d tries in 5 minutes", len(tries))
		}
	})
}

// awaitNews lets a second pass, in a bubble, in which the lists are to be told.
func awaitNews(t *testing.T, f Filter) {
	t.Helper()
	time.Sleep(time.Second)
	synctest.Wait()
	select {
	case <-f.Foreign:
	default:
		t.Fatal("follows-its-interface: the lists were not told within a second")
	}
}

// TestAFilterFollowsItsInterface adds the interface to a bridge while the filter
// runs: within a second the filter is on the bridge, closed, says why, and opens
// nothing; back by itself, the interface gets its filter again.
func TestAFilterFollowsItsInterface(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		alone := netif.Place{Index: 2, Name: "pxe", Encap: "ether"}
		bridged := netif.Place{Index: 2, Name: "br0", Kind: "bridge", Encap: "ether"}
		at := alone
		move := func(to netif.Place) {
			mu.Lock()
			defer mu.Unlock()
			at = to
		}
		look := func(known int) (netif.Place, error) {
			mu.Lock()
			defer mu.Unlock()
			if known != 2 {
				t.Errorf("the interface is looked for by index %d", known)
			}
			return at, nil
		}
		kernels := make(map[string]*hostkernel.Model)
		closed := 0
		make := func(func(*nftables.Filter)) (Filter, error) {
			now, err := look(2)
			kernel := &hostkernel.Model{}
			kernels[now.Name] = kernel
			f := Filter{Chains: kernel, Lease: kernel, Driver: "nftables", place: now,
				close: []func() error{func() error { closed++; return nil }}}
			return f.onlyWhere(now, "pxe"), err
		}
		first, err := make(nil)
		if err != nil {
			t.Fatal(err)
		}
		f := newRemadeFilter(first, make, look, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		var work sync.WaitGroup
		work.Go(func() { f.Run(ctx) })
		defer work.Wait()
		defer stop()
		rules := firewall.Ruleset{Deny: []string{firewall.TestMAC}, Pass: true}
		if err := f.Chains.Replace(ctx, rules); err != nil {
			t.Fatal(err)
		}

		move(bridged)
		awaitNews(t, f)
		if err := f.Chains.Replace(ctx, rules); err == nil || !strings.Contains(err.Error(), "pxe is a port of br0") {
			t.Errorf("follows-its-interface: the rules on a bridge: %v", err)
		}
		if got, err := kernels["br0"].Read(ctx); err != nil || !got.Equal(firewall.Ruleset{}) {
			t.Errorf("follows-its-interface: the bridge has %+v, %v", got, err)
		}
		if _, err := f.Chains.Read(ctx); err == nil {
			t.Error("follows-its-interface: the rules on another interface count as right")
		}
		if f.Lease.Arm(ctx, time.Second) == nil || f.Lease.Hold(ctx, time.Second) == nil {
			t.Error("follows-its-interface: the lease was armed or held on a bridge")
		}
		if err := f.Lease.Shut(ctx); err != nil || closed != 1 {
			t.Errorf("shut %v; %d filters were closed", err, closed)
		}

		move(alone)
		awaitNews(t, f)
		if err := errors.Join(f.Chains.Replace(ctx, rules), f.Lease.Arm(ctx, time.Second)); err != nil {
			t.Errorf("follows-its-interface: back by itself: %v", err)
		}
	})
}

// heldLease is a lease whose Arm waits until it is released.
type heldLease struct {
	*hostkernel.Model
	entered, release chan struct{}
}

// Arm implements firewall.Lease.
func (h heldLease) Arm(ctx context.Context, d time.Duration) error {
	close(h.entered)
	if _, err := testwait.Take(testwait.Limit, h.release, "the test releases the call"); err != nil {
		return err
	}
	return h.Model.Arm(ctx, d)
}

// A filter whose interface moves is closed only when the calls under way have ended:
// a driver's socket is used by one goroutine at a time. In real time, since a bubble's
// clock does not pass while a goroutine waits for a lock.
func TestNoFilterIsClosedUnderACall(t *testing.T) {
	lease := heldLease{&hostkernel.Model{}, make(chan struct{}), make(chan struct{})}
	closed := make(chan struct{})
	var made atomic.Int32
	f := newRemadeFilter(Filter{Chains: lease, Lease: lease, place: netif.Place{Index: 2, Name: "pxe"},
		close: []func() error{func() error { close(closed); return nil }}},
		func(func(*nftables.Filter)) (Filter, error) {
			made.Add(1)
			return Filter{Chains: &hostkernel.Model{}, Lease: &hostkernel.Model{}, place: netif.Place{Index: 2, Name: "br0"}},
				nil
		}, func(int) (netif.Place, error) { return netif.Place{Index: 2, Name: "br0"}, nil }, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { f.Run(ctx) })
	defer work.Wait()
	defer stop()
	armed := make(chan error, 1)
	go func() { armed <- f.Lease.Arm(t.Context(), time.Second) }()
	testwait.Receive(t, lease.entered, "the call is under way")
	testwait.Until(t, "the filter is made again", func() bool { return made.Load() > 0 })
	testwait.Elapse(t, 100*time.Millisecond, "a close under the call would happen now")
	select {
	case <-closed:
		t.Error("closed-under-a-call: the filter was closed while its lease was armed")
	default:
	}
	close(lease.release)
	testwait.Receive(t, closed, "the old filter is closed")
	if err := testwait.Receive(t, armed, "the call ends"); err != nil {
		t.Error(err)
	}
}
