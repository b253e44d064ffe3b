package simtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/health"
	"github.com/trivet-ha/trivet/app/waits"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/kubestate"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

const (
	// tellsLate is how far a limit in cluster time may be off as it is told: the state's cluster time
	// is as old as its newest entry, a renewal of a session.
	tellsLate = 3 * time.Second
	// enacted is how long after its limit a wait may end: the leader looks, and a worker does it.
	enacted = 6 * time.Second
)

// sight is what a peer sees, as its status is made of.
func (c *Cluster) sight(p *Peer, conf config.Config) waits.Sight {
	store := p.Core().Store
	lead, _ := store.Leader()
	s := waits.Sight{View: store.View(), Config: conf, Wall: p.wall(), Leader: lead.ID, Servers: store.Servers(),
		Seen: api.Status{Leadership: api.Leadership{StaleMS: (&health.Members{Log: store}).Stale().Milliseconds()}}}
	for _, other := range c.Peers {
		known := slices.IndexFunc(s.Servers, func(srv raftstore.Server) bool { return srv.ID == other.Name })
		row := api.Peer{ID: other.Name, Name: other.Name, Self: other == p, Voter: known >= 0 && s.Servers[known].Voter,
			Contact: api.Contact{Live: other.Core() != nil && !other.paused()}}
		s.Seen.Peers = append(s.Seen.Peers, row)
		if row.Voter {
			s.Seen.Quorum.Voters++
		}
		if row.Voter && row.Live {
			s.Seen.Quorum.Live++
		}
	}
	s.Seen.Quorum.Need = s.Seen.Quorum.Voters/2 + 1
	return s
}

// waiting finds what waits, by its kind, on a peer; a subject that is not "" is part of it.
func (c *Cluster) waiting(p *Peer, conf config.Config, kind, subject string) (w api.Wait, ok bool) {
	for _, w := range c.sight(p, conf).All().Waits {
		if w.Kind == kind && strings.Contains(w.Subject, subject) {
			return w, true
		}
	}
	return w, false
}

// awaitWait waits until a wait of a kind is told on a peer.
func (c *Cluster) awaitWait(p *Peer, conf config.Config, kind, subject string) (w api.Wait) {
	c.T.Helper()
	c.Until(time.Minute, "wait "+kind+" is told", func() (ok bool) {
		w, ok = c.waiting(p, conf, kind, subject)
		return ok
	})
	return w
}

// endsAt waits until a wait ends, and wants that to be at the limit that was told at any time
// of it. Where others end it too, or begin its time anew, it is not after the limit that was told last.
func (c *Cluster) endsAt(p *Peer, conf config.Config, kind, subject string, slack time.Duration, others bool) {
	c.T.Helper()
	var limits []time.Time
	c.Until(20*time.Minute, "wait "+kind+" ends", func() bool {
		w, ok := c.waiting(p, conf, kind, subject)
		if ok && w.Until != "" {
			at, err := time.Parse(time.RFC3339, w.Until)
			c.must(err)
			limits = append(limits, at)
		}
		return !ok
	})
	ended := p.wall()
	if len(limits) == 0 {
		c.T.Fatalf("waits-limit: no limit of %s was ever told", kind)
	}
	if others {
		limits = limits[len(limits)-1:]
	}
	for _, at := range limits {
		if ended.After(at.Add(slack+tellsLate)) || !others && ended.Before(at.Add(-tellsLate)) {
			c.T.Fatalf("waits-limit: %s was told to end at %v and ended at %v", kind, at, ended)
		}
	}
}

// quickly is the configuration of a site of quick introspections.
func quickly() config.Config {
	conf := config.Default()
	conf.Inspection = quick()
	return conf
}

