package app

import (
	"context"

	"github.com/trivet-ha/trivet/lease"
	"github.com/trivet-ha/trivet/lease/leaderrpc"
	"github.com/trivet-ha/trivet/raftstore"
)

func newLending(o CoreOptions, store *raftstore.Store, do lease.Doer) *lease.Service {
	lend := lease.Options{Log: store, Do: do, MinTTL: lease.ShortestTTL(o.Raft.Timing.Succession())}
	if o.Leader != nil {
		lend.Leader = leaderrpc.NewLeader(store, o.Leader)
	}
	return lease.New(lend)
}

// AnswerLending answers what other peers ask this one about leases while it leads.
func (c *Core) AnswerLending(ctx context.Context, path string, question []byte) ([]byte, error) {
	return leaderrpc.Answer(ctx, c.Store, c.Lending, path, question)
}
