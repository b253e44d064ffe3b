package app

import (
	"context"
	"errors"
	"time"

	"github.com/trivet-ha/trivet/cluster"
)

// Values of a peer that hears of no leader.
const (
	orphanLook  = time.Second
	orphanWait  = 3 * time.Second // for a leader, before the others are asked
	orphanLimit = 3 * time.Second // for one of them
)

// findOut asks the servers that raft's configuration names whether this peer is a
// member still, while it hears of no leader: one that was removed while it was down
// is not told, and would ask for votes for ever. The leader alone knows, and answers
// from what it has proven.
func (p *Peer) findOut(ctx context.Context) {
	tick := time.NewTicker(orphanLook)
	defer tick.Stop()
	heard := time.Now()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if _, led := p.core.Store.Leader(); led {
			heard = time.Now()
		}
		if time.Since(heard) > orphanWait && p.disowned(ctx) {
			p.removed()
			return
		}
	}
}

// disowned reports whether a leader says that this peer is no member.
func (p *Peer) disowned(ctx context.Context) bool {
	for _, srv := range p.core.Store.Servers() {
		if srv.ID == p.id.ID {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, orphanLimit)
		_, err := p.forward.ReadIndex(limited, srv)
		cancel()
		if errors.Is(err, cluster.ErrNotMember) {
			return true
		}
	}
	return false
}
