package app

import (
	"context"
	"time"

	"github.com/trivet-ha/trivet/lease"
	"github.com/trivet-ha/trivet/lease/leaderrpc"
	"github.com/trivet-ha/trivet/raftstore"
)

// safeTTL is the shortest lease that a change of leader alone does not cost its
// holder: three heartbeats until it is noticed, and an election
// (docs/contract.md#lease-ttl).
func safeTTL(t raftstore.Timing) time.Duration { return 3*t.Heartbeat + t.Election }

func newLending(o CoreOptions, store *raftstore.Store, do lease.Doer) *lease.Service {
	lend := lease.Options{Log: store, Do: do, MinTTL: safeTTL(o.Raft.Timing)}
	if o.Leader != nil {
		lend.Leader = leaderrpc.NewLeader(store, o.Leader)
	}
	return lease.New(lend)
}

// AnswerLending answers what other peers ask this one about leases while it leads.
func (c *Core) AnswerLending(ctx context.Context, path string, question []byte) ([]byte, error) {
	return leaderrpc.Answer(ctx, c.Store, c.Lending, path, question)
}
