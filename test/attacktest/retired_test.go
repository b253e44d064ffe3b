//go:build e2e

package attacktest

import (
	"net/http"
	"slices"
	"testing"
	"time"
)

// refused wants that a victim takes no request of raft and no call that is made
// with a thief's certificate. The handshake may fail, or the call be refused.
func (h *host) refused(s *thief, whose string) {
	h.t.Helper()
	if taken := s.command(h.t, h, h.address()); len(taken) > 0 {
		h.t.Errorf("retired-commands-nobody: %s took %v from %s", h.Config.Name, taken, whose)
	}
	for path, method := range map[string]string{
		"/peer/v1/read-index": http.MethodGet, "/peer/v1/age": http.MethodGet, "/peer/v1/proposals": http.MethodPost,
		"/v1/status": http.MethodGet,
	} {
		status, err := s.call(h, method, path)
		if err == nil && status != http.StatusForbidden && status != http.StatusUnauthorized {
			h.t.Errorf("retired-calls-nobody: %s %s by %s: %d", method, path, whose, status)
		}
	}
	h.unmoved()
}

// A recovery leaves a cluster of one, in which the certificates of all others are
// void, and stay void when the hosts join again under new identities.
func TestPeersOfBeforeRecoveryCommandNoPeer(t *testing.T) {
	hosts := newCluster(t, 3)
	until(t, "every peer has the whole state", func() bool {
		return !slices.ContainsFunc(hosts, func(h *host) bool { return len(h.view().Members()) != 3 })
	})
	survivor, lost := hosts[0], hosts[1:]
	old := newThief(t, lost[0].cred)
	for _, h := range hosts {
		h.stop()
	}
	plan, err := survivor.PlanRecover(survivor.dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := plan.Judge(nil, []string{lost[0].Config.Name, lost[1].Config.Name}); err != nil {
		t.Fatal(err)
	}
	if _, err := survivor.Found(survivor.dir, plan); err != nil {
		t.Fatal(err)
	}
	survivor.start()
	until(t, "the survivor leads", func() bool { return led(hosts[:1]) == survivor })
	survivor.refused(old, "a peer of before the recovery")

	again := newHost(t, lost[0].Config.Name)
	again.joins(survivor)
	until(t, "both vote", func() bool { return voters(survivor) == 2 })
	if status, err := newThief(t, again.cred).call(
		survivor, http.MethodGet, "/peer/v1/rights/"+survivor.id.ID); err != nil || status != http.StatusOK {
		t.Fatalf("a certificate of after the recovery: %d, %v", status, err) // else a refusal below would prove nothing
	}
	for _, h := range []*host{survivor, again} {
		h.refused(old, "a peer of before the recovery, whose name is taken again")
	}
}

// The certificate of a member that was away for longer than the year of grace is
// no certificate any more, although the member was never removed.
func TestExpiredMemberCommandsNoPeer(t *testing.T) {
	h := newCluster(t, 1)[0]
	old := newThief(t, h.cred) // the member's own: only the date will speak against it
	if status, err := old.call(h, http.MethodGet, "/peer/v1/read-index"); err != nil || status != http.StatusOK {
		t.Fatalf("a certificate of today: %d, %v", status, err)
	}
	h.stop()
	h.Wall = func() time.Time { return time.Now().AddDate(1, 3, 0) }
	h.start()
	until(t, "the peer leads and takes its new certificate", func() bool {
		_, secrets, err := h.dir.Load()
		if err != nil || led([]*host{h}) != h {
			return false
		}
		renewed := newThief(t, secrets.Credentials)
		renewed.end.Now = h.Wall
		status, err := renewed.call(h, http.MethodGet, "/peer/v1/read-index")
		return err == nil && status == http.StatusOK
	})
	late := newThief(t, h.cred)
	late.end.Now = h.Wall
	h.refused(late, "a member whose certificate ended 14 months ago")
}
