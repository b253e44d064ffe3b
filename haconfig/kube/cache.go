package kube

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// How long what was read is used.
const (
	// freshTTL is how long an entry serves without another read.
	freshTTL = time.Second
	// refreshAhead is the age at which a read in the background begins: for a name that is
	// asked for often no caller waits.
	refreshAhead = freshTTL / 2
	// staleTTL is how long an entry serves while the API server does not answer.
	staleTTL = 30 * time.Second
	// errorTTL is how long callers share a failure.
	errorTTL = 250 * time.Millisecond
	// maxCached bounds the entries: namespaces of which objects were admitted, and names that
	// callers have invented.
	maxCached = 5_000
)

// The lanes of a line of reads: names that exist, of which each is read twice a second at the
// most, do not wait in line with those that a caller may invent.
const (
	strangeLane = iota
	knownLane
	readLanes
)

// oneRead is what a read is charged with: an event of the line's paces.
const oneRead = time.Millisecond

// readCache holds the results of reads by name. It may be used concurrently; what is asked
// for by several at once is read once.
type readCache[T any] struct {
	now     func() time.Time
	line    *admission.Line // that reads wait in, by source; nil: they do not
	reading sync.WaitGroup  // reads under way, two of each entry at most

	mu      sync.Mutex
	entries map[string]*cachedRead[T]
}

// cachedRead is the result of one read. It belongs to the holder of its lock.
type cachedRead[T any] struct {
	lock   chan struct{} // capacity 1
	value  T
	read   time.Time // zero: never
	err    error     // of the last try, nil if it succeeded
	failed time.Time
	ahead  bool // it is being read ahead
}

func newReadCache[T any](now func() time.Time, line *admission.Line) *readCache[T] {
	return &readCache[T]{now: now, line: line, entries: map[string]*cachedRead[T]{}}
}

// found is what an entry has for those who ask.
type found[T any] struct {
	value T
	err   error
	known bool // value may serve while the API server does not answer
	done  bool // value or err serves; else it is to be read
}

// get returns what is known of a name, and reads it if that is too old, when it is the turn of
// the source that asks; where that does not come the error is admission.ErrBusy. Errors for
// which final is true are told at once, however much is known. read must end by
// itself: it may last longer than get, and ends before wait returns.
func (c *readCache[T]) get(ctx context.Context, source netip.Prefix, name string, final func(error) bool,
	read func(context.Context) (T, error)) (T, error) {
	var none T
	e := c.entry(name)
	// No entry is held in line: who has a long way to go would keep others from its name.
	if err := e.hold(ctx); err != nil {
		return none, err
	}
	f, strange := c.serveCached(e, final), e.read.IsZero()
	if f.done && e.err == nil && !e.ahead && c.now().Sub(e.read) >= refreshAhead {
		e.ahead = true
		c.reading.Go(func() { c.refresh(context.WithoutCancel(ctx), source, e, read) })
	}
	e.release()
	if f.done {
		return f.value, f.err
	}
	leave, err := c.enter(ctx, source, strange)
	switch {
	case errors.Is(err, admission.ErrBusy) && f.known:
		return f.value, nil
	case err != nil:
		return none, err
	}
	done := make(chan found[T], 1)
	// It is read for all who wait, so not in the context of the one who came first: a caller
	// that hangs up must fail no other, and says nothing of the API server.
	c.reading.Go(func() { done <- c.reread(context.WithoutCancel(ctx), e, final, read, leave) })
	select {
	case f = <-done:
		return f.value, f.err
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}

// serveCached returns what serves without a read. The caller holds the entry.
func (c *readCache[T]) serveCached(e *cachedRead[T], final func(error) bool) (f found[T]) {
	age := c.now().Sub(e.read)
	f.known = !e.read.IsZero() && age < staleTTL
	switch failed := e.err != nil && c.now().Sub(e.failed) < errorTTL; {
	case failed && (!f.known || final(e.err)):
		f.err, f.done = e.err, true
		return f
	case failed, e.err == nil && f.known && age < freshTTL:
		f.done = true
	}
	if f.known {
		f.value = e.value
	}
	return f
}

// reread reads an entry, unless another has meanwhile, leaves the line, and returns what serves.
func (c *readCache[T]) reread(ctx context.Context, e *cachedRead[T], final func(error) bool,
	read func(context.Context) (T, error), leave func(read bool)) found[T] {
	e.lock <- struct{}{} // who holds it reads within a call's time, and then it is read for all
	defer e.release()
	if f := c.serveCached(e, final); f.done {
		leave(false)
		return f
	}
	began := c.now()
	value, err := read(ctx)
	leave(true)
	if e.err = err; err == nil {
		e.value, e.read = value, began
		return found[T]{value: value}
	}
	e.failed = c.now()
	return c.serveCached(e, final)
}

// refresh replaces an entry that will soon be too old. A failure is left for those
// who ask then, as is a line that is too long.
func (c *readCache[T]) refresh(ctx context.Context, source netip.Prefix, e *cachedRead[T],
	read func(context.Context) (T, error)) {
	leave, err := c.enter(ctx, source, false)
	began := c.now()
	var value T
	if err == nil {
		value, err = read(ctx)
		leave(true)
	}
	e.lock <- struct{}{}
	defer e.release()
	e.ahead = false
	if err == nil && began.After(e.read) {
		e.value, e.read, e.err = value, began, nil
	}
}

// enter waits for the turn of a source. leave says whether it has read.
func (c *readCache[T]) enter(ctx context.Context, source netip.Prefix, strange bool) (leave func(read bool),
	err error) {
	if c.line == nil {
		return func(bool) {}, nil
	}
	lane := knownLane
	if strange {
		lane = strangeLane
	}
	if err := c.line.Enter(ctx, lane, source); err != nil {
		return nil, err
	}
	return func(read bool) {
		if !read {
			c.line.Leave(source)
			return
		}
		c.line.LeaveAfter(source, oneRead)
	}, nil
}

// wait returns when nothing is read.
func (c *readCache[T]) wait() { c.reading.Wait() }

// entry finds or makes one. When there are too many, names that were never read are forgotten,
// so that invented ones take none of the others' entries; of too many that were, all.
func (c *readCache[T]) entry(name string) *cachedRead[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, known := c.entries[name]; known {
		return e
	}
	if len(c.entries) >= maxCached {
		maps.DeleteFunc(c.entries, func(_ string, e *cachedRead[T]) bool {
			select {
			case e.lock <- struct{}{}:
				defer e.release()
				return e.read.IsZero()
			default: // it is being read
				return false
			}
		})
		if len(c.entries) > maxCached*3/4 {
			clear(c.entries)
		}
	}
	e := &cachedRead[T]{lock: make(chan struct{}, 1)}
	c.entries[name] = e
	return e
}

// hold waits for an entry. Its error is the cause of ctx's end.
func (e *cachedRead[T]) hold(ctx context.Context) error {
	select {
	case e.lock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (e *cachedRead[T]) release() { <-e.lock }
