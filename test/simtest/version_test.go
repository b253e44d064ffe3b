package simtest

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/ruleset"
)

// TestOlderPeersAreNotToldWhatTheyDoNotKnow proposes a command that one member
// could not read, on the leader and through a follower.
func TestOlderPeersAreNotToldWhatTheyDoNotKnow(t *testing.T) {
	Simulate(t, 3, 53, func(c *Cluster) {
		c.settle(0)
		leader := c.AwaitLeader(successionLimit)
		old := c.Others(leader)[0]
		m, ok := leader.Core().Store.View().Member(old.Name)
		if !ok {
			t.Fatalf("%s is no member", old.Name)
		}
		known := m.Version
		create := ruleset.Create{UUID: "11111111-2222-4333-8444-555555555555", Body: []byte(`{}`)}
		try := func(p *Peer, command fsm.Command) error {
			ctx, cancel := context.WithTimeout(context.Background(), successionLimit)
			defer cancel()
			res, err := p.Core().Session.Do(ctx, "", command)
			return errors.Join(err, res.Err())
		}
		m.Version = fsm.KindOf(create).Since() - 1
		c.must(try(leader, membership.PutMember{Member: m}))
		for _, p := range []*Peer{leader, old} {
			if err := try(p, create); err == nil || !strings.Contains(err.Error(), "upgrade trivet") {
				c.Oracle.broken("unknown-is-not-proposed: %s took a command that %s does not know: %v", p.Name, old.Name, err)
			}
		}
		m.Version = known
		c.must(try(leader, membership.PutMember{Member: m}))
		c.Agree(successionLimit) // each peer asks what it has applied itself
		c.must(try(old, create))
		c.Agree(successionLimit)
	})
}

// TestOlderPeersReadEveryDocument introspects machines while one member knows log version 1,
// and again when all know the present one. v0.1.0 reads zstd frames without a dictionary.
func TestOlderPeersReadEveryDocument(t *testing.T) {
	v010, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer v010.Close()
	SimulateSite(t, 3, 54, func(c *Cluster) *Site { return NewSite(c, 3, quick(), patcher{}) }, func(c *Cluster, s *Site) {
		c.settle(0)
		leader := c.AwaitLeader(successionLimit)
		old, ok := leader.Core().Store.View().Member(c.Others(leader)[0].Name)
		if !ok {
			t.Fatal("a peer is no member")
		}
		for _, version := range []int{1, fsm.Version} {
			old.Version = version
			c.commit(membership.PutMember{Member: old})
			s.beginAll()
			s.awaitEnds(2*time.Minute, s.Nodes())
			v, _ := c.newest()
			for _, node := range s.Nodes() {
				rec, _ := v.Record(node)
				b, stored := v.Blob(rec.Unprocessed)
				if !stored {
					t.Fatalf("%s ended in %v without a document: %s", node, rec.State, rec.Error)
				}
				if _, err := v010.DecodeAll(b.Data, nil); (err == nil) != (version == 1) {
					c.Oracle.broken(
						"older-peers-read-documents: with a member of log version %d v0.1.0 would read a new document with: %v", version,
						err)
				}
			}
		}
	})
}

// A peer that comes back with an older binary than the log may need opens no
// session, which would lower the cluster's version under what the state holds. It
// is told to stop, and is not taken for a removed one.
func TestOlderBinaryOpensNoSession(t *testing.T) {
	Simulate(t, 3, 57, func(c *Cluster) {
		var told atomic.Pointer[error]
		c.Fatal = func(_ *Peer, err error) { told.Store(&err) }
		c.settle(0)
		leader := c.AwaitLeader(successionLimit)
		old := c.Others(leader)[0]
		c.must(old.Kill())
		ctx, cancel := context.WithTimeout(context.Background(), successionLimit)
		defer cancel()
		for _, m := range leader.Core().Store.View().Members() { // as their sessions would with the next binary
			m.Version = fsm.Version + 1
			res, err := leader.Core().Session.Do(ctx, "", membership.PutMember{Member: m})
			c.must(errors.Join(err, res.Err()))
		}
		c.must(old.Start())
		c.Until(successionLimit, "outdated-peer-stops: the peer is told", func() bool { return told.Load() != nil })
		if err := *told.Load(); !errors.Is(err, fsm.Outdated) ||
			!strings.Contains(err.Error(), "upgrade trivet on this host") {
			t.Errorf("outdated-peer-stops: %v", err)
		}
		if got := leader.Core().Store.View().ClusterVersion(); got != fsm.Version+1 {
			c.Oracle.broken("session-lowers-the-version: %d", got)
		}
	})
}
