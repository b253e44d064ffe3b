package cluster

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/settings"
	"github.com/trivet-ha/trivet/raftstore"
)

// conf is a raft configuration that the duty may change.
type conf struct {
	log     *scriptedLog
	servers []raftstore.Server
}

func (c *conf) Servers() []raftstore.Server { return c.servers }

func (c *conf) Changed() (fsm.View, <-chan struct{}) { return c.log.Changed() }

func (c *conf) set(id, address string, voter bool) error {
	for i, s := range c.servers {
		if s.ID == id {
			c.servers[i].Address, c.servers[i].Voter = address, voter || s.Voter
			return nil
		}
	}
	c.servers = append(c.servers, raftstore.Server{ID: id, Address: address, Voter: voter})
	return nil
}

func (c *conf) AddNonvoter(_ context.Context, id, address string) error {
	return c.set(id, address, false)
}

func (c *conf) AddVoter(_ context.Context, id, address string) error { return c.set(id, address, true) }

func (c *conf) Demote(_ context.Context, id string) error {
	for i, s := range c.servers {
		if s.ID == id {
			c.servers[i].Voter = false
		}
	}
	return nil
}

func (c *conf) Remove(_ context.Context, id string) error {
	for i, s := range c.servers {
		if s.ID == id {
			c.servers = append(c.servers[:i:i], c.servers[i+1:]...)
		}
	}
	return nil
}

// A joiner of a busy cluster is never level with the log as it is now; what
// counts is how far behind it was when it last said so.
func TestJoinerOfABusyClusterIsPromoted(t *testing.T) {
	for _, c := range []struct {
		name   string
		behind uint64 // at its renewal
		lasts  time.Duration
		votes  bool
	}{
		{"keeps up", 10, 6 * time.Second, true},
		{"lags", 2 * keepsUp, 6 * time.Second, false},
		{"has just come", 10, stableFor, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := newScriptedLog(t)
				log.apply(t, membership.PutMember{
					Member: membership.Member{ID: "h2", Name: "h2", Address: "h2:7350", Version: fsm.Version}})
				servers := &conf{log: log, servers: []raftstore.Server{{ID: "h1", Address: "h1@h1:7350", Voter: true}}}
				ctx, stop := context.WithTimeout(t.Context(), c.lasts)
				defer stop()
				session, err := log.Propose(ctx, fsm.Header{}, membership.OpenSession{Peer: "h2", Boot: "b", Version: fsm.Version})
				if err != nil {
					t.Fatal(err)
				}
				log.index += 4 * keepsUp // the log so far
				log.apply(t, membership.RenewSession{Session: session.Token, Applied: log.index + 1 - c.behind})
				log.index += 10 * keepsUp // and what came since
				log.apply(t, settings.PutSetting{Key: "k"})
				if err := NewMembership(servers, "h1", slog.New(slog.DiscardHandler)).Run(ctx); err != nil {
					t.Fatal(err)
				}
				if len(servers.servers) != 2 || servers.servers[1].Voter != c.votes {
					t.Errorf("the configuration is %+v, want h2 voting: %v", servers.servers, c.votes)
				}
			})
		})
	}
}

// What an operator decides of a member, raft follows; of the leader's own vote
// only the next leader disposes.
func TestRaftFollowsTheMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newScriptedLog(t)
		servers := &conf{log: log, servers: []raftstore.Server{{ID: "h1", Address: "h1@h1:7350", Voter: true}}}
		for _, id := range []string{"h2", "h3"} {
			log.apply(t, membership.PutMember{
				Member: membership.Member{ID: id, Name: id, Address: id + ":7350", Version: fsm.Version}})
			log.apply(t, membership.OpenSession{Peer: id, Boot: "b", Version: fsm.Version})
			servers.servers = append(servers.servers, raftstore.Server{ID: id, Address: id + "@" + id + ":7350", Voter: true})
		}
		log.apply(t, membership.Exclude{Peer: "h2", From: membership.FromVoting, On: true, Force: true})
		log.apply(t, membership.Exclude{Peer: "h1", From: membership.FromVoting, On: true, Force: true})
		log.apply(t, membership.MoveMember{Peer: "h2", Address: "elsewhere:1"})
		log.apply(t, membership.MoveMember{Peer: "h3", Address: "elsewhere:2"})
		ctx, stop := context.WithTimeout(t.Context(), 6*time.Second)
		defer stop()
		if err := NewMembership(servers, "h1", slog.New(slog.DiscardHandler)).Run(ctx); err != nil {
			t.Fatal(err)
		}
		want := []raftstore.Server{{ID: "h1", Address: "h1@h1:7350", Voter: true}, {ID: "h2", Address: "h2@elsewhere:1"},
			{ID: "h3", Address: "h3@elsewhere:2", Voter: true}}
		if !slices.Equal(servers.servers, want) {
			t.Errorf("the configuration is %+v, want %+v", servers.servers, want)
		}
	})
}

// waking is a configuration whose log tells of changes.
type waking struct {
	*conf
	seen *changing
}

func (w waking) Changed() (fsm.View, <-chan struct{}) { return w.seen.Changed() }

// TestFormerMemberIsRemovedAtOnce: the leader takes a removed member out of raft when the log says so, not in
// the next round of its duty: by then it may have lost its lease on a voter that is gone.
func TestFormerMemberIsRemovedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newScriptedLog(t)
		log.apply(t, membership.PutMember{
			Member: membership.Member{ID: "h2", Name: "h2", Address: "h2:7350", Version: fsm.Version}})
		c := waking{&conf{log: log, servers: []raftstore.Server{{ID: "h1", Address: "h1@h1:7350", Voter: true},
			{ID: "h2", Address: "h2@h2:7350", Voter: true}}}, &changing{changed: make(chan struct{})}}
		c.seen.apply(c.conf.log.state.View())
		ctx, stop := context.WithTimeout(t.Context(), reconcileEvery/2)
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- NewMembership(c, "h1", slog.New(slog.DiscardHandler)).Run(ctx) }()
		time.Sleep(reconcileEvery / 4) // in a bubble
		log.apply(t, membership.RemoveMember{ID: "h2", Force: true})
		c.seen.apply(log.state.View())
		if err := <-ended; err != nil || len(c.servers) != 1 {
			t.Errorf("removed-at-once: raft still counts %+v: %v", c.servers, err)
		}
	})
}
