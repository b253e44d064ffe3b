package site

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/test/sandbox/trio"
)

// threeKernels is a cluster of hosts without peers.
func threeKernels(heard *told) *cluster {
	var hosts trio.Trio
	for i := range hosts {
		hosts[i] = new(trio.Host)
		hosts[i].Config.Name = []string{"peer1", "peer2", "peer3"}[i]
	}
	return watched(hosts, heard.tell)
}

func open(t *testing.T, l firewall.Lease) {
	t.Helper()
	if err := errors.Join(l.Arm(t.Context(), time.Second), l.Open(t.Context(), time.Second)); err != nil {
		t.Fatal(err)
	}
}

// TestServiceStory: a killed process writes no more, its lease ends by itself, and
// what is told and counted is when each kernel closed and opened.
func TestServiceStory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heard := new(told)
		c := threeKernels(heard)
		go c.follow(t.Context()) // ends with the test's context
		var dead atomic.Bool
		first := process{c.slots[0].kernel, &dead}
		open(t, first)
		time.Sleep(400 * time.Millisecond) // in a bubble
		if err := first.Hold(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
		dead.Store(true)
		if err := first.Shut(t.Context()); !errors.Is(err, errKilled) ||
			!errors.Is(first.Hold(t.Context(), time.Second), errKilled) {
			t.Errorf("a dead process wrote: %v", err)
		}
		time.Sleep(2 * time.Second) // in a bubble
		open(t, c.slots[2].kernel)
		if err := c.slots[2].kernel.Shut(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * trio.Poll) // in a bubble
		want := []string{"PXE service open on peer1", "PXE service closed on peer1",
			"PXE service open on peer3, after none was for 960ms", "PXE service closed on peer3"}
		heard.mu.Lock()
		defer heard.mu.Unlock()
		if !slices.Equal(heard.lines, want) {
			t.Errorf("told %q, want %q", heard.lines, want)
		}
		if gap, double := c.service(); gap != 960*time.Millisecond || double != 0 {
			t.Errorf("gap %v, open on two %d times", gap, double)
		}
	})
}

// TestTwoOpenServicesAreFound: the promise that the demonstration makes can be
// seen to be broken.
func TestTwoOpenServicesAreFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heard := new(told)
		c := threeKernels(heard)
		open(t, c.slots[0].kernel)
		time.Sleep(time.Second + kernelLate - time.Millisecond) // in a bubble
		open(t, c.slots[1].kernel)
		if _, double := c.service(); double != 1 ||
			!strings.Contains(strings.Join(heard.lines, "\n"), "open on peer2 while it is open on peer1") {
			t.Errorf("open on two %d times, told %q", double, heard.lines)
		}
		if err := (Summary{PXEOpenOnTwo: 1}).promise(); err == nil {
			t.Error("a run with two open services is a success")
		}
	})
}
