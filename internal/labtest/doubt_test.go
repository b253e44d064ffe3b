//go:build e2e

package labtest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/inspector"
)

// listPath is how the leader asks for all nodes.
const listPath = `^/v1/nodes\?`

// doubtfulLists lets Ironic's list of nodes fail on its second page, come back
// empty, or show a tenth of the nodes: nothing may be deleted, and the reason
// is kept where every peer shows it. A node that is really gone is deleted.
func doubtfulLists(t *testing.T, ironic *Ironic) {
	s := NewHosts(t).Introspecting(ironic.Addr,
		"TRIVET_INSPECTION_CLEAN_UP_PERIOD=500ms", "TRIVET_IRONIC_RETRIES=1", "TRIVET_IRONIC_RETRY_INTERVAL=50ms")
	s.Trio()
	machines := ironic.Enroll(0, 20)
	err := parallel(len(machines), ironicWidth, func(k int) error {
		return s.Peers[k%3].Introspect(machines[k].UUID + "?manage_boot=false")
	})
	if err != nil {
		t.Fatal(err)
	}
	tenth := fmt.Sprintf(`{"nodes":[{"uuid":%q},{"uuid":%q}]}`, machines[3].UUID, machines[7].UUID)
	for _, c := range []struct {
		fault  Fault
		reason string
	}{
		{Fault{Path: listPath + ".*marker=", Status: http.StatusInternalServerError}, "could not be listed"},
		{Fault{Path: listPath, Status: http.StatusOK, Answer: `{"nodes":[]}`}, "lists no nodes at all"},
		{Fault{Path: listPath, Status: http.StatusOK, Answer: tenth}, "lacks 18 of the 20 nodes"},
	} {
		fault := s.Tap.Inject(c.fault)
		s.Eventually(endLimit, "the reason is shown: "+c.reason, func() error { return s.suspects(c.reason) })
		met := fault.Met()
		s.Eventually(endLimit, "more rounds pass", func() error { return atLeast(int64(fault.Met()), int64(met+4)) })
		if n, all, err := s.InState(machines, "waiting"); err != nil || n != len(machines) {
			t.Errorf("%s: %d of %d nodes are still known: %s (%v)", c.reason, n, len(machines), summary(machines, all), err)
		}
		fault.Lift()
		s.Eventually(endLimit, "a good list is believed again", func() error { return s.suspects("") })
	}

	if err := ironic.delete(machines[0].UUID); err != nil {
		t.Fatal(err)
	}
	s.Eventually(endLimit, "a node that is gone is forgotten, and no other", func() error {
		n, all, err := s.InState(machines, "waiting")
		if _, known := all[machines[0].UUID]; err == nil && (known || n != len(machines)-1) {
			err = fmt.Errorf("%d are known", len(all))
		}
		return err
	})
	began := time.Now()
	s.Eventually(endLimit, "more rounds pass", func() error {
		return atLeast(int64(len(s.Tap.Calls(began, "GET", listPath))), 10)
	})
	if n, all, err := s.InState(machines[1:], "waiting"); err != nil || n != len(machines)-1 {
		t.Errorf("%d of the rest are still known: %s (%v)", n, summary(machines[1:], all), err)
	}
}

// suspects wants every peer to know that reason for deleting nothing, or none
// if it is "".
func (s *SiteLab) suspects(reason string) error {
	for _, p := range s.Running() {
		text, err := p.Get(inspector.SettingSync)
		if refusal, ok := err.(*Refusal); ok && refusal.Status == http.StatusNotFound {
			text, err = "", nil
		}
		if err != nil {
			return err
		}
		if (reason == "") != (text == "") || !strings.Contains(text, reason) {
			return fmt.Errorf("%s says %q", p.Name, text)
		}
	}
	return nil
}
