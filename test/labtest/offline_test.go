//go:build e2e

package labtest

import (
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/test/testenv"
)

// TestDoorIsShutOffline shuts doors as the units do, without a peer: the rules
// stand afterwards, shut, by the driver that a peer would take, and again is no
// harm.
func TestDoorIsShutOffline(t *testing.T) {
	t.Parallel()
	testenv.NeedRoot(t, "ip", "iptables", "iptables-save")
	network := NewNet(t)
	for n, driver := range []string{"auto", "nftables", "iptables"} {
		h := network.Host(n + 1)
		for range 2 {
			cmd := h.Command(os.Getenv(BinaryEnv), "firewall", "close", "--offline", "--config", "/dev/null",
				"--firewall-driver", driver, "--firewall-interface", string(Site))
			if out, err := cmd.CombinedOutput(); err != nil ||
				!strings.Contains(string(out), "no machine boots from this host by site") {
				t.Errorf("%s: %v\n%s", driver, err, out)
			}
		}
		if left, err := h.nftables(driver, Site).Left(t.Context()); err != nil || left > 0 {
			t.Errorf("%s: the door is open for another %v (%v)", driver, left, err)
		}
		rules, err := h.Command("iptables-save", "-t", "filter").CombinedOutput()
		if err != nil || strings.Contains(string(rules), "-A TRIVET-PXE -j DROP") != (driver == "iptables") {
			t.Errorf("%s: %v\n%s", driver, err, rules)
		}
	}
}

// TestFiltersOfAllPeersAreTold asks one peer for all: those that live answer,
// and one that is stopped or dead is told as such, within bounded time.
func TestFiltersOfAllPeersAreTold(t *testing.T) {
	t.Parallel()
	l := Three(t)
	peer, stopped, dead := l.Peers[0], l.Peers[1], l.Peers[2]
	var rows []api.Firewall
	show := func() map[string]string {
		t.Helper()
		testenv.Must(t, peer.Call("GET", "/v1/firewall?all=1", nil, &rows))
		errs := make(map[string]string)
		for _, row := range rows {
			errs[row.Peer] = row.Error
			if row.Error == "" && row.Self != (row.Peer == peer.Name) {
				t.Errorf("%s says of itself that it is the one asked: %v", row.Peer, row.Self)
			}
		}
		if len(errs) != 3 {
			t.Errorf("%d rows for three peers: %v", len(errs), errs)
		}
		return errs
	}
	for name, why := range show() {
		if why != "" {
			t.Errorf("%s lives and says nothing: %s", name, why)
		}
	}
	stopped.Pause()
	dead.Kill9()
	for name, why := range show() {
		if (why == "") != (name == peer.Name) {
			t.Errorf("of %s is told %q", name, why)
		}
	}
	var told []api.Explanation
	if err := peer.Call("GET", "/v1/firewall/explain/"+url.PathEscape("52:54:00:00:00:01")+"?all=1", nil, &told); err !=
		nil || len(told) != 3 {
		t.Errorf("%d explanations: %v", len(told), err)
	}
}
