package simtest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/inspector/ironic"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/inspector"
)

// drawOut makes the starts of a third of the machines, the processing of the
// data of another and the boots of the rest take long enough for a peer to be
// lost in the midst of them, and returns which are which.
func (s *Site) drawOut() (starts, processed, boots []string) {
	const long = 20 * time.Second
	nodes := s.Nodes()
	third := len(nodes) / 3
	starts, processed, boots = nodes[:third], nodes[third:2*third], nodes[2*third:]
	slow := make(map[string]string) // call that takes long, by node
	for i := range third {
		slow[starts[i]], slow[processed[i]] = "PUT boot_device", "PATCH node"
	}
	for _, node := range boots {
		s.Machine(node).Slow = long
	}
	s.Trouble(func(_, call, node string) (time.Duration, error) {
		if slow[node] == call {
			return long, nil
		}
		return 0, nil
	})
	return starts, processed, boots
}

// heldBy tells which nodes a session has claimed for an event.
func heldBy(v fsm.View, session fencing.Token, event introspection.Event) map[string]bool {
	nodes := make(map[string]bool)
	for _, claim := range v.Claims() {
		if r, ok := v.QueuedRequest(claim.Request); ok && r.Event == event && claim.Session == session {
			nodes[claim.Node] = true
		}
	}
	return nodes
}

// amidWork starts all machines until a peer is in the middle of starting some and
// of processing the data of others. Which peer gets a request is chance, so the
// first of either kind is begun while the other peers rest.
func (s *Site) amidWork(p *Peer) {
	s.c.T.Helper()
	starts, processed, boots := s.drawOut()
	holds := func(event introspection.Event) bool {
		v, _ := s.c.newest()
		return len(heldBy(v, p.Core().Session.ID(), event)) > 0
	}
	resume := s.c.rest(s.c.Others(p))
	s.mustBegin(processed[:1])
	s.c.Until(time.Minute, p.Name+" processes", func() bool { return holds(introspection.EventProcess) })
	s.mustBegin(starts[:1])
	s.c.Until(time.Minute, p.Name+" starts a machine", func() bool { return holds(introspection.EventStart) })
	resume()
	s.mustBegin(slices.Concat(starts[1:], processed[1:], boots))
	s.c.Until(time.Minute, p.Name+" is in the middle of its work", func() bool {
		v, _ := s.c.newest()
		counts := make(map[introspection.NodeState]int)
		for rec := range v.Records() {
			counts[rec.State]++
		}
		return holds(introspection.EventStart) && holds(introspection.EventProcess) &&
			counts[introspection.NodeStarting] >= 2 && counts[introspection.NodeWaiting] >= 2 &&
			counts[introspection.NodeProcessing] >= 2
	})
}

// rest lets the workers of peers begin nothing until resume is called.
func (c *Cluster) rest(peers []*Peer) (resume func()) {
	c.T.Helper()
	var resumes []func()
	for _, p := range peers {
		ctx, cancel := context.WithTimeout(context.Background(), endLimit)
		on, err := p.Core().Rest(ctx)
		cancel()
		c.must(err)
		resumes = append(resumes, on)
	}
	return func() {
		for _, on := range resumes {
			on()
		}
	}
}

// lostWith waits until the session of a peer that was lost is over and the others
// have taken over, and returns what the session held at its end. When the peer was
// struck it may have held less: what it had sent by then, a callback that it took
// above all, is in the log only afterwards.
func (s *Site) lostWith(session fencing.Token) (starting, processing map[string]bool) {
	s.c.T.Helper()
	s.c.Until(sleepPast+time.Minute, "no-stuck: the others take over", func() bool {
		v, _ := s.c.newest()
		held := slices.ContainsFunc(v.Claims(), func(claim introspection.Claim) bool { return claim.Session == session })
		if _, live := v.Session(session); !live && !held {
			return true
		}
		starting, processing = heldBy(v, session, introspection.EventStart), heldBy(v, session, introspection.EventProcess)
		return false
	})
	return starting, processing
}

// verdict checks how introspections ended whose peer was lost: only what it was
// processing itself may have failed, and then names it; a node is powered on
// once, or twice if its start was resumed.
func (s *Site) verdict(lost *Peer, starting, processing map[string]bool) {
	s.c.T.Helper()
	v, _ := s.c.newest()
	failed := 0
	for _, node := range s.Nodes() {
		rec, _ := v.Record(node)
		if rec.State != introspection.NodeFinished {
			failed++
			if !processing[node] || !strings.Contains(rec.Error, lost.Name) {
				s.c.T.Errorf("%s ended in %v: %s (processed by the peer that was lost: %v)", node, rec.State, rec.Error,
					processing[node])
			}
		}
		if boots := s.Machine(node).boots; boots != 1 && !(boots == 2 && starting[node]) {
			s.c.T.Errorf("power-once: %s was powered on %d times (its start was resumed: %v)", node, boots, starting[node])
		}
	}
	s.c.T.Logf("%s was lost with %d starting and %d processing; %d failed", lost.Name, len(starting), len(processing),
		failed)
}

