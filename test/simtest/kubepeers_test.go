package simtest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/cluster"
)

// TestPeersOnKubeNodesLive runs each peer on a kube node that no address shows. Those
// kube nodes look dead, one after the other, while the peers on them live and leaders are
// lost: none is switched off. One without a peer is.
func TestPeersOnKubeNodesLive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, 1010)
		k := attachKube(c, kubeNodes, brisk())
		here := make(map[string]string) // kube nodes by the peers on them
		for i, p := range c.Peers {
			here[p.Name] = k.names[i]
		}
		c.Probes = true
		c.Machine = func(p *Peer) cluster.Machine { return cluster.Machine{BootID: k.nodes[here[p.Name]].bootID()} }
		defer k.bg.Wait() // after the peers
		defer k.begin()()
		defer c.end()
		c.start()
		k.awaitWatched()
		looksDead := func(name string, dead bool) {
			k.with(func() { k.nodes[name].apart, k.nodes[name].hidden = dead, dead })
		}
		losses := Losses()
		for i, p := range c.Peers {
			looksDead(here[p.Name], true)
			k.pass(10*time.Second, nil)
			c.Lose(losses[i%len(losses)])
			k.pass(50*time.Second, nil)
			looksDead(here[p.Name], false)
			k.pass(30*time.Second, nil)
		}
		if n := k.fenced(); n > 0 {
			t.Fatalf("peer-lives: %d power-off commands to machines on which peers live\n%s", n, k.story())
		}
		looksDead(k.names[len(c.Peers)], true)
		c.Until(time.Minute, "a kube node without a peer is switched off", func() bool { return k.fenced() > 0 })
	})
}
