package app

import (
	"context"
	"errors"
	"time"

	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/internal/pace"
	"github.com/trivet-ha/trivet/raftstore"
)

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
