//go:build e2e

package labtest

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/httpapi"
	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/labtest/wiretap"
	"github.com/trivet-ha/trivet/test/testwait"
)

// slowCall is how long Ironic takes for each call.
const slowCall = time.Second

// TestStopWhileIronicIsSlow stops a peer as its service manager does, while it
// processes the callbacks of twenty nodes and Ironic takes a second for each
// call. All of them end well, each ramdisk gets its answer, and no machine is
// reset or switched off a second time.
func TestStopWhileIronicIsSlow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		victim func(*SiteLab) *Peer
	}{
		{"follower", func(s *SiteLab) *Peer { return s.Followers()[0] }},
		{"leader", func(s *SiteLab) *Peer { return s.WaitLeader() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			const nodes = 20
			sim := newSimulated(t, nodes)
			s := New(t).Introspecting(sim.addr, fmt.Sprintf("TRIVET_INSPECTION_WORKERS=%d", nodes))
			s.Trio()
			s.Introspect(sim.machines)
			s.WaitState(endLimit, sim.machines, "waiting")
			s.powered(sim.machines, "rebooting", 1)
			s.Tap.Forget()
			s.Tap.Inject(wiretap.Fault{Delay: slowCall})
			victim := c.victim(s)
			answered := make(chan error, 1) // one value
			go func() {
				answered <- httpapi.Parallel(nodes, nodes, func(k int) error { return s.ramdisk(victim, sim.machines[k]) })
			}()
			s.Eventually(endLimit, "the victim processes all callbacks", func() error {
				n, all, err := s.InState(sim.machines, "processing")
				if on := len(s.workedOn(victim, sim.machines, "")); err == nil && (n != nodes || on != nodes) {
					err = fmt.Errorf("%s, calls for %d nodes", summary(sim.machines, all), on)
				}
				return err
			})
			began := time.Now()
			victim.Stop()
			t.Logf("%s stopped in %v", victim.Name, time.Since(began).Round(time.Millisecond))
			if err := testwait.Receive(t, answered, "the answers to the callbacks"); err != nil {
				t.Errorf("stop-answers: %v", err)
			}
			s.MustFinish(endLimit, sim.machines)
			s.powered(sim.machines, "rebooting", 0)
			s.powered(sim.machines, "power off", 1)
		})
	}
}

// powered wants so many calls for each machine that set its power to target.
func (s *SiteLab) powered(machines []openstack.Machine, target string, want int) {
	s.t.Helper()
	calls := s.Tap.PowerCalls(target)
	for _, m := range machines {
		if calls[m.UUID] != want {
			s.t.Errorf("power-once: %s was told %q %d times, want %d", m.Name, target, calls[m.UUID], want)
		}
	}
}

// ramdisk posts a machine's inventory to a peer and, as ramdisks do, to the
// others when it gets no answer or is told to come again.
func (s *SiteLab) ramdisk(first *Peer, m openstack.Machine) error {
	reply, err := first.settled(http.MethodPost, "/v1/continue", m.Inventory())
	for _, p := range s.Peers {
		if err == nil {
			break
		}
		if p != first {
			reply, err = p.settled(http.MethodPost, "/v1/continue", m.Inventory())
		}
	}
	if err = httpapi.OK(reply, err); err != nil {
		return fmt.Errorf("callback of %s: %w", m.Name, err)
	}
	return nil
}
