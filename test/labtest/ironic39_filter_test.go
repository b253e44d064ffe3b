//go:build e2e

package labtest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/testenv"
)

// Machines of the comparison, each once.
const (
	filtered = 24 // inspected one after the other, over more than a period of Ironic's filter
	orphaned = 5  // inspected when leader and filter have died
)

// TestIronic39Filter measures Trivet's filter beside Ironic's own, ironic-pxe-filter, on the same
// nodes: from when Ironic waits for a ramdisk to when its machine may boot. Then both lose a host.
func TestIronic39Filter(t *testing.T) {
	s := newSite39(t, openstack.StartIronic39(t, ""), nil)
	machines := s.Ironic.Enroll(0, filtered+orphaned)
	filter := s.Ironic.StartPXEFilter()
	leader := s.WaitLeader()
	waited := make(map[string]time.Time, filtered)
	ours, theirs := make(map[string]time.Duration), make(map[string]time.Duration)
	look := func() error {
		for node, since := range waited {
			m := machines[slices.IndexFunc(machines, func(m openstack.Machine) bool { return m.UUID == node })]
			if _, known := ours[node]; !known && accepted(leader, m) {
				ours[node] = time.Since(since)
			}
			if _, known := theirs[node]; !known && filter.Allows(m) {
				theirs[node] = time.Since(since)
			}
		}
		if len(ours) < len(waited) || len(theirs) < len(waited) {
			return fmt.Errorf("of %d machines that Ironic inspects, %d may boot by Trivet, %d by ironic-pxe-filter",
				len(waited), len(ours), len(theirs))
		}
		return nil
	}
	for _, m := range machines[:filtered] {
		s.waits(m, func() { _ = look() }) // the last look is what counts
		waited[m.UUID] = time.Now()
	}
	s.Eventually(2*time.Minute, "both filters let all machines boot", look)
	between(t, "filter.trivet", ours, 5*time.Second)
	between(t, "filter.ironic_pxe_filter", theirs, time.Minute)

	filter.Kill9()
	after := make(map[string]time.Duration)
	for _, m := range machines[filtered:] {
		killed := s.WaitLeader()
		killed.Kill9()
		s.waits(m, func() {})
		began := time.Now()
		s.follows(m, "accept")
		after[m.UUID] = time.Since(began)
		killed.Start()
		s.WaitSame()
	}
	between(t, "filter.trivet_leader_killed", after, 10*time.Second)
	for _, m := range machines[filtered:] {
		if filter.Allows(m) {
			t.Errorf("%s may boot by ironic-pxe-filter, which is dead", m.Name)
		}
	}
}

// waits begins an inspection, and returns when Ironic waits for the ramdisk; meanwhile is called
// again and again.
func (s *site39) waits(m openstack.Machine, meanwhile func()) {
	s.t.Helper()
	s.Ironic.Provision(m, "inspect")
	s.Eventually(stepLimit, m.Name+" is inspect wait", func() error {
		meanwhile()
		if now, err := s.Ironic.State(m); err != nil || now != "inspect wait" {
			return errors.Join(err, fmt.Errorf("it is %q", now))
		}
		return nil
	})
}

// accepted reports whether the leader's kernel lets a machine boot now.
func accepted(leader *Peer, m openstack.Machine) bool {
	var rows []api.Explanation
	err := leader.Call("GET", "/v1/firewall/explain/"+m.MAC, nil, &rows)
	return err == nil && len(rows) == 1 && rows[0].Verdict == "accept"
}

// between records the median and the longest of some durations.
func between(t *testing.T, name string, took map[string]time.Duration, goal time.Duration) {
	t.Helper()
	var all []time.Duration
	for _, d := range took {
		all = append(all, d)
	}
	slices.Sort(all)
	testenv.Took(t, name+"_median", all[len(all)/2], goal)
	testenv.Took(t, name+"_longest", all[len(all)-1], goal)
}
