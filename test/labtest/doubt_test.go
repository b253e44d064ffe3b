//go:build e2e

package labtest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/test/labtest/httpapi"
	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/labtest/wiretap"
	"github.com/trivet-ha/trivet/test/testenv"
)

// listPath is how the leader asks for all nodes.
const listPath = `^/v1/nodes\?`

// doubtfulLists lets Ironic's list of nodes fail on its second page, come back
// empty, or show a tenth of the nodes: nothing may be deleted, and every peer
// shows the reason. One node that is really gone is forgotten; many are once an
// operator confirms it.
func doubtfulLists(t *testing.T, ironic *openstack.Ironic) {
	s := NewHosts(t).Introspecting(ironic.Addr,
		"TRIVET_INSPECTION_CLEAN_UP_PERIOD=500ms", "TRIVET_IRONIC_RETRIES=1", "TRIVET_IRONIC_RETRY_INTERVAL=50ms")
	s.Trio()
	machines := ironic.Enroll(0, 20)
	err := httpapi.Parallel(len(machines), openstack.IronicWidth, func(k int) error {
		return s.Peers[k%3].Introspect(machines[k].UUID + "?manage_boot=false")
	})
	testenv.Must(t, err)
	tenth := fmt.Sprintf(`{"nodes":[{"uuid":%q},{"uuid":%q}]}`, machines[3].UUID, machines[7].UUID)
	for _, c := range []struct {
		fault  wiretap.Fault
		reason string
	}{
		{wiretap.Fault{Path: listPath + ".*marker=", Status: http.StatusInternalServerError}, "could not be listed"},
		{wiretap.Fault{Path: listPath, Status: http.StatusOK, Answer: `{"nodes":[]}`}, "lists no nodes at all"},
		{wiretap.Fault{Path: listPath, Status: http.StatusOK, Answer: tenth}, "lacks 18 of the 20 nodes"},
	} {
		fault := s.Tap.Inject(c.fault)
		s.Eventually(endLimit, "the reason is shown: "+c.reason, func() error { return s.suspects(c.reason) })
		met := fault.Met()
		s.Eventually(endLimit, "more rounds pass", func() error { return atLeast(int64(fault.Met()), int64(met+4)) })
		if err := s.onlyKnown(machines); err != nil {
			t.Errorf("%s: %v", c.reason, err)
		}
		fault.Lift()
		s.Eventually(endLimit, "a good list is believed again", func() error { return s.suspects("") })
	}

	s.forget(ironic, machines[:1])
	s.Eventually(endLimit, "a node that is gone is forgotten", func() error { return s.onlyKnown(machines[1:]) })
	rest := machines[16:]
	s.forget(ironic, machines[1:16])
	s.Eventually(endLimit, "fifteen that are gone are too many to believe",
		func() error { return s.suspects("lacks 15 of the 19 nodes") })
	if err := s.onlyKnown(machines[1:]); err != nil {
		t.Errorf("before anybody confirmed it: %v", err)
	}
	s.Peers[2].Must("node", "sync", "--confirm", s.Peers[2].On())
	s.Eventually(endLimit, "what was confirmed is forgotten", func() error { return s.onlyKnown(rest) })
	began := time.Now()
	s.Eventually(endLimit, "more rounds pass", func() error {
		return atLeast(int64(len(s.Tap.Calls(began, "GET", listPath))), 10)
	})
	if err := s.onlyKnown(rest); err != nil {
		t.Errorf("those that are there: %v", err)
	}
}

// forget deletes nodes in Ironic, unseen by the peers until all are gone.
func (s *SiteLab) forget(ironic *openstack.Ironic, machines []openstack.Machine) {
	s.t.Helper()
	unseen := s.Tap.Inject(wiretap.Fault{Path: listPath, Status: http.StatusInternalServerError})
	defer unseen.Lift()
	testenv.Must(s.t, httpapi.Parallel(len(machines), openstack.IronicWidth,
		func(k int) error { return ironic.Delete(machines[k].UUID) }))
}

// onlyKnown wants the peers to have records of these machines and no others.
func (s *SiteLab) onlyKnown(machines []openstack.Machine) error {
	n, all, err := s.InState(machines, "waiting")
	if err == nil && (n != len(machines) || len(all) != n) {
		err = fmt.Errorf("%d of %d are known, and %d others", n, len(machines), len(all)-n)
	}
	return err
}

// suspects wants every peer to show that reason for deleting nothing, or none
// if it is "".
func (s *SiteLab) suspects(reason string) error {
	for _, p := range s.Running() {
		var now admin.Sync
		if err := p.Call("GET", "/v1/nodes/sync", nil, &now); err != nil {
			return err
		}
		if now.Suspected != (reason != "") || !strings.Contains(now.Reason, reason) {
			return fmt.Errorf("%s says %q", p.Name, now.Reason)
		}
		if err := p.shows(reason); err != nil {
			return fmt.Errorf("the status of %s does not say why: %w", p.Name, err)
		}
	}
	return nil
}
