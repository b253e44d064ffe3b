package simtest

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/app"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/leases"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/settings"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/host"
)

// Whatever was granted before a snapshot is restored is void after: the history
// that granted it is gone, and its tokens must never be given out again.
func TestRestoreVoidsWhatWasGranted(t *testing.T) {
	Simulate(t, 3, 13, func(c *Cluster) {
		c.settle(0)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		do := func(cmd fsm.Command) fsm.Result {
			t.Helper()
			res, err := c.AwaitLeader(successionLimit).Core().Session.Do(ctx, "", cmd)
			c.must(err)
			c.must(res.Err())
			return res
		}
		do(settings.PutSetting{Key: "kept", Value: "yes"})
		lease := do(leases.Grant{Name: "db", Holder: "alice", TTL: time.Hour})
		do(membership.AddJoinToken{ID: "old", Hash: [32]byte{9}, TTL: time.Hour})

		var snapshot bytes.Buffer
		c.must(saveSnapshot(ctx, c.AwaitLeader(successionLimit).Core(), &snapshot))
		do(settings.PutSetting{Key: "lost", Value: "yes"})
		highest := c.loseAll()

		leader := c.AwaitLeader(successionLimit)
		old := leader.Core().Session.ID()
		c.foundFrom(&snapshot, leader, "new")
		c.settle(highest)
		c.Agree(successionLimit)
		v := c.AwaitLeader(successionLimit).Core().Store.View()
		c.voided(v, highest, lease.Token, old)
		if s, _ := v.Setting("kept"); s.Value != "yes" {
			t.Error("what the snapshot held is not there")
		}
		if _, ok := v.Setting("lost"); ok {
			t.Error("what came after the snapshot is still there")
		}
		early, err := c.AwaitLeader(successionLimit).Core().Session.Do(ctx, "",
			leases.Grant{Name: "db", Holder: "bob", TTL: time.Hour})
		c.must(err)
		if early.Code != fsm.Conflict {
			c.Oracle.broken("two-holders: another got a lease that its holder from before the restore may act under: %+v", early)
		}
		next := do(leases.Grant{Name: "db", Holder: "alice", TTL: time.Hour, Takeover: true})
		if next.Token <= lease.Token || next.Token <= highest {
			c.Oracle.broken("token-rises-through-restore: a lease got token %v, %v and %v were granted before", next.Token,
				lease.Token, highest)
		}
	})
}

// foundFrom stops every peer, founds the cluster again from a snapshot on the host
// of one of them, and has new hosts join.
func (c *Cluster) foundFrom(snapshot io.Reader, on *Peer, names ...string) {
	c.T.Helper()
	for _, p := range c.Peers {
		c.must(p.Stop())
	}
	state, err := fsm.Read(snapshot)
	c.must(err)
	local, err := host.Replay(on.storage())
	c.must(err)
	state.Adopt(local.State.View())
	c.must(state.Refound(fsm.Refound{
		Index: max(state.View().Index(), local.Last), UnixMillis: on.wall().UnixMilli(), NewIncarnation: true,
		Survivor: on.Name, Self: on.member(),
	}))
	on.Disk = NewDisk(c.rng) // the new state, next to the old one
	st := on.storage()
	c.must(host.Seed(st, state, raftstore.Server{ID: on.Name, Address: on.address(), Voter: true}))
	c.must(host.VerifySeed(st, state.View()))
	c.Oracle.foundedAgain()
	c.Peers = []*Peer{on}
	for _, name := range names {
		c.Peers = append(c.Peers, &Peer{Name: name, Disk: NewDisk(c.rng), c: c})
	}
	c.start()
	for _, p := range c.Peers[1:] {
		c.commit(membership.PutMember{Member: p.member()})
		c.awaitVote(p, true)
	}
}

// loseAll makes some leaderships and returns the greatest token.
func (c *Cluster) loseAll() fencing.Token {
	for _, how := range Losses() {
		c.Lose(how)
	}
	return c.AwaitLeader(successionLimit).Core().Runner.Token()
}

// voided checks that nothing of the old history is valid.
func (c *Cluster) voided(v fsm.View, highest, lease, session fencing.Token) {
	c.T.Helper()
	if now := v.Leadership().Token; now <= highest {
		c.Oracle.broken("token-rises-through-restore: leadership has token %v, %v was granted before", now, highest)
	}
	if l, ok := v.Lease("db"); ok && l.Holder != "" && !l.Void {
		c.Oracle.broken("restore-voids-leases: %q still holds a lease of token %v", l.Holder, lease)
	}
	if len(v.JoinTokens()) != 0 {
		c.Oracle.broken("restore-voids-join-tokens: %d join tokens may still be used", len(v.JoinTokens()))
	}
	if _, ok := v.Session(session); ok {
		c.Oracle.broken("restore-voids-sessions: session %v lives on", session)
	}
	if err := v.Check(); err != nil {
		c.Oracle.broken("check-clean: %v", err)
	}
}

// saveSnapshot writes a linearizable copy of the state.
func saveSnapshot(ctx context.Context, core *app.Core, to io.Writer) error {
	v, err := core.Store.Read(ctx)
	if err != nil {
		return err
	}
	_, err = v.WriteTo(to)
	return err
}
