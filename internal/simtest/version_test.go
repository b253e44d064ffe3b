package simtest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/fsm"
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
		create := fsm.CreateRule{UUID: "11111111-2222-4333-8444-555555555555", Body: []byte(`{}`)}
		try := func(p *Peer, command fsm.Command) error {
			ctx, cancel := context.WithTimeout(context.Background(), successionLimit)
			defer cancel()
			res, err := p.Core().Session.Do(ctx, "", command)
			return errors.Join(err, res.Err())
		}
		m.Version = create.Kind().Since() - 1
		c.must(try(leader, fsm.PutMember{Member: m}))
		for _, p := range []*Peer{leader, old} {
			if err := try(p, create); err == nil || !strings.Contains(err.Error(), "upgrade trivet") {
				c.Oracle.broken("unknown-is-not-proposed: %s took a command that %s does not know: %v", p.Name, old.Name, err)
			}
		}
		m.Version = known
		c.must(try(leader, fsm.PutMember{Member: m}))
		c.Agree(successionLimit) // each peer asks what it has applied itself
		c.must(try(old, create))
		c.Agree(successionLimit)
	})
}
