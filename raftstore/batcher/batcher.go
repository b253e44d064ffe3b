// Package batcher lets many concurrent calls share few requests: calls that arrive
// while a batch is under way wait, and go together with the next batch.
//
// A call never joins a batch that is under way, so its response is never older than
// the call: one proof of leadership may answer many linearizable reads.
package batcher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Errors of a call that no batch carried, and none will.
var (
	ErrClosed = errors.New("the batcher is closed")
	ErrFull   = errors.New("too many calls wait")
	// ErrWithdrawn wraps the cause of a context that ended before the call's batch left.
	ErrWithdrawn = errors.New("withdrawn before it was sent")
)

// Call is one request and its response. It belongs to Options.Send while its batch is
// under way.
type Call[Req, Resp any] struct {
	Request  Req
	Response Resp
	Err      error
}

// Options are the bounds of a batcher. Send, Parallel, MaxCalls and MaxWaiting are
// required.
type Options[Req, Resp any] struct {
	// Send carries a batch and sets Response or Err of each call. Its context ends
	// with Context, with Close, and, unless the batcher is Detached, when the last
	// client of the batch has given up.
	Send func(ctx context.Context, calls []*Call[Req, Resp])
	// Context ends all batches; nil stands for context.Background().
	Context context.Context

	Parallel   int // batches under way at once
	MaxCalls   int // calls in one batch
	MaxWaiting int // calls that wait, in all batches: more are refused with ErrFull

	// Size is the size of a request, and MaxSize bounds the sum over one batch, except
	// where a single request is larger. Without Size only MaxCalls bounds a batch.
	Size    func(Req) int
	MaxSize int

	// Delay is how long a batch waits for more calls before it leaves, unless Enough
	// calls wait already. Without Delay a batch leaves at once.
	Delay  func() time.Duration
	Enough int

	// Detached batches carry calls whose client gave up, too: the request matters
	// although its response does not.
	Detached bool
}

// Batcher collects calls into batches. Its methods may be called concurrently.
type Batcher[Req, Resp any] struct {
	opts   Options[Req, Resp]
	life   context.Context // of every batch
	stop   context.CancelFunc
	enough chan struct{} // capacity 1: Enough calls wait

	mu      sync.Mutex
	queue   []*batch[Req, Resp] // in the order they will leave; only the last takes more
	waiting int                 // calls in queue, withdrawn ones too
	workers int                 // at most Parallel; each has one batch under way
	closed  bool
	running sync.WaitGroup // the workers
}

// batch is a list of calls that leave together.
type batch[Req, Resp any] struct {
	calls   []*Call[Req, Resp] // nil: withdrawn before it left
	size    int
	clients int // clients that still wait for a response
	left    bool
	cancel  context.CancelFunc // set when left
	done    chan struct{}      // closed when every call has its outcome
}

// ticket is a call's place in its batch.
type ticket[Req, Resp any] struct {
	call  *Call[Req, Resp]
	batch *batch[Req, Resp]
	index int
}

// New returns a batcher. Close ends it.
func New[Req, Resp any](o Options[Req, Resp]) *Batcher[Req, Resp] {
	if o.Context == nil {
		o.Context = context.Background()
	}
	b := &Batcher[Req, Resp]{opts: o, enough: make(chan struct{}, 1)}
	b.life, b.stop = context.WithCancel(o.Context)
	return b
}

// Do returns the response to one request. Errors: that of the call, ErrClosed,
// ErrFull, ErrWithdrawn, or the cause of ctx, after which the outcome is unknown.
func (b *Batcher[Req, Resp]) Do(ctx context.Context, request Req) (Resp, error) {
	responses, err := b.DoAll(ctx, request)
	if err != nil {
		var none Resp
		return none, err
	}
	return responses[0], nil
}

