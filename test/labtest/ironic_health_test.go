//go:build e2e

package labtest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/test/labtest/httpapi"
	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/labtest/wiretap"
	"github.com/trivet-ha/trivet/test/testenv"
)

// unreachable takes Ironic away: first from two of the peers, then from all of
// them. The one that reaches it does the work of all, whoever was asked; while
// nobody does, requests wait and nobody stops.
func unreachable(t *testing.T, ironic *openstack.Ironic) {
	s := NewHosts(t).Introspecting(ironic.Addr, "TRIVET_IRONIC_RETRIES=3", "TRIVET_IRONIC_RETRY_INTERVAL=100ms",
		"TRIVET_IRONIC_TIMEOUT=3s")
	s.Trio()
	machines := ironic.Enroll(0, 9)
	s.Fleet(machines)
	alone, others := s.Followers()[0], []*Peer{}
	for _, p := range s.Peers {
		if p != alone {
			others = append(others, p)
			s.Tap.Inject(wiretap.Fault{Door: p.Name, Cut: wiretap.Request})
		}
	}
	for _, p := range others {
		s.Eventually(endLimit, p.Name+" says that it is not ready, and why",
			func() error { return p.unready("Ironic cannot be reached") })
	}
	err := others[0].Introspect(machines[0].UUID)
	if refusal, ok := err.(*httpapi.Refusal); !ok || refusal.Status != http.StatusServiceUnavailable ||
		refusal.RetryAfter == "" {
		t.Errorf("a start where Ironic is away: %v, want 503 with Retry-After", err)
	}
	s.Introspect(machines[:3], others...)
	s.MustFinish(endLimit, machines[:3])

	await(s.t, endLimit, "the one that reaches Ironic leads", alone.Status, func(st api.Status) bool {
		return st.Leader == alone.Name
	})
	s.Tap.Heal()
	all := s.Tap.Inject(wiretap.Fault{Method: "PUT", Path: among(machines[3:], "/management"), Hold: true,
		Cut: wiretap.Request})
	s.Introspect(machines[3:])
	s.Eventually(endLimit, "starts are under way", func() error { return atLeast(int64(all.Held()), 3) })
	given := s.givenUp()
	ironic.Pause()
	all.Lift()
	for _, p := range s.Peers {
		s.Eventually(endLimit, p.Name+" shows that Ironic is away",
			func() error { return p.shows("Ironic cannot be reached") })
	}
	if n, reports, err := s.InState(machines[3:], "starting", "waiting"); err != nil || n != 6 {
		t.Errorf("%d of 6 wait for Ironic: %s (%v)", n, summary(machines[3:], reports), err)
	}
	ironic.Cont()
	s.MustFinish(endLimit, machines[3:])
	if n := s.givenUp() - given; n != 0 {
		t.Errorf("leadership was handed round %d times while nobody reached Ironic", n)
	}
	for _, p := range s.Peers {
		if !p.running() {
			t.Errorf("%s stopped because Ironic was away", p.Name)
		}
	}
}

// shows wants the peer's status to say something.
func (p *Peer) shows(what string) error {
	if r := p.Trivet("status", p.On()); !strings.Contains(r.Out, what) {
		return fmt.Errorf("exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	return nil
}

// givenUp counts how often a peer gave leadership up by itself.
func (l *Lab) givenUp() (n int) {
	for _, p := range l.Peers {
		n += strings.Count(p.Log(), "stepping down")
	}
	return n
}

// badAnswers lets Ironic answer some calls with what it should not: what can be
// tried again is, and the rest ends in error with Ironic's words.
func badAnswers(t *testing.T, ironic *openstack.Ironic) {
	s := NewHosts(t).Introspecting(ironic.Addr, "TRIVET_IRONIC_RETRIES=2", "TRIVET_IRONIC_RETRY_INTERVAL=100ms",
		"TRIVET_IRONIC_TIMEOUT=4s")
	s.Trio()
	cases := []struct {
		fault wiretap.Fault
		end   string
		says  string
	}{
		{wiretap.Fault{Path: "/management/", Times: 2, Status: http.StatusConflict,
			Answer: fault("Node is locked by host labtest")}, "finished", ""},
		{wiretap.Fault{Path: "/states/power", Times: 2, Cut: wiretap.Answer}, "finished", ""},
		// given up by the caller
		{wiretap.Fault{Path: "/states/power", Times: 2, Hold: true, Cut: wiretap.Request}, "finished", ""},
		{wiretap.Fault{Path: "/management/", Status: http.StatusInternalServerError, Answer: fault("the BMC is on fire")},
			"error", "the BMC is on fire"},
		{wiretap.Fault{Path: "/states/power", Body: "rebooting", Status: http.StatusBadRequest,
			Answer: fault("no such thing")}, "error", "no such thing"},
		{wiretap.Fault{Method: "PATCH", Status: http.StatusOK, Answer: "<html>"}, "error", "Unexpected exception"},
		{wiretap.Fault{Path: "/states/power", Body: "power off", Status: http.StatusBadGateway, Answer: "<html>"}, "error",
			"Failed to power off node"},
	}
	machines := ironic.Enroll(0, len(cases))
	for i, c := range cases {
		c.fault.Path = among(machines[i:i+1], ".*"+c.fault.Path)
		s.Tap.Inject(c.fault)
	}
	s.Fleet(machines)
	s.Introspect(machines)
	reports := s.WaitEnd(endLimit, machines)
	for i, c := range cases {
		if r := reports[machines[i].UUID]; r.State != c.end || !strings.Contains(r.Reason(), c.says) {
			t.Errorf("%+v: the node is %s %q, want %s %q", c.fault, r.State, r.Reason(), c.end, c.says)
		}
	}
}

// fault is the body in which Ironic says what went wrong.
func fault(text string) string {
	return fmt.Sprintf(`{"error_message": "{\"faultstring\": \"%s\", \"faultcode\": \"Server\", \"debuginfo\": null}"}`,
		text)
}

// unready wants the peer to refuse /readyz for a reason.
func (p *Peer) unready(reason string) error {
	reply, err := p.Ask("GET", "/readyz", nil)
	if err == nil && (reply.Status != http.StatusServiceUnavailable || !strings.Contains(string(reply.Body), reason)) {
		err = fmt.Errorf("%d %s", reply.Status, reply.Body)
	}
	return err
}

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
