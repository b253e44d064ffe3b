package simtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/nodesync"
)

// upgraded runs a cluster that the release before founded: every binary knows the newest
// log version, and the one before is in force.
func upgraded(t *testing.T, seed uint64, after time.Duration, f func(c *Cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, seed)
		defer c.end()
		c.FinalizeAfter = after
		c.Fatal = func(p *Peer, err error) {
			if !errors.Is(err, fsm.Outdated) || p.Knows != fsm.Version-1 {
				c.Oracle.broken("unknown-entry: %s: %v", p.Name, err)
			}
		}
		c.start()
		c.settle(0)
		v, _ := c.newest()
		for _, m := range v.Members() {
			m.Version = fsm.Version - 1
			c.commit(membership.PutMember{Member: m})
		}
		c.Agree(successionLimit)
		f(c)
	})
}

// version is the log version in force.
func (c *Cluster) version() int {
	v, _ := c.newest()
	return v.ClusterVersion()
}

// finalize ends the upgrade, asked of a peer.
func (p *Peer) finalize() error {
	core := p.Core()
	ctx, cancel := context.WithTimeout(context.Background(), 4*successionLimit)
	defer cancel()
	plan, err := core.Finalizer.Plan(ctx)
	if err != nil {
		return err
	}
	return core.Finalizer.Finalize(ctx, plan)
}

// restart kills a peer and starts it with a binary that knows a log version.
func (p *Peer) restart(knows int) {
	p.c.T.Helper()
	p.c.must(p.Kill())
	p.Knows = knows
	p.c.must(p.Start())
}

// TestUpgradeIsFinalizedByOrderAlone: the version does not rise by itself, each peer goes
// back and comes again, and after the order none goes back.
func TestUpgradeIsFinalizedByOrderAlone(t *testing.T) {
	upgraded(t, 71, 0, func(c *Cluster) {
		old := fsm.Version - 1
		for _, knows := range []int{fsm.Version, old, fsm.Version} {
			for _, p := range c.Peers {
				p.restart(knows)
				c.Until(2*successionLimit, "the peer has a session", func() bool { return !p.Core().Session.ID().IsZero() })
			}
			time.Sleep(5 * time.Minute)
			if got := c.version(); got != old {
				c.Oracle.broken("raised-by-order-alone: all peers know %d, and the log is of version %d", knows, got)
			}
			err := c.AwaitLeader(successionLimit).finalize()
			if knows == old && err != nil {
				t.Errorf("nothing to finalize, and it is refused: %v", err)
			}
			if knows == fsm.Version {
				break
			}
		}
		c.settle(0)
		for _, p := range c.Peers { // they start from it below, and have yet to apply what raised the version
			c.must(p.Core().Store.Snapshot(context.Background()))
		}
		c.must(c.AwaitLeader(successionLimit).finalize())
		if got := c.version(); got != fsm.Version {
			t.Fatalf("finalized, and the log is of version %d", got)
		}
		for _, p := range c.Peers {
			p.restart(fsm.Version)
			c.Until(2*successionLimit, "the peer has a session", func() bool { return !p.Core().Session.ID().IsZero() })
		}
		if got := c.version(); got != fsm.Version {
			c.Oracle.broken("finalized-for-good: after restarts the log is of version %d", got)
		}
	})
}