// DoAll returns the responses to several requests, in their order. Either all are
// accepted or none; the first error is returned. The requests may travel in
// different batches. Errors are those of Do.
func (b *Batcher[Req, Resp]) DoAll(ctx context.Context, requests ...Req) ([]Resp, error) {
	tickets, err := b.enqueue(requests)
	if err != nil {
		return nil, err
	}
	responses := make([]Resp, 0, len(tickets))
	for n, t := range tickets {
		select {
		case <-t.batch.done:
		case <-ctx.Done():
			if b.abandon(tickets[n:]) {
				return nil, fmt.Errorf("%w: %w", ErrWithdrawn, context.Cause(ctx))
			}
			return nil, context.Cause(ctx)
		}
		if t.call.Err != nil {
			b.abandon(tickets[n:])
			return nil, t.call.Err
		}
		responses = append(responses, t.call.Response)
	}
	return responses, nil
}

// Close refuses further calls, ends the batches under way, and waits for them.
func (b *Batcher[Req, Resp]) Close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.stop()
	b.running.Wait()
}

func (b *Batcher[Req, Resp]) enqueue(requests []Req) ([]ticket[Req, Resp], error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, ErrClosed
	}
	if b.waiting+len(requests) > b.opts.MaxWaiting {
		return nil, ErrFull
	}
	tickets := make([]ticket[Req, Resp], 0, len(requests))
	for _, request := range requests {
		call := &Call[Req, Resp]{Request: request}
		size := 0
		if b.opts.Size != nil {
			size = b.opts.Size(request)
		}
		last := b.last(size)
		tickets = append(tickets, ticket[Req, Resp]{call: call, batch: last, index: len(last.calls)})
		last.calls = append(last.calls, call)
		last.size += size
		last.clients++
		b.waiting++
	}
	if b.waiting >= b.opts.Enough {
		select {
		case b.enough <- struct{}{}:
		default: // a worker has not taken the last signal yet
		}
	}
	if b.workers < b.opts.Parallel {
		b.workers++
		b.running.Go(b.work)
	}
	return tickets, nil
}

// last returns the batch that takes a request of this size.
func (b *Batcher[Req, Resp]) last(size int) *batch[Req, Resp] {
	if n := len(b.queue); n > 0 {
		last := b.queue[n-1]
		if len(last.calls) < b.opts.MaxCalls && (b.opts.Size == nil || last.size+size <= b.opts.MaxSize) {
			return last
		}
	}
	next := &batch[Req, Resp]{done: make(chan struct{})}
	b.queue = append(b.queue, next)
	return next
}

// abandon gives up waiting for calls, and reports whether each was withdrawn
// before its batch left. The last client to go ends a batch under way.
func (b *Batcher[Req, Resp]) abandon(tickets []ticket[Req, Resp]) (withdrawn bool) {
	if b.opts.Detached {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	withdrawn = true
	for _, t := range tickets {
		t.batch.clients--
		if !t.batch.left {
			t.batch.calls[t.index] = nil
			continue
		}
		withdrawn = false
		if t.batch.clients == 0 {
			t.batch.cancel()
		}
	}
	return withdrawn
}

// work sends one batch after the other until no call waits.
func (b *Batcher[Req, Resp]) work() {
	for {
		b.delay()
		ctx, next, calls := b.leave()
		if next == nil {
			return
		}
		if len(calls) > 0 {
			b.opts.Send(ctx, calls)
		}
		next.cancel()
		close(next.done)
	}
}

// delay waits for more calls, unless enough are there.
func (b *Batcher[Req, Resp]) delay() {
	if b.opts.Delay == nil {
		return
	}
	select {
	case <-time.After(b.opts.Delay()):
	case <-b.enough:
	case <-b.life.Done():
	}
}

// leave takes the next batch and its calls without those that were withdrawn. A nil
// batch ends the worker.
func (b *Batcher[Req, Resp]) leave() (ctx context.Context, next *batch[Req, Resp], calls []*Call[Req, Resp]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) == 0 {
		b.queue = nil // drops the array
		b.workers--
		return nil, nil, nil
	}
	next = b.queue[0]
	b.queue = b.queue[1:]
	b.waiting -= len(next.calls)
	if b.waiting < b.opts.Enough {
		select {
		case <-b.enough: // it counted calls that leave now
		default:
		}
	}
	next.left = true
	ctx, next.cancel = context.WithCancel(b.life)
	calls = make([]*Call[Req, Resp], 0, next.clients)
	for _, c := range next.calls {
		if c != nil {
			calls = append(calls, c)
		}
	}
	return ctx, next, calls
}
