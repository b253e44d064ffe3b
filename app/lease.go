package app

import (
	"context"

	"github.com/trivet-ha/trivet/lease"
	"github.com/trivet-ha/trivet/lease/leaderrpc"
	"github.com/trivet-ha/trivet/raftstore"
)

func newLending(o CoreOptions, store *raftstore.Store, do lease.Doer) *lease.Service {
	// The shortest lease that a change of leader alone does not cost its holder: three
	// heartbeats until it is noticed, and an election (docs/contract.md#lease-ttl).
	shortest := 3*o.Raft.Timing.Heartbeat + o.Raft.Timing.Election
	lend := lease.Options{Log: store, Do: do, MinTTL: shortest}
	if o.Leader != nil {
		lend.Leader = leaderrpc.NewLeader(store, o.Leader)
	}
	return lease.New(lend)
}

// AnswerLending answers what other peers ask this one about leases while it leads.
func (c *Core) AnswerLending(ctx context.Context, path string, question []byte) ([]byte, error) {
	return leaderrpc.Answer(ctx, c.Store, c.Lending, path, question)
}