// TestPeersLostAmidWork kills a leader and a follower, and cuts one off from the
// other peers while it still reaches Ironic, in the middle of their work.
func TestPeersLostAmidWork(t *testing.T) {
	t.Parallel()
	kill := func(c *Cluster, p *Peer) { c.must(p.Kill()) }
	again := func(c *Cluster, p *Peer) { c.must(p.Start()) }
	for i, loss := range []struct {
		name         string
		leader       bool
		strike, mend func(c *Cluster, p *Peer)
	}{
		{"leader killed", true, kill, again},
		{"follower killed", false, kill, again},
		{"leader cut off", true, Losses()[0].Strike, Losses()[0].Mend},
		{"follower cut off", false, Losses()[0].Strike, Losses()[0].Mend},
	} {
		t.Run(loss.name, func(t *testing.T) {
			SimulateSite(t, 3, uint64(300+i), func(c *Cluster) *Site {
				conf := quick()
				conf.Timeout, conf.Workers = 3*time.Minute, 8
				return NewSite(c, 18, conf, patcher{})
			}, func(c *Cluster, s *Site) {
				victim := c.AwaitLeader(successionLimit)
				if !loss.leader {
					victim = c.Others(victim)[0]
				}
				c.Until(10*time.Second, "every peer has a session",
					func() bool { return len(victim.Core().Store.View().Sessions()) == 3 })
				s.amidWork(victim)
				session, struck := victim.Core().Session.ID(), time.Now()
				loss.strike(c, victim)
				starting, processing := s.lostWith(session)
				time.Sleep(time.Until(struck.Add(sleepPast))) // in a bubble
				loss.mend(c, victim)
				c.revive()
				s.Trouble(nil)
				s.awaitEnds(2*time.Minute, s.Nodes())
				s.verdict(victim, starting, processing)
			})
		})
	}
}

// TestLostAnswer kills the peer that a ramdisk has posted to before it answers.
// The ramdisk asks another one: it joins the first delivery and gets its answer,
// and the data is applied once (assertion applied-once).
func TestLostAnswer(t *testing.T) {
	SimulateSite(t, 3, 320, func(c *Cluster) *Site {
		s := NewSite(c, 12, quick(), patcher{})
		for _, node := range s.Nodes() {
			s.Machine(node).Silent = true // this test speaks for them
		}
		return s
	}, func(c *Cluster, s *Site) {
		c.AwaitLeader(successionLimit)
		for i, node := range s.Nodes() {
			if !s.begin(node) {
				t.Fatalf("%s was not accepted", node)
			}
			c.Until(30*time.Second, "it waits", func() bool {
				v, _ := c.newest()
				rec, _ := v.Record(node)
				return rec.State == introspection.NodeWaiting
			})
			document := []byte(`{"inventory":{"interfaces":[{"name":"eth0","mac_address":"` + s.Machine(node).MAC + `"}]}}`)
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			p := c.Peers[i%len(c.Peers)]
			lost := make(chan struct{})
			go func() {
				defer close(lost)
				_, _ = p.Core().Service.Continue(ctx, document) // nobody is there to hear it
			}()
			c.Until(10*time.Second, "it was accepted", func() bool {
				v, _ := c.newest()
				rec, _ := v.Record(node)
				return len(v.QueueOf(node)) > 0 || rec.State != introspection.NodeWaiting
			})
			worker, _ := workerAt(c, node)
			if worker != p { // else its work is lost, which is another test's
				c.must(p.Kill())
				c.must(p.Start())
			}
			cancel()
			<-lost
			if i%2 == 0 { // no look-up finds a node that has finished
				c.Until(time.Minute, "it finished", func() bool {
					v, _ := c.newest()
					rec, _ := v.Record(node)
					return rec.State == introspection.NodeFinished
				})
			}
			other := c.Others(p)[0]
			var got string
			var err error
			c.Until(time.Minute, "another peer answers", func() bool {
				ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
				defer cancel()
				got, err = other.Core().Service.Continue(ctx, document)
				return err == nil || !unavailable(err)
			})
			if err != nil || got != node {
				t.Errorf("same-answer: the repeat got %q, %v", got, err)
			}
		}
	})
}

