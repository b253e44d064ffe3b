package simtest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/inspector/document"

	"github.com/trivet-ha/trivet/app"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/nodesync"
	"github.com/trivet-ha/trivet/inspector"
)

// sleepPast is longer than a session's ttl.
const sleepPast = membership.SessionTTL + 5*time.Second

// TestWorkersPausedPastTheirClaims stops one peer after the other in the midst
// of its work, until its session is over, and lets it go on: what it was about
// to send must not be sent (assertion claim-held), and nothing is patched twice
// (applied-once).
func TestWorkersPausedPastTheirClaims(t *testing.T) {
	t.Parallel()
	SimulateSite(t, 3, 200, func(c *Cluster) *Site {
		return NewSite(c, 60, quick(), patcher{})
	}, func(c *Cluster, s *Site) {
		c.AwaitLeader(successionLimit)
		var accepted []string
		lost := 0
		for i, node := range s.Nodes() {
			if s.begin(node) {
				accepted = append(accepted, node)
			}
			if i%6 != 5 {
				continue
			}
			var victim *Peer
			c.Until(30*time.Second, "a peer has claims", func() bool {
				victim = c.working(i / 6)
				return victim != nil
			})
			lost += len(claimsOf(c, victim))
			victim.Pause()
			time.Sleep(sleepPast) // in a bubble
			victim.Resume()
			c.revive()
		}
		s.awaitEnds(3*time.Minute, accepted)
		if lost == 0 {
			t.Error("no claim was ever lost: this test attacks nothing")
		}
	})
}

// working returns a peer that has claims, another one for another turn if it can;
// nil if there is none.
func (c *Cluster) working(turn int) *Peer {
	for k := range c.Peers {
		if p := c.Peers[(turn+k)%len(c.Peers)]; len(claimsOf(c, p)) > 0 {
			return p
		}
	}
	return nil
}

func claimsOf(c *Cluster, p *Peer) (held []introspection.Claim) {
	if v, ok := c.newest(); ok {
		for _, claim := range v.Claims() {
			if claim.Peer == p.Name {
				held = append(held, claim)
			}
		}
	}
	return held
}

// poison ends the process that runs it on the document of one machine.
type poison struct {
	mac    string
	before bool
	struck chan *Peer // where it was met; who takes from here kills that process
}

// poisonOn is poison in the processes of one peer.
type poisonOn struct {
	*poison
	peer *Peer
}

// Name implements inspector.Hook.
func (p *poison) Name() string { return "poison" }

func (p poisonOn) strike(ctx context.Context, data *document.Document, here bool) error {
	if !here || !strings.Contains(string(data.JSON()), p.mac) {
		return nil
	}
	select {
	case p.struck <- p.peer:
		<-ctx.Done()
	case <-ctx.Done(): // the process ended before for something else
	}
	return ctx.Err()
}

// Before implements inspector.Before.
func (p poisonOn) Before(ctx context.Context, data *document.Document) error {
	return p.strike(ctx, data, p.before)
}

// After implements inspector.After.
func (p poisonOn) After(ctx context.Context, t *inspector.Task) error {
	return p.strike(ctx, t.Data, !p.before)
}

