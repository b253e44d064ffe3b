package app

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"time"

	"github.com/trivet-ha/trivet/app/health"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/internal/logs"
	"github.com/trivet-ha/trivet/internal/pace"
	"github.com/trivet-ha/trivet/raftstore"
)

// Limits of the log's lines about peers that are away.
const (
	contactCheck = time.Second
	// lostAfter is how long a peer is silent before the log says that it is lost.
	lostAfter = 2 * time.Second
	// backAfter is how long it must then be heard before the log says that it is
	// back: a link that comes and goes is not two lines each second.
	backAfter = 10 * time.Second
)

// contacts logs by name which peer is lost, once each ten minutes while it is
// away, and when it is back. A leader says so of those that acknowledge
// nothing, any other peer of the leader.
type contacts struct {
	store *raftstore.Store
	log   *slog.Logger

	leading bool
	since   time.Time           // of the role; nothing was expected to be heard before
	away    map[string]*absence // by server ID; of a follower, noLeader alone
}

// noLeader stands for the leader, which may be any peer.
const noLeader = ""

// absence is one peer that is lost.
type absence struct {
	began time.Time
	told  time.Time // the newest line about it
	heard time.Time // since when it is heard again; zero: it is not
}

// checkContacts looks once.
func (c *contacts) checkContacts(now time.Time) {
	all, _, err := c.store.Progress()
	if leading := err == nil; leading != c.leading || c.away == nil {
		c.leading, c.since, c.away = leading, now, make(map[string]*absence)
	}
	if err != nil {
		if c.store.View().ClusterID() != "" { // else a joiner that the leader has not found yet
			silent := now.Sub(c.store.Stats().LastContact)
			c.logChange(now, noLeader, silent, "leader lost: this peer hears from none", "still no leader",
				"leader heard again")
		}
		return
	}
	servers := make(map[string]bool)
	for _, p := range all {
		servers[p.ID] = true
		if p.ID != c.store.ID() {
			c.logChange(now, p.ID, p.Silent, "peer lost: it acknowledges nothing", "peer still lost", "peer is back")
		}
	}
	maps.DeleteFunc(c.away, func(id string, _ *absence) bool { return !servers[id] }) // removed meanwhile
}

// logChange logs what has changed for one peer, which was last heard silent ago.
func (c *contacts) logChange(now time.Time, id string, silent time.Duration, lost, still, back string) {
	silent = min(silent, now.Sub(c.since))
	a := c.away[id]
	switch {
	case a == nil && silent < lostAfter:
	case a == nil:
		c.away[id] = &absence{began: now.Add(-silent), told: now}
		c.log.Warn(lost, c.who(id), "silent_for", silent.Round(time.Second))
	case silent >= lostAfter:
		a.heard = time.Time{}
		if now.Sub(a.told) >= logs.Every {
			a.told = now
			c.log.Warn(still, c.who(id), "silent_for", now.Sub(a.began).Round(time.Second))
		}
	case a.heard.IsZero():
		a.heard = now.Add(-silent)
	case now.Sub(a.heard) >= backAfter:
		delete(c.away, id)
		c.log.Info(back, c.who(id), "silent_for", a.heard.Sub(a.began).Round(time.Second))
	}
}

// who names a peer, or the leader that this peer follows.
func (c *contacts) who(id string) slog.Attr {
	if id == noLeader {
		leader, _ := c.store.Leader()
		id = leader.ID
	}
	return slog.String("peer", health.NameIn(c.store.View(), id))
}

// Values of a peer that hears of no leader.
const (
	orphanLook  = time.Second
	orphanWait  = 3 * time.Second // for a leader, before the others are asked
	orphanLimit = 3 * time.Second // for one of them
)

// orphan asks the servers that raft's configuration names whether this peer is a
// member still, while it hears of no leader: one that was removed while it was
// down is not told, and would ask for votes for ever. A peer that has applied the
// removal says so; of one that its state does not name at all only the leader does,
// after a proof, since another peer may lag behind an admission.
type orphan struct {
	self string // server ID
	log  electors
	// ask asks one server for the read index; cluster.ErrNotMember is the answer to a
	// peer that was removed, and on whose vote raft does not count any more.
	ask func(context.Context, raftstore.Server) (uint64, error)
}

// electors is what an orphan needs of the log.
type electors interface {
	Leader() (raftstore.Server, bool)
	Servers() []raftstore.Server
}

// watchMembership calls removed, once, when a server says that this peer is no member, and
// returns then or with ctx.
func (o orphan) watchMembership(ctx context.Context, removed func()) {
	heard := time.Now()
	for range pace.After(ctx, orphanLook) {
		if _, led := o.log.Leader(); led {
			heard = time.Now()
		}
		if time.Since(heard) > orphanWait && o.disowned(ctx) {
			removed()
			return
		}
	}
}

// disowned reports whether a server says that this peer is no member.
func (o orphan) disowned(ctx context.Context) bool {
	for _, srv := range o.log.Servers() {
		if srv.ID == o.self {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, orphanLimit)
		_, err := o.ask(limited, srv)
		cancel()
		if errors.Is(err, cluster.ErrNotMember) {
			return true
		}
	}
	return false
}
