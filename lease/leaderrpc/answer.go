package leaderrpc

import (
	"context"
	"errors"
	"fmt"

	"github.com/fxamacker/cbor/v2"

	"github.com/trivet-ha/trivet/fsm/leases"
	"github.com/trivet-ha/trivet/lease"
	"github.com/trivet-ha/trivet/raftstore/logerr"
)

// Paths of the questions on the peers' port.
const (
	PathStep     = "/peer/v1/leases/steps"
	PathAwaitEnd = "/peer/v1/leases/end"
)

// Answer answers one question of another peer, by what this peer's own service does.
// Only a leader answers: steps would else go from peer to peer. A caller that awaits
// an end gets its answer when ctx, the longest wait, or the lease is over.
func Answer(ctx context.Context, log Log, here *lease.Service, path string, question []byte) ([]byte, error) {
	if _, err := log.Elsewhere(); !errors.Is(err, logerr.ErrNotLeader) {
		return nil, fmt.Errorf("%w: it is asked about leases", logerr.ErrNotLeader)
	}
	switch path {
	case PathStep:
		var c leases.Steps
		if err := cbor.Unmarshal(question, &c.Steps); err != nil {
			return nil, fmt.Errorf("steps of leases: %w", err)
		}
		if err := c.Validate(); err != nil {
			return nil, err
		}
		said, err := here.Step(ctx, c.Steps)
		if err != nil {
			return nil, err
		}
		return cbor.Marshal(said)
	case PathAwaitEnd:
		var s leases.Step
		if err := cbor.Unmarshal(question, &s); err != nil {
			return nil, fmt.Errorf("a lease that is awaited: %w", err)
		}
		ctx, cancel := context.WithTimeout(ctx, lease.MaxWait) // no caller waits longer
		defer cancel()
		return nil, here.AwaitEnd(ctx, s.Name, s.Token)
	}
	return nil, fmt.Errorf("peers ask nothing about leases at %s", path)
}
