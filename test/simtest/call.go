package simtest

import (
	"context"
	"errors"
	"fmt"
)

// Call lets the host from ask the host to something that is not raft's: fn
// runs as the callee, and its answer is carried back. Cuts, delays, losses and
// pauses apply in both directions, each for itself. As over a real connection
// the caller's timeout is no concern of the callee: fn's context ends with
// the callee's process, not with ctx, and an answer may find nobody waiting. A
// lost request or reply is noticed by its silence, so Call returns the error
// of ctx, or context.DeadlineExceeded after ten seconds, and the caller cannot
// tell whether fn ran. A request is never duplicated here, because nothing in
// HTTP repeats one.
//
// Either name may belong to no endpoint: such a caller is a client that is
// never paused, such a callee refuses the connection.
func Call[T any](ctx context.Context, n *Network, from, to string, fn func(context.Context) (T, error)) (T, error) {
	var zero T
	ctx, cancel := context.WithTimeout(ctx, rpcTimeout)
	defer cancel()
	caller := n.host(from)
	if caller != nil {
		defer context.AfterFunc(caller.ctx, cancel)()
	}
	if err := caller.await(); err != nil {
		return zero, err
	}
	v, err := exchange(ctx, n, from, to, fn)
	if stopped := caller.await(); stopped != nil {
		return zero, stopped
	}
	if err != nil {
		return zero, fmt.Errorf("from %s to %s: %w", from, to, err)
	}
	return v, nil
}

type outcome[T any] struct {
	value T
	err   error
}

// exchange carries the request over, has it served, and waits for the answer.
func exchange[T any](ctx context.Context, n *Network, from, to string, fn func(context.Context) (T, error)) (v T,
	err error) {
	if err := n.carry(ctx, from, to); err != nil {
		return v, silence(ctx, err)
	}
	callee := n.host(to)
	if callee == nil || callee.ctx.Err() != nil {
		return v, ErrRefused
	}
	answers := make(chan outcome[T], 1)
	go func() {
		if !callee.gate.Wait(callee.ctx.Done()) {
			return
		}
		value, err := fn(callee.ctx)
		if !callee.gate.Wait(callee.ctx.Done()) || callee.ctx.Err() != nil {
			return
		}
		if n.carry(ctx, to, from) == nil {
			answers <- outcome[T]{value, err} // has room for the only one
		}
	}()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-callee.ctx.Done():
		return v, ErrReset
	case <-ctx.Done():
		return v, ctx.Err()
	}
}

// silence waits out the caller's timeout after a message was lost.
func silence(ctx context.Context, err error) error {
	if errors.Is(err, ErrReset) {
		<-ctx.Done()
	}
	return ctx.Err()
}

// await returns once the process runs, or the error of a process that ended
// meanwhile; time-outs do not wake a stopped process. A nil Transport is a
// client outside the simulation.
func (t *Transport) await() error {
	if t == nil {
		return nil
	}
	if !t.gate.Wait(t.ctx.Done()) || t.ctx.Err() != nil {
		return fmt.Errorf("process of %s: %w", t.id, ErrReset)
	}
	return nil
}
