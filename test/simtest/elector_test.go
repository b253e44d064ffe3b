package simtest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/leases"
	"github.com/trivet-ha/trivet/lease/elector"
	"github.com/trivet-ha/trivet/raftstore"
)

// Elections of the tests: who leads, and who holds a lease.
const (
	ofRaft = iota
	ofLease
)

const electedLease = "kuryr"

// simulateElections is Simulate for peers that tell who leads.
func simulateElections(t *testing.T, seed uint64, f func(c *Cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, seed)
		c.Elections = []elector.ElectionSource{{}, {Lease: electedLease}}
		defer c.end()
		c.start()
		c.settle(0)
		c.everybodySays(c.AwaitLeader(successionLimit).Name)
		f(c)
	})
}

// everybodySays waits until all that run name somebody.
func (c *Cluster) everybodySays(name string) {
	c.T.Helper()
	c.Until(successionLimit, "everybody names "+name, func() bool {
		for _, p := range c.Peers {
			if s, err := p.elects(ofRaft); err != nil || s.Name != name {
				return false
			}
		}
		return true
	})
}

// "leader partitioned away answers "" not later than ttl after the last quorum contact".
func TestElectorOfAPartitionedLeaderNamesNoLeader(t *testing.T) {
	t.Parallel()
	for i, how := range Losses()[:3] {
		t.Run(how.Name, func(t *testing.T) {
			simulateElections(t, uint64(70+i), func(c *Cluster) {
				leader := c.AwaitLeader(successionLimit)
				began := time.Now()
				how.Strike(c, leader)
				worst := time.Duration(0)
				for time.Since(began) < 20*time.Second {
					s, err := leader.elects(ofRaft)
					if err != nil {
						t.Fatal(err)
					}
					if s.Name == leader.Name {
						worst = time.Since(began)
					}
					// What was on its way when the network broke may have arrived.
					if s.Name == leader.Name && time.Since(began) > electorBound+20*time.Millisecond {
						t.Fatalf("elector-deadline: a leader that was cut off names itself after %v", time.Since(began))
					}
					time.Sleep(time.Millisecond)
				}
				t.Logf("it named itself for %v", worst)
			})
		})
	}
}

// "follower of a partitioned leader answers the new name".
func TestElectorOfAFollowerNamesTheNewLeader(t *testing.T) {
	simulateElections(t, 80, func(c *Cluster) {
		old := c.AwaitLeader(successionLimit)
		began := time.Now()
		c.Net.Isolate(old.Name)
		names := make(map[string]string)
		for len(names) < 2 {
			for _, p := range c.Others(old) {
				s, err := p.elects(ofRaft)
				switch {
				case err != nil:
					t.Fatal(err)
				case s.Name == old.Name && time.Since(began) > electorBound+20*time.Millisecond:
					t.Fatalf("elector-confirmed: %s names the leader that was cut off after %v", p.Name, time.Since(began))
				case s.Name != "" && s.Name != old.Name:
					names[p.Name] = s.Name
				}
			}
			if time.Since(began) > successionLimit {
				t.Fatalf("only %v after %v", names, successionLimit)
			}
			time.Sleep(time.Millisecond)
		}
		t.Logf("%v after %v", names, time.Since(began))
		leader := c.AwaitLeader(successionLimit).Name
		for by, name := range names {
			if name != leader {
				t.Errorf("%s names %s, and %s leads", by, name, leader)
			}
		}
	})
}

// "all three up → all three answer the same name within one heartbeat".
func TestElectorsAgreeWithinAHeartbeat(t *testing.T) {
	t.Parallel()
	simulateElections(t, 81, func(c *Cluster) {
		var worst, longest time.Duration
		for range 25 {
			old := c.AwaitLeader(successionLimit)
			next := c.Others(old)[0]
			leader := ""
			c.Until(successionLimit, "the transfer", func() bool {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				_ = old.Core().Store.Transfer(ctx, raftstore.Server{ID: next.Name, Address: next.address()}) // tried until it works
				// Read once: leadership may move between two looks.
				now := c.Leader()
				if now == nil || now == old {
					return false
				}
				leader = now.Name
				return true
			})
			began, first := time.Now(), time.Time{}
			c.Until(successionLimit, "everybody names the new leader", func() bool {
				all := true
				for _, p := range c.Peers {
					s, err := p.elects(ofRaft)
					if err == nil && s.Name == leader && first.IsZero() {
						first = time.Now()
					}
					all = all && err == nil && s.Name == leader
				}
				return all
			})
			worst, longest = max(worst, time.Since(first)), max(longest, time.Since(began))
			time.Sleep(steady) // in a bubble
		}
		if worst > c.Timing.Heartbeat {
			t.Errorf("elector-agree: all name the new leader %v after the first, a heartbeat is %v", worst, c.Timing.Heartbeat)
		}
		t.Logf("all agree %v after the first, at most %v after the new leader began", worst, longest)
	})
}

