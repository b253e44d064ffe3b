package simtest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/settings"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/logerr"
)

// TestMemberIsGoneAsSoonAsItIsRemoved: a voter may be gone for good the moment the log says that it is no
// member, at any time between two rounds of the leader's duty. Who remains writes on.
func TestMemberIsGoneAsSoonAsItIsRemoved(t *testing.T) {
	for name, remove := range map[string]func(c *Cluster, p *Peer){
		"it leaves": func(c *Cluster, p *Peer) {
			if err := leaving(p, p.Core().Session).Leave(context.Background(), true); err != nil {
				c.T.Errorf("leave: %v", err)
			}
		},
		"it is killed after the removal": func(c *Cluster, p *Peer) {
			res, err := p.Core().Session.Do(context.Background(), "", membership.RemoveMember{ID: p.Name, Force: true})
			c.must(err)
			c.must(res.Err())
		},
	} {
		for _, after := range []time.Duration{0, 20, 110, 260, 390, 470} { // ms into a round
			t.Run(name, func(t *testing.T) {
				Simulate(t, 2, 41, func(c *Cluster) {
					c.settle(0)
					stays := c.AwaitLeader(successionLimit)
					gone := c.Others(stays)[0]
					time.Sleep(after * time.Millisecond) // in a bubble
					gone.leaving.Store(true)
					remove(c, gone)
					c.must(gone.Kill())
					c.Peers = []*Peer{stays}
					c.Until(successionLimit, "stranded: who remains leads", func() bool { return c.Leader() == stays })
					time.Sleep(successionLimit) // in a bubble
					ctx, cancel := context.WithTimeout(context.Background(), successionLimit)
					defer cancel()
					if _, err := stays.Core().Session.Do(ctx, "", settings.PutSetting{Key: "k", Value: "v"}); err != nil {
						t.Errorf("stranded: a write of who remains: %v", err)
					}
				})
			})
		}
	}
}

// TestPeerThatLeavesIsCountedOn: as long as raft's configuration names a peer, the others need its log,
// and it must not end.
func TestPeerThatLeavesIsCountedOn(t *testing.T) {
	Simulate(t, 2, 43, func(c *Cluster) {
		c.settle(0)
		leaves := c.Others(c.AwaitLeader(successionLimit))[0]
		m := leaving(leaves, unfollowed{}) // the leader hangs from the commit on
		began := time.Now()
		err := m.Leave(context.Background(), true)
		if waited := time.Since(began); !errors.Is(err, logerr.ErrOutcomeUnknown) || waited > 6*time.Second {
			t.Errorf("counted-on: the answer, after %v: %v", waited, err)
		}
		select {
		case why := <-m.Ended():
			t.Errorf("counted-on: it ends, and its data is wiped: %v", why)
		default:
		}
		m.Removed() // the leader goes on, and says so
		if why := <-m.Ended(); !errors.Is(why, admin.ErrLeft) {
			t.Errorf("it ends: %v", why)
		}
	})
}

// TestPeerThatLeavesAsksWhetherItIsCounted: a leader sends nothing to a peer that it does not count
// any more, so the peer would wait for raft's configuration in vain.
func TestPeerThatLeavesAsksWhetherItIsCounted(t *testing.T) {
	Simulate(t, 3, 47, func(c *Cluster) {
		c.settle(0)
		leaves := c.Others(c.AwaitLeader(successionLimit))[0]
		m := leaving(leaves, unfollowed{})
		began := time.Now()
		followed := began.Add(300 * time.Millisecond)
		m.Disowned = func(context.Context) bool { return time.Now().After(followed) }
		err := m.Leave(context.Background(), true)
		waited := time.Since(began)
		if err != nil || waited < followed.Sub(began) || waited > 400*time.Millisecond || !m.Left() {
			t.Errorf("asks-whether-counted: it leaves after %v, its log is gone: %t; %v", waited, m.Left(), err)
		}
	})
}

// unfollowed is a log in which every command is committed and raft never follows.
type unfollowed struct{}

func (unfollowed) Do(context.Context, string, fsm.Command) (res fsm.Result, err error) { return }

// leaving is what makes a peer leave.
func leaving(p *Peer, log api.Doer) *admin.Membership {
	return &admin.Membership{
		Here:   &admin.Here{Self: datadir.Identity{ID: p.Name, Name: p.Name}, Store: p.Core().Store, Session: log},
		Ending: admin.NewEnding(p.c.logger(p, NewGate())),
		Rest:   func(context.Context) (func(), error) { return func() {}, nil },
		Disowned: func(ctx context.Context) bool {
			return slices.ContainsFunc(p.c.Others(p), func(other *Peer) bool {
				_, err := forwarder{p}.ReadIndex(ctx, raftstore.Server{ID: other.Name, Address: other.address()})
				return errors.Is(err, cluster.ErrNotMember)
			})
		},
	}
}