// TestWaitsOfMachines makes machines wait, for all that they can wait for, and wants each limit that
// is told to be the one that holds: also that of a worker whose peer was stopped.
func TestWaitsOfMachines(t *testing.T) {
	t.Parallel()
	conf := quickly()
	SimulateSite(t, 3, 911, func(c *Cluster) *Site {
		s := NewSite(c, 3, conf.Inspection, patcher{})
		for _, node := range s.Nodes() {
			s.Machine(node).Silent = true
		}
		return s
	}, func(c *Cluster, s *Site) {
		c.settle(0)
		at := c.Others(c.Leader())[0]
		nodes := s.Nodes()
		s.mustBegin(nodes)
		c.Until(time.Minute, "all wait for their machines", func() bool {
			w, ok := c.waiting(at, conf, "introspection/waiting", "")
			return ok && w.Count == len(nodes)
		})
		own := c.sight(at, conf).Of(nodes[0])
		if len(own) != 1 || own[0].Kind != "introspection/waiting" || own[0].Subject != "node "+nodes[0] {
			t.Errorf("waits-of-node: of one node is told %+v", own)
		}
		c.endsAt(at, conf, "introspection/waiting", "", enacted, false)

		// A worker's peer is stopped in the middle of its work: its session is what ends.
		s.Trouble(func(_, call, node string) (time.Duration, error) {
			if node == nodes[0] && strings.Contains(call, "power") {
				return 40 * time.Second, nil
			}
			return 0, nil
		})
		s.mustBegin(nodes[:1])
		var claim introspection.Claim
		c.Until(time.Minute, "a worker has the node", func() (held bool) {
			v, _ := c.newest()
			claim, held = v.ClaimOf(nodes[0])
			return held
		})
		time.Sleep(4 * time.Second) // in a bubble: a renewal of its session passes
		worker := c.Peer(claim.Peer)
		worker.Pause()
		defer worker.Resume()
		at = c.AwaitLeader(successionLimit, worker)
		w := c.awaitWait(at, conf, "introspection/starting", nodes[0])
		if !strings.Contains(w.For, "peer "+claim.Peer+" is at it") || !strings.Contains(w.For, "and is silent") ||
			!strings.Contains(w.Then, "the session of "+claim.Peer+" ends") {
			t.Errorf("waits-silent-worker: %s", w.Text(at.wall()))
		}
		limit, err := time.Parse(time.RFC3339, w.Until)
		c.must(err)
		c.Until(time.Minute, "the claim ends", func() bool {
			now, held := at.Core().Store.View().ClaimOf(nodes[0])
			return !held || now.Token != claim.Token
		})
		if off := at.wall().Sub(limit); off.Abs() > tellsLate+time.Second {
			t.Errorf("waits-limit: the claim of a silent worker ended %v after the limit that was told", off)
		}
		s.Trouble(nil)
	})
}

// TestWaitsOfRelayAndAbort takes Ironic away while a document waits for it and an introspection is
// aborted: both are told, with why, and end when it is back.
func TestWaitsOfRelayAndAbort(t *testing.T) {
	t.Parallel()
	conf := quickly()
	conf.Inspection.Timeout = 5 * time.Minute
	conf.Inspection.ContinueInspection = config.ContinueRelay
	SimulateSite(t, 3, 912, func(c *Cluster) *Site {
		s := NewSite(c, 3, conf.Inspection)
		s.expectAll()
		for _, node := range s.Nodes() {
			s.Machine(node).Silent = true
		}
		s.show(s.Nodes()...)
		c.Duties = func(*Peer) []leader.Duty { return []leader.Duty{portLister{s}} }
		return s
	}, func(c *Cluster, s *Site) {
		c.settle(0)
		at := c.Others(c.Leader())[0]
		nodes := s.Nodes()
		s.mustBegin(nodes[:1])
		c.awaitWait(at, conf, "introspection/waiting", nodes[0])
		s.away(true)
		time.Sleep(20 * time.Second) // in a bubble: peers have noticed, and their sessions tell
		s.ramdisks.Go(func() { s.deliver(nodes[1]) })
		abort(c, nodes[0])
		c.Until(time.Minute, "waits-ironic-away: both are told, and why", func() bool {
			abort, aborting := c.waiting(at, conf, "introspection/aborting", nodes[0])
			relay, pending := c.waiting(at, conf, "relay/pending", nodes[1])
			return aborting && pending && strings.Contains(abort.For, "reach") && abort.Until != "" &&
				strings.Contains(relay.For, "the leader does not reach it") && relay.Until != ""
		})
		s.away(false)
		s.ramdisks.Wait()
		for _, kind := range []string{"introspection/aborting", "relay/pending"} {
			c.Until(2*time.Minute, kind+" has ended", func() bool { _, ok := c.waiting(at, conf, kind, ""); return !ok })
		}
	})
}

// abort cancels an introspection through any peer.
func abort(c *Cluster, node string) {
	c.T.Helper()
	c.Until(time.Minute, "the abort is accepted", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		return c.Leader() != nil && c.Leader().Core().Service.Abort(ctx, node) == nil
	})
}

