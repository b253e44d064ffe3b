//go:build e2e

package labtest

import (
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/firewall/nftables"
	"github.com/trivet-ha/trivet/test/testenv"
)

// TestDoorIsShutOffline shuts doors as the units do, without a peer: the rules
// stand afterwards, shut, by the driver that a peer would take, and again is no
// harm.
func TestDoorIsShutOffline(t *testing.T) {
	t.Parallel()
	testenv.NeedRoot(t, "ip", "iptables", "iptables-save")
	network := NewNet(t)
	for n, c := range []struct {
		driver   string
		iptables bool
	}{{"auto", false}, {"nftables", false}, {"iptables", true}} {
		h := network.Host(n + 1)
		for range 2 {
			cmd := h.Command(os.Getenv(BinaryEnv), "firewall", "close", "--offline", "--config", "/dev/null",
				"--firewall-driver", c.driver, "--firewall-interface", string(Site))
			if out, err := cmd.CombinedOutput(); err != nil ||
				!strings.Contains(string(out), "no machine boots from this host by site") {
				t.Errorf("%s: %v\n%s", c.driver, err, out)
			}
		}
		if err := h.shutByNftables(!c.iptables); err != nil {
			t.Errorf("%s: %v", c.driver, err)
		}
		rules, err := h.Command("iptables-save", "-t", "filter").CombinedOutput()
		if err != nil || strings.Contains(string(rules), "-A TRIVET-PXE -j DROP") != c.iptables {
			t.Errorf("%s: %v\n%s", c.driver, err, rules)
		}
	}
}

// shutByNftables fails unless our table is on the host, its lease over: with
// lists, or as the lease of driver iptables alone.
func (h *Host) shutByNftables(lists bool) (err error) {
	ns, err := os.Open("/run/netns/" + h.net.ns(h.number))
	if err != nil {
		return err
	}
	defer ns.Close()
	options := []nftables.Option{nftables.InNamespace(int(ns.Fd()))}
	if !lists {
		options = append(options, nftables.LeaseOnly())
	}
	filter, err := nftables.New(firewall.Layout{Interface: string(Site), Match: firewall.MatchEther}, options...)
	if err != nil {
		return err
	}
	left, err := filter.Left(h.net.t.Context())
	if err == nil && left > 0 {
		err = fmt.Errorf("the door is open for another %v", left)
	}
	return err
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
