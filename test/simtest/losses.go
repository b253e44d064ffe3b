package simtest

import (
	"time"

	"github.com/trivet-ha/trivet/fsm/fencing"
)

// Loss is one way to lose a leader, and how the host comes back.
type Loss struct {
	Name   string
	Strike func(c *Cluster, p *Peer)
	Mend   func(c *Cluster, p *Peer)
}

// sleepOn is how long a paused leader sleeps on after another leads.
const sleepOn = 700 * time.Millisecond

// steady is how long the cluster is left alone between two losses, for the
// load to be one.
const steady = 400 * time.Millisecond

// Losses are the ways of this house: isolate, isolate one way, pause, kill,
// hang the disk.
func Losses() []Loss {
	heal := func(c *Cluster, p *Peer) { c.Net.Heal(p.Name) }
	return []Loss{
		{"isolate", func(c *Cluster, p *Peer) { c.Net.Isolate(p.Name) }, heal},
		{"deaf", func(c *Cluster, p *Peer) { c.Net.IsolateInbound(p.Name) }, heal},
		{"dumb", func(c *Cluster, p *Peer) { c.Net.IsolateOutbound(p.Name) }, heal},
		{"pause", func(_ *Cluster, p *Peer) { p.Pause() }, func(_ *Cluster, p *Peer) {
			time.Sleep(sleepOn) // in a bubble
			p.Resume()
		}},
		{"kill", func(c *Cluster, p *Peer) { c.must(p.Kill()) }, func(c *Cluster, p *Peer) { c.must(p.Start()) }},
		{"hang", func(_ *Cluster, p *Peer) { p.Disk.Hang() }, func(_ *Cluster, p *Peer) { p.Disk.Thaw() }},
	}
}

// successionLimit bounds, in virtual time, how long a cluster may take to have
// a leader with all its duties after one was lost: the watchdog's 2 s, an
// election of 1.5 s, and slack for a vote that is split.
const successionLimit = 10 * time.Second

// Lose strikes the leader, waits for its successor, mends the host and lets
// an old duty try its luck. It returns how long the cluster had no leader.
func (c *Cluster) Lose(how Loss) time.Duration {
	c.T.Helper()
	p := c.AwaitLeader(successionLimit)
	old := p.Core().Runner.Token()
	began := time.Now()
	how.Strike(c, p)
	next := c.AwaitLeader(successionLimit, p)
	gap := time.Since(began)
	how.Mend(c, p)
	for _, l := range c.loads {
		l.Verify(next)
	}
	c.lame(next, old)
	c.revive()
	c.settle(old)
	time.Sleep(steady) // in a bubble
	return gap
}

// revive restarts processes that ended themselves, as systemd does.
func (c *Cluster) revive() {
	for _, p := range c.Peers {
		if p.Exited() {
			c.must(p.Kill())
			c.must(p.Start())
		}
	}
}

// settle waits until every peer follows the newest leadership, so that the next
// loss strikes a whole cluster.
func (c *Cluster) settle(old fencing.Token) {
	c.T.Helper()
	c.Until(successionLimit, "every peer follows the new leader", func() bool {
		c.revive()
		return c.followed(old)
	})
}

// followed reports whether every peer runs, follows one leadership with a token above
// old, and has a session.
func (c *Cluster) followed(old fencing.Token) bool {
	leader := c.Leader()
	if leader == nil {
		return false
	}
	token := leader.Core().Runner.Token()
	for _, p := range c.Peers {
		core := p.Core()
		if core == nil || core.Store.View().Leadership().Token != token || core.Session.ID().IsZero() {
			return false
		}
	}
	return token > old
}