// TestWaitsOfRelays leaves documents untaken: by an Ironic that is away until their time is over,
// and by one that waits for no such document.
func TestWaitsOfRelays(t *testing.T) {
	t.Parallel()
	for _, away := range []bool{true, false} {
		t.Run(fmt.Sprintf("away: %v", away), func(t *testing.T) {
			conf := quickly()
			conf.Inspection.ContinueInspection = config.ContinueRelay
			machines := 1
			if !away {
				conf.Inspection.Timeout = 10 * time.Minute
				machines = 8 // the answers about some are lost, which ends them
			}
			SimulateSite(t, 3, 913, func(c *Cluster) *Site {
				s := NewSite(c, machines, conf.Inspection)
				s.expectAll()
				return s
			}, func(c *Cluster, s *Site) {
				c.settle(0)
				at := c.Others(c.Leader())[0]
				s.away(true)
				for _, node := range s.Nodes() {
					s.ramdisks.Go(func() { s.deliver(node) })
				}
				w := c.awaitWait(at, conf, "relay/pending", "")
				if !away {
					s.mu.Lock()
					clear(s.expects)
					s.mu.Unlock()
					s.away(false)
					c.Until(time.Minute, "Ironic waits for none", func() bool {
						all := c.sight(at, conf).All().Waits
						i := slices.IndexFunc(all, func(w api.Wait) bool { return strings.Contains(w.For, "it waits for no data") })
						if i >= 0 {
							w = all[i]
						}
						return i >= 0
					})
					if limit, err := time.Parse(time.RFC3339, w.Until); err != nil || limit.Sub(at.wall()) > time.Minute {
						t.Errorf("waits-absent: %s", w.Text(at.wall()))
					}
				}
				// Answers that are lost begin the time of a document anew, or end it.
				c.endsAt(at, conf, "relay/pending", "", enacted, !away)
				s.ramdisks.Wait()
			})
		})
	}
}

// TestWaitsOfJoiner kills the leader while a peer joins: it is told without a pause that the peer
// waits, and for whom, until it votes.
func TestWaitsOfJoiner(t *testing.T) {
	t.Parallel()
	conf := config.Default()
	Simulate(t, 3, 914, func(c *Cluster) {
		c.settle(0)
		extra := c.joins("x")
		old := c.AwaitLeader(successionLimit)
		at := c.Others(old)[0]
		c.awaitWait(at, conf, "member/joining", "x")
		c.must(old.Kill())
		leaderless := false
		c.Until(successionLimit, "another peer leads", func() bool {
			s := c.sight(at, conf)
			if s.Leader == "" {
				_, none := c.waiting(at, conf, "leadership/none", "")
				w, joining := c.waiting(at, conf, "member/joining", "x")
				leaderless = leaderless || none && joining && strings.Contains(w.For, "only a leader gives it a vote")
			}
			return s.Leader != "" && s.Leader != old.Name
		})
		if !leaderless {
			t.Error("waits-two-at-once: that the joiner waits for a leader was never told")
		}
		w := c.awaitWait(at, conf, "member/silent", "")
		if !strings.Contains(w.For, old.Name) {
			t.Errorf("waits-silent: %s", w.Text(at.wall()))
		}
		// Its session ends at the limit that is told.
		c.Until(time.Minute, "the session of the one that was killed ends", func() bool {
			now, ok := c.waiting(at, conf, "member/silent", "")
			if ok && now.Until != "" {
				w = now
			}
			_, live := at.Core().Store.View().SessionOf(old.Name)
			return !live
		})
		limit, err := time.Parse(time.RFC3339, w.Until)
		c.must(err)
		if off := at.wall().Sub(limit); off.Abs() > tellsLate+time.Second {
			t.Errorf("waits-limit: the session ended %v after the limit that was told", off)
		}
		c.awaitVote(extra, true)
		c.Until(successionLimit, "the joiner waits for nothing", func() bool {
			_, ok := c.waiting(at, conf, "member/joining", "")
			return !ok
		})
		c.must(old.Start())
		c.removed(extra)
	})
}

// TestWaitsOfPauses pauses failover and puts a peer into maintenance: a pause ends at the limit
// that is told, maintenance when an operator ends it.
func TestWaitsOfPauses(t *testing.T) {
	t.Parallel()
	conf := config.Default()
	Simulate(t, 3, 915, func(c *Cluster) {
		c.settle(0)
		at := c.Others(c.Leader())[0]
		c.commit(kubestate.PauseFailover{Cluster: "prod", Paused: true, For: 40 * time.Second, By: "alice"})
		w := c.awaitWait(at, conf, "failover/paused", "prod")
		if !strings.Contains(w.For, "alice") {
			t.Errorf("waits-pause: %s", w.Text(at.wall()))
		}
		c.endsAt(at, conf, "failover/paused", "prod", 0, false)
		c.exclude(at, membership.FromLeading, true)
		if w = c.awaitWait(at, conf, "maintenance", at.Name); w.Until != "" || w.Since == "" {
			t.Errorf("waits-maintenance: %s", w.Text(at.wall()))
		}
		c.exclude(at, membership.FromLeading, false)
		c.Until(successionLimit, "maintenance is over", func() bool {
			_, ok := c.waiting(at, conf, "maintenance", "")
			return !ok
		})
	})
}

