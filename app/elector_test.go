package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// TestPeerAnswersWhoLeads on an address for each election, by the name that is
// written for it.
func TestPeerAnswersWhoLeads(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a peer")
	}
	addresses := [2]string{testenv.FreePort(t), testenv.FreePort(t)}
	kubePeer(t, apiServer(t), "lease.enabled", "true", "elector.identities", "h1=host-1.example.org",
		"elector.listen", "raft="+addresses[0]+",lease:db="+addresses[1])
	said := func(address string) (said struct{ Name, Election string }) {
		resp, err := http.Get("http://" + address + "/any?verbose=1")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(&said); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(resp.Status, err)
		}
		if id := resp.Header.Get("X-Request-Id"); id == "" || id != resp.Header.Get("X-Openstack-Request-Id") {
			t.Errorf("the answer names its request %q", id)
		}
		return said
	}
	testwait.Within(t, testwait.Limit, "the endpoint names the leader", func() error {
		if s := said(addresses[0]); s.Name != "host-1.example.org" {
			return fmt.Errorf("it says %+v", s)
		}
		return nil
	})
	if s := said(addresses[1]); s.Name != "" || s.Election != "lease:db" {
		t.Errorf("%+v", s)
	}
}

// TestProofsOutliveAnUpgrade: while hosts are upgraded one after the other, those of
// v0.1.0 say a name for as long as their election clocks were, and the others hold a new
// name back for as long.
func TestProofsOutliveAnUpgrade(t *testing.T) {
	for timing, ms := range map[string]time.Duration{"fast": 300, "normal": 500, "slow": 1000} {
		if got := electing(config.Config{Raft: config.Raft{Timing: timing}}).Bound; got != ms*time.Millisecond {
			t.Errorf("%s: a name is said for %v, not for %d ms", timing, got, ms)
		}
	}
}