// TestPoisonedDocument has a hook that ends its process on one document: it ends
// each peer at most once, and the node in error, which names hook and peers.
func TestPoisonedDocument(t *testing.T) {
	t.Parallel()
	for _, how := range []struct {
		name   string
		before bool // processing is saved
		alive  int  // peers
		queued bool // no callback is taken where it comes in
	}{{"before", true, 3, false}, {"after", false, 3, false}, {"before, one peer gone", true, 2, false},
		{"before, from the queue", true, 2, true}} {
		t.Run(how.name, func(t *testing.T) {
			hook := &poison{before: how.before}
			SimulateSite(t, 3, 210, func(c *Cluster) *Site {
				conf := quick()
				conf.Timeout = 10 * time.Minute
				hook.struck = make(chan *Peer)
				s := NewSite(c, 3, conf, patcher{}) // the log knows only where it began
				s.poisoned(hook)
				if how.queued {
					s.forgetful()
				}
				hook.mac = s.Machine(s.Nodes()[1]).MAC
				return s
			}, func(c *Cluster, s *Site) {
				c.AwaitLeader(successionLimit)
				for _, p := range c.Peers[how.alive:] {
					c.must(p.Kill())
				}
				s.beginAll()
				poisoned := s.Nodes()[1]
				deaths, beside := s.dieOf(hook, poisoned)
				v, _ := c.newest()
				rec, _ := v.Record(poisoned)
				t.Logf("died: %v; error: %s", deaths, rec.Error)
				// Each death before the data is in the log costs the ramdisk one of
				// its tries, and so does a peer that is gone.
				unheard := how.before && !how.queued && how.alive < len(c.Peers) && rec.Error == "Introspection timeout"
				for peer, n := range deaths {
					if n > 1 {
						t.Errorf("poison-once: %s was ended %d times", peer, n)
					}
					if !unheard && !strings.Contains(rec.Error, peer) {
						t.Errorf("the error does not name %s: %s", peer, rec.Error)
					}
				}
				if rec.State != introspection.NodeError || !unheard && !strings.Contains(rec.Error, "at hook poison") {
					t.Errorf("the poisoned node ended in %v without naming the hook: %s", rec.State, rec.Error)
				}
				s.awaitEnds(12*time.Minute, s.Nodes())
				v, _ = c.newest()
				for _, node := range []string{s.Nodes()[0], s.Nodes()[2]} {
					rec, _ := v.Record(node)
					// Five tries of a ramdisk may all be at the peer that is gone.
					missed := how.alive < len(c.Peers) && rec.Error == "Introspection timeout"
					// Each process that ended may have examined this document, too, without a claim.
					examined := how.before && len(deaths) == how.alive &&
						strings.HasPrefix(rec.Error, "given up: every peer that processed the data was lost")
					if rec.State == introspection.NodeError && !beside[node] && !missed && !examined {
						t.Errorf("%s shared the fate of the poisoned one: %s", node, rec.Error)
					}
				}
			})
		})
	}
}

// forgetful makes hosts forget what their processes examined, so that every
// callback is queued.
func (s *Site) forgetful() {
	usual := s.c.Introspection
	s.c.Introspection = func(p *Peer, gate *Gate) *app.Introspection {
		in := usual(p, gate)
		in.Memory = nil
		return in
	}
}

// poisoned gives every peer the hook.
func (s *Site) poisoned(hook *poison) {
	usual := s.c.Introspection
	s.c.Introspection = func(p *Peer, gate *Gate) *app.Introspection {
		in := usual(p, gate)
		in.Hooks = append(slices.Clip(in.Hooks), poisonOn{hook, p})
		return in
	}
}

// dieOf ends and restarts the processes that meet the poison until its node has
// ended. It returns how often each died, and whose data was processed beside it.
func (s *Site) dieOf(hook *poison, node string) (deaths map[string]int, beside map[string]bool) {
	deaths, beside = make(map[string]int), make(map[string]bool)
	ended := func() bool {
		v, ok := s.c.newest()
		rec, _ := v.Record(node)
		return ok && !rec.State.Active()
	}
	for !ended() {
		select {
		case victim := <-hook.struck:
			deaths[victim.Name]++
			session := victim.Core().Session.ID()
			v, _ := s.c.newest()
			maps.Copy(beside, heldBy(v, session, introspection.EventProcess)) // the next process ends the session
			s.c.must(victim.Kill())
			time.Sleep(2 * time.Second) // in a bubble: what a service manager takes
			s.c.must(victim.Start())
			_, processing := s.lostWith(session)
			maps.Copy(beside, processing)
		case <-time.After(100 * time.Millisecond):
		}
	}
	return deaths, beside
}

// TestHookPanicsOrLoops has hooks that panic and that never end: only their own
// node suffers.
func TestHookPanicsOrLoops(t *testing.T) {
	t.Parallel()
	SimulateSite(t, 3, 220, func(c *Cluster) *Site {
		conf := quick()
		conf.Timeout = 7 * time.Minute
		var s *Site
		s = NewSite(c, 4, conf, wild{func() string { return s.Machine(s.Nodes()[0]).MAC },
			func() string { return s.Machine(s.Nodes()[1]).MAC }}, patcher{})
		return s
	}, func(c *Cluster, s *Site) {
		c.AwaitLeader(successionLimit)
		s.beginAll()
		s.awaitEnds(15*time.Minute, s.Nodes())
		v, _ := c.newest()
		want := []string{
			"Unexpected exception panic during processing: wild",
			"Unexpected exception TimeoutError during processing: hook wild did not end within 5m0s",
			"", "",
		}
		for i, node := range s.Nodes() {
			rec, _ := v.Record(node)
			if !strings.HasPrefix(rec.Error, strings.SplitAfter(want[i], ": ")[0]) ||
				(want[i] == "") != (rec.State == introspection.NodeFinished) {
				t.Errorf("machine %d ended in %v: %q, want %q", i, rec.State, rec.Error, want[i])
			}
		}
		time.Sleep(loopsOn) // in a bubble
	})
}

