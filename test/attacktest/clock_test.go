//go:build e2e

package attacktest

import (
	"crypto/rand"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/cluster/pki"
)

// ahead is how far the clocks of the hosts are ahead.
const ahead = 60 * 24 * time.Hour

// reboot stops all hosts and starts them with clocks that are ahead of the time.
func reboot(hosts []*host, by time.Duration) {
	for _, h := range hosts {
		h.stop()
	}
	for _, h := range hosts {
		h.Wall = func() time.Time { return time.Now().Add(by) }
		h.start()
	}
}

// shown returns the certificate that a host has on its disk.
func (h *host) shown() *pki.Credentials {
	h.t.Helper()
	_, secrets, err := h.dir.Load()
	if err != nil {
		h.t.Fatal(err)
	}
	return secrets.Credentials
}

func goodNow(c *pki.Credentials) bool {
	now := time.Now()
	return now.After(c.Leaf.NotBefore) && now.Before(c.Leaf.NotAfter)
}

// Hosts that boot with clocks 60 days ahead renew their certificates. Once the
// clocks are set they have a leader again, with no hand laid on them.
func TestClocksAheadAndSetBack(t *testing.T) {
	hosts := newCluster(t, 3)
	reboot(hosts, ahead)
	until(t, "all hosts have renewed and follow a leader", func() bool {
		return led(hosts) != nil &&
			!slices.ContainsFunc(hosts, func(h *host) bool { return h.shown().Leaf.Equal(h.cred.Leaf) })
	})
	reboot(hosts, 0)
	until(t, "all hosts follow a leader", func() bool { return led(hosts) != nil })
	for _, h := range hosts {
		if c := h.shown(); !goodNow(c) {
			t.Errorf("%s shows a certificate from %v to %v", h.Config.Name, c.Leaf.NotBefore, c.Leaf.NotAfter)
		}
	}
}

// The same with the certificates that earlier versions made while the clocks were
// ahead: they begin in 59 days. The hosts reach a quorum and replace them.
func TestCertificatesOfTheFuture(t *testing.T) {
	hosts := newCluster(t, 3)
	until(t, "every peer has the CA", func() bool {
		return !slices.ContainsFunc(hosts, func(h *host) bool { return len(h.view().Secrets().CAKey) == 0 })
	})
	secrets := hosts[0].view().Secrets()
	ca, err := pki.ParseCA(secrets.CACert, secrets.CAKey)
	if err != nil {
		t.Fatal(err)
	}
	future := make([]*pki.Credentials, len(hosts))
	for i, h := range hosts {
		h.stop()
		if future[i], err = cluster.Issue(ca, h.cred.Identity, time.Now().Add(ahead), rand.Reader); err != nil {
			t.Fatal(err)
		}
		if err := h.dir.SaveCredentials(future[i]); err != nil {
			t.Fatal(err)
		}
	}
	reboot(hosts[:2], 0)
	until(t, "two of three follow a leader", func() bool { return led(hosts[:2]) != nil })
	for i, h := range hosts[:2] {
		until(t, h.Config.Name+" has a certificate of today",
			func() bool { return !h.shown().Leaf.Equal(future[i].Leaf) && goodNow(h.shown()) })
	}
	// The third shows its certificate of the future to the others.
	late := newThief(t, future[2])
	late.end.Tolerance = pki.PeerTolerance
	until(t, "the leader answers the peer whose certificate begins in 59 days", func() bool {
		leader := led(hosts[:2])
		if leader == nil {
			return false
		}
		status, err := late.call(leader, "GET", "/peer/v1/rights/"+leader.id.ID)
		if err != nil || status != http.StatusOK && status != http.StatusMisdirectedRequest { // it does not lead any more
			t.Fatalf("a certificate that begins in 59 days: %d, %v", status, err)
		}
		return status == http.StatusOK
	})
	// A member whose certificate begins in more than a year is refused.
	if future[2], err = cluster.Issue(ca, hosts[2].cred.Identity, time.Now().AddDate(1, 1, 0), rand.Reader); err != nil {
		t.Fatal(err)
	}
	for _, h := range hosts[:2] {
		h.refused(newThief(t, future[2]), "a member whose certificate begins in 13 months")
	}
}
