package kube

import (
	"context"
	"sync"
	"time"
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
	// maxCached bounds the entries: namespaces of which objects were admitted.
	maxCached = 5_000
)

// readCache holds the results of reads by name. It may be used concurrently; what is asked
// for by several at once is read once.
type readCache[T any] struct {
	now     func() time.Time
	reading sync.WaitGroup // reads under way, two of each entry at most

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

func newReadCache[T any](now func() time.Time) *readCache[T] {
	return &readCache[T]{now: now, entries: map[string]*cachedRead[T]{}}
}

// get returns what is known of a name, and reads it if that is too old. Errors for
// which final is true are told at once, however much is known. read must end by
// itself: it may last longer than get, and ends before wait returns.
func (c *readCache[T]) get(ctx context.Context, name string, final func(error) bool,
	read func(context.Context) (T, error)) (T, error) {
	var none T
	e := c.entry(name)
	select {
	case e.lock <- struct{}{}:
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
	age := c.now().Sub(e.read)
	if !e.read.IsZero() && e.err == nil && age < freshTTL {
		defer func() { <-e.lock }()
		if age >= refreshAhead && !e.ahead {
			e.ahead = true
			c.reading.Go(func() { c.refresh(context.WithoutCancel(ctx), e, read) })
		}
		return e.value, nil
	}
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1)
	// It is read for all who wait, so not in the context of the one who came first: a caller
	// that hangs up must fail no other, and says nothing of the API server.
	c.reading.Go(func() {
		defer func() { <-e.lock }()
		value, err := c.reread(context.WithoutCancel(ctx), e, final, read)
		done <- answer{value, err}
	})
	select {
	case a := <-done:
		return a.value, a.err
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}

// reread reads an entry, unless that has just failed, and returns what serves then. The caller
// holds the entry's lock.
func (c *readCache[T]) reread(ctx context.Context, e *cachedRead[T], final func(error) bool,
	read func(context.Context) (T, error)) (T, error) {
	began := c.now()
	known := !e.read.IsZero() && began.Sub(e.read) < staleTTL
	if e.err == nil || began.Sub(e.failed) >= errorTTL {
		value, err := read(ctx)
		if e.err = err; err == nil {
			e.value, e.read = value, began
			return value, nil
		}
		e.failed = c.now()
	}
	if known && !final(e.err) {
		return e.value, nil
	}
	var none T
	return none, e.err
}

// refresh replaces an entry that will soon be too old. A failure is left for those
// who ask then.
func (c *readCache[T]) refresh(ctx context.Context, e *cachedRead[T], read func(context.Context) (T, error)) {
	began := c.now()
	value, err := read(ctx)
	e.lock <- struct{}{}
	defer func() { <-e.lock }()
	e.ahead = false
	if err == nil && began.After(e.read) {
		e.value, e.read, e.err = value, began, nil
	}
}

// wait returns when nothing is read.
func (c *readCache[T]) wait() { c.reading.Wait() }

// entry finds or makes one. When there are too many all are forgotten: that costs a
// read each.
func (c *readCache[T]) entry(name string) *cachedRead[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, known := c.entries[name]; known {
		return e
	}
	if len(c.entries) >= maxCached {
		clear(c.entries)
	}
	e := &cachedRead[T]{lock: make(chan struct{}, 1)}
	c.entries[name] = e
	return e
}