// loopsOn is for how long a hook goes on that was told to end.
const loopsOn = 10 * time.Second

// wild panics on one machine's document and loops on another's.
type wild struct{ panics, loops func() string }

// Name implements inspector.Hook.
func (wild) Name() string { return "wild" }

// After implements inspector.After.
func (w wild) After(ctx context.Context, t *inspector.Task) error {
	raw := t.Data.JSON()
	switch {
	case strings.Contains(string(raw), w.panics()):
		panic("wild")
	case strings.Contains(string(raw), w.loops()):
		<-ctx.Done()
		time.Sleep(loopsOn) // in a bubble: it does not care
	}
	return nil
}

// TestIronicAway takes Ironic from one peer, from all, and gives it back:
// nothing fails for that, and nothing is lost.
func TestIronicAway(t *testing.T) {
	t.Parallel()
	SimulateSite(t, 3, 230, func(c *Cluster) *Site {
		return NewSite(c, 12, quick(), patcher{})
	}, func(c *Cluster, s *Site) {
		first := c.AwaitLeader(successionLimit)
		s.Cut(first.Name, true)
		c.Until(30*time.Second, "a leader that cannot reach Ironic hands leadership on", func() bool {
			l := c.Leader()
			return l != nil && l != first
		})
		nodes := s.Nodes()
		for _, node := range nodes[:6] {
			if !s.begin(node) {
				t.Fatalf("%s was not accepted", node)
			}
		}
		s.awaitEnds(time.Minute, nodes[:6])
		s.Cut(first.Name, false)
		time.Sleep(20 * time.Second) // in a bubble: until all say that they reach it
		for _, node := range nodes[6:] {
			s.Machine(node).Slow = 10 * time.Second // so that none is being processed
			if !s.begin(node) {
				t.Fatalf("%s was not accepted", node)
			}
		}
		leads := c.AwaitLeader(successionLimit).Core().Runner.Token()
		for _, p := range c.Peers {
			s.Cut(p.Name, true)
		}
		time.Sleep(25 * time.Second) // in a bubble
		if now := c.AwaitLeader(successionLimit).Core().Runner.Token(); now != leads {
			t.Errorf("leadership went round, from token %v to %v, while Ironic cannot be reached from anywhere", leads, now)
		}
		for _, p := range c.Peers {
			s.Cut(p.Name, false)
		}
		s.awaitEnds(90*time.Second, nodes)
		v, _ := c.newest()
		for _, node := range nodes {
			if rec, _ := v.Record(node); rec.State != introspection.NodeFinished {
				t.Errorf("%s ended in %v: %s", node, rec.State, rec.Error)
			}
		}
	})
}

// TestThrottle starts machines at once, everywhere, with a leader lost in
// between: two power-ons are never closer than the throttle allows.
func TestThrottle(t *testing.T) {
	t.Parallel()
	// A simulated call may take 2 s, and one stands between the turn and the
	// power-on.
	const gap, jitter = 10 * time.Second, 2100 * time.Millisecond
	SimulateSite(t, 3, 240, func(c *Cluster) *Site {
		conf := quick()
		conf.RebootThrottle = gap
		conf.Timeout = 5 * time.Minute
		conf.Workers = 2
		return NewSite(c, 12, conf, patcher{})
	}, func(c *Cluster, s *Site) {
		c.AwaitLeader(successionLimit)
		s.beginAll()
		time.Sleep(5 * time.Second) // in a bubble
		c.Lose(Losses()[0])
		s.awaitEnds(5*time.Minute, s.Nodes())
		for i, at := range s.powered[1:] {
			if since := at.Sub(s.powered[i]); since < gap-jitter {
				t.Errorf("throttle: power-on %d came %v after the one before", i+1, since)
			}
		}
	})
}