func unavailable(err error) bool {
	said, ok := err.(*inspector.Refusal)
	return !ok || said.Status >= 500
}

// workerAt returns the peer that has a node's claim.
func workerAt(c *Cluster, node string) (*Peer, bool) {
	v, _ := c.newest()
	claim, ok := v.ClaimOf(node)
	if !ok {
		return nil, false
	}
	return c.Peer(claim.Peer), true
}

// TestStartedIsKnown starts machines on one peer and asks the others at once,
// while leaders are lost: a start that was accepted is known everywhere.
func TestStartedIsKnown(t *testing.T) {
	t.Parallel()
	SimulateSite(t, 3, 330, func(c *Cluster) *Site { return NewSite(c, 100, quick(), patcher{}) },
		func(c *Cluster, s *Site) {
			c.AwaitLeader(successionLimit)
			asked, misses := 0, 0
			for i, node := range s.Nodes() {
				if i%25 == 24 {
					c.Lose(Losses()[i/25%2*4]) // isolate, kill
				}
				ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
				if err := c.Peers[i%3].Core().Service.Start(ctx, node, true); err == nil {
					for _, p := range c.Others(c.Peers[i%3]) {
						rec, err := p.Core().Service.Status(ctx, node, inspector.Linearizable)
						if asked++; err != nil || rec.Node != node {
							misses++
							t.Errorf("read-your-writes: %s was started, and %s says %v", node, p.Name, err)
						}
					}
				}
				cancel()
			}
			if asked < 180 {
				t.Errorf("only %d questions were asked", asked)
			}
			s.awaitEnds(2*time.Minute, nil)
		})
}

// TestKnownBeforePower lets no peer list a node's ports while it is asked to
// start it. The worker lists them, and the log knows them before the node is
// powered on (assertion known-before-power).
func TestKnownBeforePower(t *testing.T) {
	SimulateSite(t, 3, 340, func(c *Cluster) *Site { return NewSite(c, 6, quick(), patcher{}) },
		func(c *Cluster, s *Site) {
			c.AwaitLeader(successionLimit)
			s.Trouble(func(_, call, node string) (time.Duration, error) {
				if v, _ := c.newest(); call == "GET ports" {
					if _, claimed := v.ClaimOf(node); !claimed {
						return 0, &ironic.Error{Call: call, Status: 500, Message: "not now"}
					}
				}
				return 0, nil
			})
			s.beginAll()
			s.awaitEnds(time.Minute, s.Nodes())
			v, _ := c.newest()
			for _, node := range s.Nodes() {
				if rec, _ := v.Record(node); rec.State != introspection.NodeFinished {
					t.Errorf("%s ended in %v: %s", node, rec.State, rec.Error)
				}
			}
		})
}

// TestPeerLeavesAmidWork takes a peer out of the cluster while it works, as
// 'trivet leave' does: what it holds is free for the others at that moment, so
// it must have nothing under way by then, or what it processes fails.
func TestPeerLeavesAmidWork(t *testing.T) {
	t.Parallel()
	SimulateSite(t, 4, 350, func(c *Cluster) *Site {
		conf := quick()
		conf.Timeout = 3 * time.Minute
		return NewSite(c, 40, conf, patcher{})
	}, func(c *Cluster, s *Site) {
		s.Trouble(func(_, call, _ string) (time.Duration, error) {
			if call == "PATCH node" {
				return 3 * time.Second, nil
			}
			return 0, nil
		})
		lead := c.AwaitLeader(successionLimit)
		leaver := c.Others(lead)[0]
		c.settle(0)
		work := s.operate(8, endLimit, 0)
		c.Until(time.Minute, leaver.Name+" has claims", func() bool { return len(claimsOf(c, leaver)) > 0 })
		leaver.leaving.Store(true)
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		resume, err := leaver.Core().Rest(ctx)
		c.must(err)
		if held := claimsOf(c, leaver); len(held) > 0 {
			t.Errorf("it rests and holds %+v", held)
		}
		resume() // leaving was refused at first
		c.Until(time.Minute, leaver.Name+" has claims again", func() bool { return len(claimsOf(c, leaver)) > 0 })
		_, err = leaver.Core().Rest(ctx)
		c.must(err)
		c.commit(membership.RemoveMember{ID: leaver.Name})
		time.Sleep(sleepPast) // in a bubble
		work.stop()
		c.must(leaver.Kill())
		c.Peers = c.Others(leaver)
		if work.ends["finished"] != work.total {
			t.Errorf("of %d introspections ended: %v", work.total, work.ends)
		}
	})
}
