//go:build e2e

package labtest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// unreachable takes Ironic away: first from two of the peers, then from all of
// them. The one that reaches it does the work of all, whoever was asked; while
// nobody does, requests wait and nobody stops.
func unreachable(t *testing.T, ironic *Ironic) {
	s := NewHosts(t).Introspecting(ironic.Addr, "TRIVET_IRONIC_RETRIES=1", "TRIVET_IRONIC_RETRY_INTERVAL=100ms", "TRIVET_IRONIC_TIMEOUT=2s")
	s.Trio()
	machines := ironic.Enroll(0, 9)
	s.Fleet(machines)
	alone, others := s.Followers()[0], []*Peer{}
	for _, p := range s.Peers {
		if p != alone {
			others = append(others, p)
			s.Tap.Inject(Fault{Door: p.Name, Cut: Request})
		}
	}
	for _, p := range others {
		s.Eventually(endLimit, p.Name+" says that it is not ready, and why", func() error { return p.unready("Ironic cannot be reached") })
	}
	s.Eventually(endLimit, "the one that reaches Ironic leads", func() error {
		st, err := alone.Status()
		if err == nil && st.Leader != alone.Name {
			err = fmt.Errorf("%q leads", st.Leader)
		}
		return err
	})
	s.Introspect(machines[:3], others...)
	s.MustFinish(endLimit, machines[:3])

	s.Tap.Heal()
	all := s.Tap.Inject(Fault{Method: "PUT", Path: among(machines[3:], "/management"), Hold: true, Cut: Request})
	s.Introspect(machines[3:])
	s.Eventually(endLimit, "starts are under way", func() error { return atLeast(int64(all.Held()), 3) })
	ironic.Pause()
	all.Lift()
	for _, p := range s.Peers {
		s.Eventually(endLimit, p.Name+" says that it is not ready, and why", func() error { return p.unready("Ironic cannot be reached") })
	}
	err := s.Peers[0].Introspect(machines[0].UUID)
	if refusal, ok := err.(*Refusal); !ok || refusal.Status != http.StatusServiceUnavailable || refusal.RetryAfter == "" {
		t.Errorf("a start while Ironic is away: %v, want 503 with Retry-After", err)
	}
	if n, reports, err := s.InState(machines[3:], "starting", "waiting"); err != nil || n != 6 {
		t.Errorf("%d of 6 wait for Ironic: %s (%v)", n, summary(machines[3:], reports), err)
	}
	ironic.Cont()
	s.MustFinish(endLimit, machines[3:])
	for _, p := range s.Peers {
		if !p.running() {
			t.Errorf("%s stopped because Ironic was away", p.Name)
		}
	}
}

// unready wants the peer to refuse /readyz for a reason.
func (p *Peer) unready(reason string) error {
	reply, err := p.Ask("GET", "/readyz?verbose", nil)
	if err == nil && (reply.Status != http.StatusServiceUnavailable || !strings.Contains(string(reply.Body), reason)) {
		err = fmt.Errorf("%d %s", reply.Status, reply.Body)
	}
	return err
}
