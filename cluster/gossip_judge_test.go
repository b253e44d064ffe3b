package cluster

import (
	"errors"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// meet makes a peer of gossip under o, and returns it with the incarnations that
// it was told to be newer than its own.
func meet(t *testing.T, o GossipOptions) (*Gossip, chan uint64) {
	t.Helper()
	newer := make(chan uint64, 16) // a stream tells it a few times
	o.Newer = func(theirs uint64) {
		select {
		case newer <- theirs:
		default:
		}
	}
	g, err := NewGossip(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Drop() })
	return g, newer
}

// A peer of another cluster that speaks under the same key, a copy of a test
// cluster for one, is not taken in by either side.
func TestGossipOfAnotherCluster(t *testing.T) {
	own, _ := meet(t, gossipOptions("a", testenv.FreePort(t), "", 1))
	o := gossipOptions("b", testenv.FreePort(t), "", 1)
	o.Cluster, o.Incarnation = "another", 2
	foreign, told := meet(t, o)
	if _, err := own.list.Join([]string{foreign.list.LocalNode().Address()}); err == nil ||
		!strings.Contains(err.Error(), errOtherCluster.Error()) {
		t.Errorf("another-cluster: the exchange ended with %v", err)
	}
	for _, g := range []*Gossip{own, foreign} {
		if states := g.States(); len(states) != 1 {
			t.Errorf("another-cluster: %s knows %v", g.opts.ID, states)
		}
	}
	// Its incarnation is that of another history.
	if err := own.checkMember(foreign.list.LocalNode()); !errors.Is(err, errOtherCluster) {
		t.Errorf("another-cluster: it is judged %v", err)
	}
	if len(told) > 0 {
		t.Errorf("another-cluster: the incarnations were compared %d times", len(told))
	}
}

// A peer that was left behind by a recovery hears of it by gossip, whoever calls
// whom, and neither side takes the other in.
func TestGossipTellsAHigherIncarnation(t *testing.T) {
	for _, calls := range []string{"old", "new"} {
		t.Run("the "+calls+" one calls", func(t *testing.T) {
			old, toldOld := meet(t, gossipOptions("a", testenv.FreePort(t), "", 1))
			o := gossipOptions("b", testenv.FreePort(t), "", 1)
			o.Incarnation = 2
			recovered, toldNew := meet(t, o)
			from, to := old, recovered
			if calls == "new" {
				from, to = recovered, old
			}
			if _, err := from.list.Join([]string{to.list.LocalNode().Address()}); err == nil ||
				!strings.Contains(err.Error(), "incarnation") {
				t.Errorf("higher-incarnation: the exchange ended with %v", err)
			}
			if theirs := testwait.Receive(t, toldOld, "higher-incarnation: the older peer is told"); theirs != 2 {
				t.Errorf("higher-incarnation: told of %d", theirs)
			}
			if len(toldNew) > 0 {
				t.Errorf("higher-incarnation: the newer peer was told of one %d times", len(toldNew))
			}
			for _, g := range []*Gossip{old, recovered} {
				if states := g.States(); len(states) != 1 {
					t.Errorf("higher-incarnation: %s knows %v", g.opts.ID, states)
				}
			}
		})
	}
}
