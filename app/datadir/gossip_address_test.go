package datadir

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/test/testenv"
)

// TestGossipAddressOfAName is one at which the others reach the peer, also where its name has others.
func TestGossipAddressOfAName(t *testing.T) {
	const own, nat, seed = "192.0.2.1", "203.0.113.1", "h2:7351"
	names := func(own ...string) map[string][]string {
		return map[string][]string{"h1.example.org": own, "h2": {"192.0.2.2"}}
	}
	for name, c := range map[string]struct {
		listen string
		names  map[string][]string
		seeds  []string
		want   string
		fails  bool
	}{
		"its address":                    {":7351", names(own), nil, own, false},
		"one that it has":                {":7351", names("127.0.1.1", nat, own), nil, own, false},
		"a router's":                     {":7351", names(nat), []string{seed}, nat, false},
		"where it listens":               {"[fd00::1]:7351", names(own, "fd00::1"), nil, "fd00::1", false},
		"its own name in Debian":         {":7351", names("127.0.1.1"), []string{seed}, "10.9.0.1", false},
		"its own name, it is alone":      {":7351", names("127.0.1.1"), nil, own, false},
		"its own name, it listens there": {"127.0.0.1:7351", names("127.0.0.1"), []string{seed}, "127.0.0.1", false},
		"its own name, it listens":       {"192.0.2.1:7351", names("127.0.1.1"), []string{seed}, own, false},
		"no name server":                 {":7351", nil, []string{"h2:7351", "192.0.2.2:7351"}, "10.9.0.1", true},
		"no name server, it is alone":    {":7351", nil, nil, own, true},
	} {
		conf := config.Default()
		conf.Gossip.Listen, conf.Firewall.Interface = c.listen, "eth1"
		on := wires{v4: map[string]string{"eth0": own, "eth1": "10.9.0.1"}, v6: map[string]string{"eth0": "fd00::1"},
			reaches: map[string]string{"192.0.2.2:7351": "10.9.0.1"}}.network()
		on.lookup = func(_ context.Context, name string) (found []net.IPAddr, err error) {
			for _, ip := range c.names[name] {
				found = append(found, net.IPAddr{IP: net.ParseIP(ip)})
			}
			if found == nil {
				err = errors.New("no such host")
			}
			return found, err
		}
		got, err := Host{Config: conf}.gossipAddress(t.Context(), on, "h1.example.org:17351", c.seeds)
		if want := net.JoinHostPort(c.want, "17351"); got != want || (err != nil) != c.fails {
			t.Errorf("gossip-of-a-name: %s: %q (%v), want %q", name, got, err, want)
		}
		const address = "[fd00::9]:7351"
		if got, err := (Host{Config: conf}).gossipAddress(t.Context(), on, address, c.seeds); got != address {
			t.Errorf("gossip-of-a-name: %s: an address is %q (%v)", name, got, err)
		}
	}
}

// TestAHostWithANameAsksTheOthers before a cluster is founded again there.
func TestAHostWithANameAsksTheOthers(t *testing.T) {
	f := newFounder(t)
	f.open(nil, func(d *Dir) {
		plan, err := f.host.PlanRecover(d)
		if err != nil {
			t.Fatal(err)
		}
		free := testenv.FreePort(t)
		plan.Self.Gossip = "localhost:7351"
		plan.Others = []membership.FormerMember{{ID: "h2", Name: "h2", Address: free, Gossip: free}}
		f.host.Config.Gossip.Listen = testenv.FreePort(t)
		asked, err := f.host.Ask(t.Context(), plan)
		if err != nil || len(asked) != 1 || asked[0].Presence != cluster.Stopped {
			t.Errorf("gossip-of-a-name: %+v (%v)", asked, err)
		}
	})
}
