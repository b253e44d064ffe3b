package simtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/leases"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// deadline is something that was granted and the earliest moment, by a clock
// that nobody sets, at which it may end.
type deadline struct {
	name     string
	earliest time.Time
}

// Cluster time must not follow anybody's wall clock: with one peer two hours
// ahead and one five hours behind, nothing expires early, whoever leads.
func TestWrongClocksEndNothingEarly(t *testing.T) {
	t.Parallel()
	const changes = 100
	Simulate(t, 3, 11, func(c *Cluster) {
		c.Peer("h1").SetSkew(2 * time.Hour)
		c.Peer("h2").SetSkew(-5 * time.Hour)
		c.settle(0)
		var granted []deadline
		losses := Losses()
		for i := range changes {
			granted = append(granted, c.grant(i)...)
			c.Lose(losses[i%len(losses)])
			granted = c.stillValid(granted)
		}
		if n := c.Oracle.Leaderships(); n < changes {
			t.Errorf("only %d leaderships began", n)
		}
	})
}

// grant leaves a join token and a lease behind, through any peer.
func (c *Cluster) grant(i int) (out []deadline) {
	c.T.Helper()
	ttl := time.Duration(5+i%20) * time.Second
	session := c.Peers[i%len(c.Peers)].Core().Session
	for _, cmd := range []fsm.Command{
		membership.AddJoinToken{ID: fmt.Sprintf("token-%d", i), Hash: [32]byte{byte(i), 1}, TTL: ttl},
		leases.Grant{Name: fmt.Sprintf("lease-%d", i), Holder: "x", TTL: ttl},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), successionLimit)
		before := time.Now()
		res, err := session.Do(ctx, "", cmd)
		cancel()
		if err != nil || res.Err() != nil {
			continue // refused or unknown: nothing was promised
		}
		name := fmt.Sprintf("token-%d", i)
		if _, ok := cmd.(leases.Grant); ok {
			name = fmt.Sprintf("lease-%d", i)
		}
		out = append(out, deadline{name, before.Add(ttl)})
	}
	return out
}

// stillValid checks every grant on every peer and returns those to look at again.
func (c *Cluster) stillValid(granted []deadline) (rest []deadline) {
	for _, d := range granted {
		now := time.Now()
		if !now.Before(d.earliest) {
			continue
		}
		rest = append(rest, d)
		for _, p := range c.Peers {
			if core := p.Core(); core != nil && !holds(core.Store.View(), d.name) {
				c.Oracle.broken("no-early-deadline: on %s %s ended %v early", p.Name, d.name, d.earliest.Sub(now))
			}
		}
	}
	return rest
}

func holds(v fsm.View, name string) bool {
	for _, j := range v.JoinTokens() {
		if j.ID == name {
			return true
		}
	}
	l, ok := v.Lease(name)
	return ok && l.Holder != ""
}
