package simtest

import (
	"testing"
	"time"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

// relayTime is what Ironic's own callbacks have to arrive in. Tests wait for them that long: a
// repeat of which Ironic says 404 ends when it has said so for AbsentTimeout, and an attempt that
// does not reach Ironic begins that again.
const relayTime = 15 * time.Minute

// TestRelaysSurvive loses one leader after the other, in every way there is,
// while callbacks come in that are Ironic's own, of which every other node's
// ports are known, and while Ironic is away for a while. Whatever was accepted
// reaches Ironic once in effect (relay-delivered), is kept once (relay-joined),
// and the log knows that it was taken (relay-told). Of a machine of which Ironic shows
// no port, which it might enrol, it is sent one document at most (relay-enrols).
func TestRelaysSurvive(t *testing.T) {
	t.Parallel()
	const machines = 24
	for i, how := range Losses() {
		t.Run(how.Name, func(t *testing.T) {
			SimulateSite(t, 3, uint64(700+i), func(c *Cluster) *Site {
				conf := quick()
				conf.Timeout = relayTime
				conf.ContinueInspection = config.ContinueRelay
				s := NewSite(c, machines, conf)
				s.expectAll()
				for n, node := range s.Nodes() {
					if n%2 == 0 {
						s.show(node)
					}
				}
				c.Duties = func(*Peer) []leader.Duty { return []leader.Duty{portLister{s}} }
				return s
			}, func(c *Cluster, s *Site) {
				c.AwaitLeader(successionLimit)
				for n, node := range s.Nodes() {
					if n == machines/2 {
						s.away(true)
					}
					s.ramdisks.Go(func() { s.deliver(node) })
					if n%8 == 7 {
						c.Lose(how)
					}
				}
				time.Sleep(20 * time.Second) // in a bubble
				s.away(false)
				s.ramdisks.Wait()
				s.show(s.Nodes()...)
				c.Until(relayTime, "no callback is pending", func() bool {
					c.revive()
					v, ok := c.newest()
					return ok && v.RelaysPending() == 0
				})
				accepted := s.judgeRelays()
				t.Logf("%d of %d were accepted", accepted, machines)
				if accepted < machines*3/4 {
					t.Errorf("only %d of %d callbacks were accepted", accepted, machines)
				}
			})
		})
	}
}

// away takes Ironic from all peers, or gives it back.
func (s *Site) away(gone bool) {
	for _, p := range s.c.Peers {
		s.Cut(p.Name, gone)
	}
}
