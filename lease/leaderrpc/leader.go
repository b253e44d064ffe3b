package leaderrpc

import (
	"context"
	"fmt"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/leases"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/logerr"
)

const (
	// askLimit bounds one question about steps: a leader whose disk hangs never
	// answers.
	askLimit = 3 * time.Second
	// maxAwaited bounds the leases that this peer asks the leader about at once; who
	// waits for others learns of their end from this peer's own log.
	maxAwaited = 64
)

// Log tells who leads.
type Log interface {
	// Elsewhere returns the leader, or logerr.ErrNotLeader where this peer leads
	// itself, or logerr.ErrNoLeader.
	Elsewhere() (raftstore.Server, error)
	// WhileLeads returns a context that ends when another leader is heard of.
	WhileLeads(ctx context.Context) (limited context.Context, stop func())
}

// Asker asks another peer. Errors are as those of raftstore.Forwarder.
type Asker interface {
	AskLeader(ctx context.Context, leader raftstore.Server, path string, question []byte) ([]byte, error)
}

// Leader is the peer that leads, as others see it: a lease.Leader. It may be used
// concurrently.
type Leader struct {
	log     Log
	ask     Asker
	awaited chan struct{} // a place for each
}

// NewLeader returns a client of the peer that leads according to log.
func NewLeader(log Log, ask Asker) *Leader {
	return &Leader{log: log, ask: ask, awaited: make(chan struct{}, maxAwaited)}
}

// Elsewhere implements lease.Leader.
func (l *Leader) Elsewhere() bool {
	_, err := l.log.Elsewhere()
	return err == nil
}

// Step implements lease.Leader.
func (l *Leader) Step(ctx context.Context, steps []leases.Step) ([]leases.Stepped, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	answer, err := l.question(ctx, PathStep, steps)
	if err != nil {
		return nil, err
	}
	var said []leases.Stepped
	if err := cbor.Unmarshal(answer, &said); err != nil {
		return nil, fmt.Errorf("%w: the leader's answer: %w", logerr.ErrOutcomeUnknown, err)
	}
	return said, nil
}

// AwaitEnd implements lease.Leader. Of more leases than it may ask about at once it
// fails with logerr.ErrBusy.
func (l *Leader) AwaitEnd(ctx context.Context, name string, token fencing.Token) error {
	select {
	case l.awaited <- struct{}{}:
		defer func() { <-l.awaited }()
	default:
		return logerr.ErrBusy
	}
	_, err := l.question(ctx, PathAwaitEnd, leases.Step{Name: name, Token: token})
	return err
}

// question asks the leader for as long as no other is heard of: one that is stopped or
// cut off never answers.
func (l *Leader) question(ctx context.Context, path string, about any) ([]byte, error) {
	leader, err := l.log.Elsewhere()
	if err != nil {
		return nil, err
	}
	text, err := cbor.Marshal(about)
	if err != nil {
		return nil, err
	}
	limited, stop := l.log.WhileLeads(ctx)
	defer stop()
	return l.ask.AskLeader(limited, leader, path, text)
}