// TestWaitsOfDoor kills the leader: until the next one opens, the time is told after which the
// kernel of the one that died has closed at the latest.
func TestWaitsOfDoor(t *testing.T) {
	t.Parallel()
	conf := config.Default()
	Simulate(t, 3, 916, func(c *Cluster) {
		c.withDoors(&PortTable{})
		c.settle(0)
		c.awaitDoor()
		time.Sleep(30 * time.Second) // in a bubble: it was opened long before
		old := c.Leader()
		at := c.Others(old)[0]
		c.must(old.Kill())
		var last api.Wait
		c.Until(doorLimit, "another door opens", func() bool {
			s := c.sight(at, conf)
			s.Seen.PXE = api.PXEService{Guarded: true}
			for _, w := range s.All().Waits {
				if w.Kind == "pxe/closed" && w.Until != "" {
					last = w
				}
			}
			p := c.OpenDoor()
			return p != nil && p != old
		})
		limit, err := time.Parse(time.RFC3339, last.Until)
		if err != nil || at.wall().After(limit.Add(2*time.Second)) || limit.Sub(at.wall()) > tellsLate+time.Second {
			t.Errorf("waits-limit: %v: a door opened at %v; told was %s", err, at.wall(), last.Text(at.wall()))
		}
	})
}

// TestWaitsWithoutLeader takes the leader and the quorum from an introspection that waits: no
// limit is told, since cluster time stands still, and the next leader ends it by the clock.
func TestWaitsWithoutLeader(t *testing.T) {
	t.Parallel()
	conf := quickly()
	SimulateSite(t, 3, 917, func(c *Cluster) *Site {
		s := NewSite(c, 1, conf.Inspection)
		s.Machine(s.Nodes()[0]).Silent = true
		return s
	}, func(c *Cluster, s *Site) {
		c.settle(0)
		at, others := c.Leader(), c.Others(c.Leader())
		s.mustBegin(s.Nodes())
		c.awaitWait(at, conf, "introspection/waiting", "")
		for _, p := range others {
			c.must(p.Kill())
		}
		c.Until(successionLimit, "no leader is known", func() bool { return c.sight(at, conf).Leader == "" })
		time.Sleep(5 * time.Minute) // in a bubble: longer than it has left
		w := c.awaitWait(at, conf, "introspection/waiting", "")
		if w.Until != "" || !strings.Contains(w.Then, "no time runs") {
			t.Errorf("waits-frozen: %s", w.Text(at.wall()))
		}
		if none := c.awaitWait(at, conf, "leadership/none", ""); !strings.Contains(none.For, "1 of 3 answer, 2 are needed") ||
			!strings.Contains(none.For, others[0].Name) || none.Since == "" {
			t.Errorf("waits-quorum: %s", none.Text(at.wall()))
		}
		for _, p := range others {
			c.must(p.Start())
		}
		c.AwaitLeader(successionLimit)
		s.awaitEnds(time.Minute, s.Nodes())
		v, _ := c.newest()
		if rec, _ := v.Record(s.Nodes()[0]); !strings.Contains(rec.Error, "timeout") {
			t.Errorf("it ended with %q", rec.Error)
		}
	})
}

// TestWaitsOfGossipKeys begins a rotation that nobody confirms: each of its steps is taken at the
// limit that is told.
func TestWaitsOfGossipKeys(t *testing.T) {
	t.Parallel()
	conf := config.Default()
	Simulate(t, 3, 918, func(c *Cluster) {
		c.settle(0)
		at := c.Others(c.Leader())[0]
		c.commit(membership.RotateGossipKey{Key: []byte(strings.Repeat("k", membership.GossipKeySize))})
		for range 3 {
			w := c.awaitWait(at, conf, "gossip/rotation", "")
			limit, err := time.Parse(time.RFC3339, w.Until)
			c.must(err)
			stage := at.Core().Store.View().GossipRotation().Stage
			c.Until(2*time.Minute, "the step is over", func() bool {
				return at.Core().Store.View().GossipRotation().Stage != stage
			})
			if off := at.wall().Sub(limit); off.Abs() > tellsLate+time.Second {
				t.Errorf("waits-limit: step %v ended %v after the limit that was told", stage, off)
			}
		}
		if w, ok := c.waiting(at, conf, "gossip/rotation", ""); ok {
			t.Errorf("waits-over: %s", w.Text(at.wall()))
		}
	})
}