// TestFinalizeNamesWhoIsMissing: with a host that is down or of the release before it is
// refused, and nothing is announced.
func TestFinalizeNamesWhoIsMissing(t *testing.T) {
	for _, what := range []string{"down", "old"} {
		upgraded(t, 72, 0, func(c *Cluster) {
			leader := c.AwaitLeader(successionLimit)
			missing := c.Others(leader)[1]
			if what == "down" {
				c.must(missing.Kill())
				time.Sleep(2 * membership.SessionTTL)
			} else {
				missing.restart(fsm.Version - 1)
				c.Until(2*successionLimit, "the peer has a session", func() bool { return !missing.Core().Session.ID().IsZero() })
			}
			err := leader.finalize()
			if err == nil || !strings.Contains(err.Error(), missing.Name+": ") || !errors.Is(err, fsm.Conflict) {
				t.Errorf("finalize-refused: with %s %s: %v", missing.Name, what, err)
			}
			for _, m := range leader.Core().Store.View().Members() {
				if m.Version != fsm.Version-1 {
					c.Oracle.broken("finalize-refused: %s announced %d", m.Name, m.Version)
				}
			}
			res, err := leader.Core().Session.Do(context.Background(), "", nodesync.Confirm{Digest: "x"})
			if err = errors.Join(err, res.Err()); err == nil || !strings.Contains(err.Error(), "trivet upgrade finalize") {
				t.Errorf("held-back: %v", err)
			}
			missing.restart(fsm.Version)
			c.settle(0)
		})
	}
}

// TestOldHostComesBackAmidFinalize kills the leader in the middle of a finalization while
// another host comes back with the binary of the release before. Either nothing is
// finalized, and that host runs, or all is, and it is told to stop; never does a peer run
// whose binary does not know what is in force. Upgraded again, it is finalized at last.
func TestOldHostComesBackAmidFinalize(t *testing.T) {
	outcomes := make(map[string]int)
	for seed := range uint64(40) {
		upgraded(t, 7300+seed, 0, func(c *Cluster) {
			rng := NewRand(seed)
			leader := c.AwaitLeader(successionLimit)
			others := c.Others(leader)
			asked := c.Peers[rng.IntN(len(c.Peers))]
			ended := make(chan error, 1)
			go func() { ended <- asked.finalize() }()
			time.Sleep(time.Duration(rng.IntN(150)) * time.Millisecond)
			if rng.IntN(3) > 0 {
				c.must(leader.Kill())
			}
			others[1].restart(fsm.Version - 1)
			time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond)
			if leader.Core() == nil {
				c.must(leader.Start())
			}
			err := <-ended // a killed process answers, too, that it is closed
			c.Until(4*successionLimit, "sessions are open where they may be", func() bool {
				for _, p := range c.Peers {
					if p.Knows == fsm.Version-1 && c.version() == fsm.Version {
						continue
					}
					if p.Core().Session.ID().IsZero() {
						return false
					}
				}
				return true
			})
			raised := c.version() == fsm.Version
			outcomes[fmt.Sprintf("raised %v, told %v", raised, err == nil)]++
			v, _ := c.newest()
			s, lives := v.SessionOf(others[1].Name)
			if raised && lives && s.Boot == fmt.Sprintf("%s-%d", others[1].Name, others[1].boot) {
				c.Oracle.broken("finalized-without-a-host: the log is of version %d, and %s runs", c.version(), others[1].Name)
			}
			others[1].restart(fsm.Version)
			c.settle(0)
			c.Until(8*successionLimit, "it is finalized at last", func() bool {
				return c.AwaitLeader(successionLimit).finalize() == nil
			})
			if got := c.version(); got != fsm.Version {
				t.Errorf("finalized, and the log is of version %d", got)
			}
			c.Agree(successionLimit)
		})
	}
	t.Log(outcomes)
	if len(outcomes) < 2 {
		t.Errorf("every run had the same outcome: %v", outcomes)
	}
}

// TestUpgradeIsFinalizedAfterATime: no earlier than that after the last restart.
func TestUpgradeIsFinalizedAfterATime(t *testing.T) {
	upgraded(t, 74, 20*time.Minute, func(c *Cluster) {
		time.Sleep(10 * time.Minute)
		late := c.Others(c.AwaitLeader(successionLimit))[0]
		late.restart(fsm.Version)
		time.Sleep(18 * time.Minute)
		if got := c.version(); got != fsm.Version-1 {
			t.Errorf("finalized-after: %d after 18 min", got)
		}
		time.Sleep(4 * time.Minute)
		if got := c.version(); got != fsm.Version {
			t.Errorf("finalized-after: %d after 22 min", got)
		}
	})
}