// TestOrderlyStop stops one peer after the other, as an upgrade does, while it
// holds claims: the peer finishes what it holds, and sends nothing for a node
// whose claim it has given back (assertion claim-held). Three stops are as many as
// a ramdisk's five tries get over, whichever peers it asks.
func TestOrderlyStop(t *testing.T) {
	t.Parallel()
	SimulateSite(t, 3, 250, func(c *Cluster) *Site {
		return NewSite(c, 30, quick(), patcher{})
	}, func(c *Cluster, s *Site) {
		c.AwaitLeader(successionLimit)
		for i, node := range s.Nodes() {
			if !s.begin(node) {
				t.Fatalf("%s was not accepted", node)
			}
			if i%10 == 9 {
				var p *Peer
				c.Until(30*time.Second, "a peer has claims", func() bool {
					p = c.working(i / 10)
					return p != nil
				})
				c.must(p.Stop())
				time.Sleep(time.Second) // in a bubble
				c.must(p.Start())
			}
		}
		s.awaitEnds(2*time.Minute, s.Nodes())
		v, _ := c.newest()
		for _, node := range s.Nodes() {
			if rec, _ := v.Record(node); rec.State != introspection.NodeFinished {
				t.Errorf("%s ended in %v: %s", node, rec.State, rec.Error)
			}
		}
	})
}

// TestSynchronisation answers lists of nodes that must not be believed, and then
// ones that may.
func TestSynchronisation(t *testing.T) {
	t.Parallel()
	const machines = 40
	SimulateSite(t, 3, 260, func(c *Cluster) *Site {
		conf := quick()
		conf.ReportExpiry = 0
		conf.Workers = 8
		return NewSite(c, machines, conf, patcher{})
	}, func(c *Cluster, s *Site) {
		lead := c.AwaitLeader(successionLimit)
		s.beginAll()
		s.awaitEnds(2*time.Minute, s.Nodes())
		doubtful := map[string]func(all []string) ([]string, error){
			"fails":   func([]string) ([]string, error) { return nil, errors.New("page 2 of the list: 500") },
			"empty":   func([]string) ([]string, error) { return nil, nil },
			"a tenth": func(all []string) ([]string, error) { return all[:len(all)/10], nil },
		}
		for _, name := range slices.Sorted(maps.Keys(doubtful)) {
			s.List(doubtful[name])
			c.Until(10*time.Second, "a list that "+name+" is suspected", func() bool {
				if v, ok := c.newest(); ok && v.Nodes() != machines {
					t.Fatalf("erase-guard: a list that %s deleted %d nodes", name, machines-v.Nodes())
				}
				got, ok := lead.Core().Store.View().SyncSuspicion()
				return ok && got.Known == machines && strings.Contains(got.Reason, map[string]string{
					"fails": "could not be listed", "empty": "no nodes at all", "a tenth": "lacks 36 of the 40",
				}[name])
			})
			time.Sleep(time.Minute) // in a bubble
			if v, _ := c.newest(); v.Nodes() != machines {
				t.Fatalf("erase-guard: a list that %s deleted %d nodes", name, machines-v.Nodes())
			}
		}
		s.List(nil)
		s.remove(s.Nodes()[4:])
		c.Until(time.Minute, "a list that lacks most is suspected", func() bool {
			got, ok := lead.Core().Store.View().SyncSuspicion()
			return ok && got.Missing == machines-4 && got.Digest != ""
		})
		suspicion, _ := lead.Core().Store.View().SyncSuspicion()
		_, err := lead.Core().Session.Do(context.Background(), "", nodesync.Confirm{Digest: suspicion.Digest})
		c.must(err)
		c.Until(time.Minute, "a confirmed list is acted on", func() bool {
			v, ok := c.newest()
			_, suspected := v.SyncSuspicion()
			return ok && v.Nodes() == 4 && !suspected
		})
		s.remove(s.Nodes()[3:])
		c.Until(time.Minute, "one of four is not too much", func() bool {
			v, ok := c.newest()
			return ok && v.Nodes() == 3
		})
	})
}

// TestReportsExpire keeps a report for as long as it is configured, in cluster
// time, whatever the wall clocks do.
func TestReportsExpire(t *testing.T) {
	t.Parallel()
	SimulateSite(t, 3, 280, func(c *Cluster) *Site {
		conf := quick()
		conf.ReportExpiry = 4 * time.Minute
		return NewSite(c, 3, conf, patcher{})
	}, func(c *Cluster, s *Site) {
		c.AwaitLeader(successionLimit)
		s.beginAll()
		s.awaitEnds(2*time.Minute, s.Nodes())
		time.Sleep(3 * time.Minute) // in a bubble
		c.Lose(Losses()[0])
		if v, _ := c.newest(); v.Nodes() != 3 {
			t.Fatalf("%d of 3 reports are left after less than 4 minutes", v.Nodes())
		}
		c.Until(2*time.Minute, "reports expire", func() bool {
			v, ok := c.newest()
			return ok && v.Nodes() == 0
		})
	})
}