// "process paused (SIGSTOP) longer than ttl and continued → first answer after continuing
// is "" or the new leader, never its own name".
func TestElectorThatWasStoppedNeverNamesItself(t *testing.T) {
	for seed := range uint64(6) {
		simulateElections(t, 90+seed, func(c *Cluster) {
			leader := c.AwaitLeader(successionLimit)
			answers := make(chan said, 64)
			var asking sync.WaitGroup
			leader.Pause()
			ask := func() {
				asking.Go(func() {
					if s, err := leader.elects(ofRaft); err == nil {
						answers <- s
					}
				})
			}
			ask() // waits until it continues
			time.Sleep(electorBound + time.Duration(seed)*700*time.Millisecond)
			ask()
			lasted := c.Leader() != nil // whom the others have elected meanwhile
			leader.Resume()
			for range 20 {
				ask()
				time.Sleep(time.Duration(seed) * 100 * time.Microsecond)
			}
			asking.Wait()
			close(answers)
			for s := range answers {
				if s.Name == leader.Name && lasted {
					t.Errorf("elector-stopped: seed %d: it names itself, and another leads", seed)
				}
				if s.Name == leader.Name && s.AgeMs >= electorBound.Milliseconds() {
					t.Errorf("elector-stopped: seed %d: it names itself by a proof of before it was stopped", seed)
				}
			}
		})
	}
}

// "1000 requests during leader change: no two live answers with different names may have
// overlapping validity for the same token". Here none may at all.
func TestElectorsNeverContradict(t *testing.T) {
	t.Parallel()
	simulateElections(t, 100, func(c *Cluster) {
		var all [2]*heard
		done := make(chan struct{})
		var asking sync.WaitGroup
		for n := range all {
			all[n] = &heard{c: c}
			for _, p := range c.Peers {
				asking.Go(func() { c.askAlways(p, n, all[n], done) })
			}
		}
		asking.Go(func() { c.borrowAlways(done) })
		losses := Losses()
		for i := range 30 {
			time.Sleep(time.Duration(c.rng.Int64N(int64(3 * time.Second)))) // in a bubble
			c.Lose(losses[i%len(losses)])
		}
		close(done)
		asking.Wait()
		for n, h := range all {
			t.Logf("election %d: %d answers, %d of them named %d leaderships", n, h.count, h.named, len(h.names))
			if h.count < 1000 || h.named < h.count/4 || len(h.names) < 10 {
				t.Errorf("election %d: too few of them", n)
			}
		}
	})
}

// askAlways asks a peer about an election every few milliseconds.
func (c *Cluster) askAlways(p *Peer, n int, h *heard, done <-chan struct{}) {
	for {
		if s, err := p.elects(n); err == nil {
			h.note(p.Name, s)
			if n == ofRaft {
				c.Oracle.named(p.Name, s, electorBound)
			}
		}
		if !sleeps(done, 7*time.Millisecond) {
			return
		}
	}
}

// borrowAlways has programs hold the lease in turn, for a second or two each.
func (c *Cluster) borrowAlways(done <-chan struct{}) {
	for n := 0; ; n++ {
		holder := fmt.Sprintf("program-%d", n)
		c.anywhere(n, leases.Grant{Name: electedLease, Holder: holder, TTL: 4 * time.Second})
		if !sleeps(done, 2*time.Second) {
			return
		}
		if core := c.Peers[n%len(c.Peers)].Core(); core != nil {
			l, _ := core.Store.View().Lease(electedLease)
			c.anywhere(n, leases.Release{Name: electedLease, Holder: l.Holder, Token: l.Token})
		}
		if n%3 == 0 && !sleeps(done, time.Second) {
			return
		}
	}
}

// anywhere asks a peer for something, which it may do, or refuse, or not hear.
func (c *Cluster) anywhere(n int, cmd fsm.Command) {
	core := c.Peers[n%len(c.Peers)].Core()
	if core == nil || cmd.Validate() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_, _ = core.Session.Do(ctx, "", cmd)
}

// sleeps returns false if done was closed before d.
func sleeps(done <-chan struct{}, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-done:
		return false
	}
}

// TestPollersBesidePeers are Kuryr's, beside the endpoint of each peer: through a
// hundred changes of the leader, kills and stops among them, no two are active for
// longer than one poll.
func TestPollersBesidePeers(t *testing.T) {
	const perBubble, bubbles = 25, 4
	for i := range uint64(bubbles) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			simulateElections(t, 110+i, func(c *Cluster) {
				var pollers []*poller
				for _, p := range c.Peers {
					pollers = append(pollers, &poller{name: p.Name, ask: func() (string, error) {
						s, err := p.elects(ofRaft)
						return s.Name, err
					}})
				}
				c.poll(pollers, perBubble)
			})
		})
	}
}

// poll has pollers watch while leaders are lost, each some time after the other, and
// compares when they were active.
func (c *Cluster) poll(pollers []*poller, changes int) {
	done := make(chan struct{})
	var running sync.WaitGroup
	for _, p := range pollers {
		running.Go(func() { p.run(done, time.Duration(c.rng.Int64N(int64(pollerPause)))) })
	}
	began := time.Now()
	losses := Losses()
	for i := range changes {
		// Who asks every five seconds cannot see a leader that comes and goes between.
		time.Sleep(pollerPause/2 + time.Duration(c.rng.Int64N(int64(2*pollerPause)))) // in a bubble
		c.Lose(losses[i%len(losses)])
	}
	close(done)
	running.Wait()
	longest, active, who := together(pollers)
	if longest > pollerPause {
		c.Oracle.broken("elector-pollers: %s two pollers are active for %v, a poll is %v", who, longest, pollerPause)
	}
	share := float64(active) / float64(time.Since(began))
	if share < 0.3 {
		c.T.Errorf("pollers were active for %.0f %% of the time: this is no test", share*100)
	}
	c.T.Logf("%d changes in %v: two pollers active for at most %v; one active for %.0f %% of the time", changes,
		time.Since(began).Round(time.Second), longest, share*100)
}
