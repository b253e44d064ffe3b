package failover

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

// peersElsewhere finds every peer on a host that is no kube node.
type peersElsewhere struct{}

func (peersElsewhere) LookupHost(context.Context, string) ([]string, error) {
	return []string{"192.0.2.200"}, nil
}

func (peersElsewhere) Own() ([]string, error) { return nil, nil }

// names is a resolver that knows some names, and this host's own addresses.
type names struct {
	known map[string][]string
	own   []string
}

func (n names) LookupHost(_ context.Context, name string) ([]string, error) {
	if all, ok := n.known[name]; ok {
		return all, nil
	}
	return nil, errors.New("no such host")
}

func (n names) Own() ([]string, error) { return n.own, nil }

// A peer that lives on a kube node is not switched off, by whatever it is known; nor is
// any kube node while it is not known where a living peer runs.
func TestLivingPeerIsFoundOnItsKubeNode(t *testing.T) {
	all := map[string][]string{"a.example": {"192.0.2.1"}, "b.example": {"192.0.2.2"}, "c.example": {"192.0.2.3"}}
	with := func(name string, addresses ...string) map[string][]string {
		changed := map[string][]string{"a.example": all["a.example"], "b.example": all["b.example"],
			"c.example": all["c.example"]}
		if changed[name] = addresses; addresses == nil {
			delete(changed, name)
		}
		return changed
	}
	for name, c := range map[string]struct {
		finder names
		later  *names // what is found after that
		node   string // that is dead
		at     []string
		want   string // a part of what the rail says; "" if it does not forbid
	}{
		"elsewhere": {finder: names{known: all}},
		"its name is resolved": {finder: names{known: with("b.example", "2001:db8::9", "10.0.0.1")},
			want: "peer host-b runs on it and is alive"},
		"the resolver fails": {finder: names{known: with("b.example", "10.0.0.1")}, later: &names{},
			want: "peer host-b runs on it and is alive"},
		"it cannot be resolved": {finder: names{known: with("b.example")},
			want: "peer host-b may run on it: it is alive, and the leader cannot resolve b.example"},
		"only to a loopback": {finder: names{known: with("b.example", "127.0.1.1")},
			want: "peer host-b may run on it"},
		"the Node has its DNS name": {finder: names{known: all}, at: []string{"B.Example."},
			want: "peer host-b runs on it and is alive"},
		"the Node has its name": {finder: names{known: all}, node: "host-b", want: "peer host-b runs on it and is alive"},
		"the leader's own address": {
			finder: names{known: with("a.example", "127.0.1.1"), own: []string{"127.0.0.1", "10.0.0.1"}},
			want:   "peer host-a, which leads, runs on it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, random *rand.Rand) {
				log := newCourt(t, 5, random).log
				v, _ := log.Changed()
				peers := newPeerHosts(c.finder, "a")
				peers.find(t.Context(), v)
				if c.later != nil {
					peers.finder = *c.later
					peers.find(t.Context(), v)
				}
				f := factsOf()
				f.peers = nil
				f.readState(v, "a", peers)
				n := f.nodes[0]
				if c.node != "" {
					n.Name = c.node
				}
				n.Addresses = append(n.Addresses, c.at...)
				if says := byOwnQuorum(f, n); c.want == "" && says != "" || !strings.Contains(says, c.want) {
					t.Errorf("own-quorum: the rail says %q, want %q", says, c.want)
				}
			})
		})
	}
}

// The leader's own host may be known by a name that resolves to a loopback address
// there, as Debian writes it into /etc/hosts.
func TestSystemFinderKnowsItsOwnAddresses(t *testing.T) {
	own, err := (&SystemFinder{}).Own()
	if err != nil || len(own) == 0 {
		t.Errorf("own addresses %v: %v", own, err)
	}
	for _, a := range own {
		if !isAddress(a) {
			t.Errorf("%q is no address", a)
		}
	}
}
