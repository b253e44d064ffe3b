package kube

import (
	"context"
	"sync"
	"time"
)

// How long what was read is used.
const (
	// fresh is for how long nothing is read anew.
	fresh = time.Second
	// soon is after how long it is read ahead, beside whoever asks: for a name that is
	// asked for often nobody waits.
	soon = fresh / 2
	// usable is for how long it serves while the API server does not answer.
	usable = 30 * time.Second
	// sulk is for how long those who waited share a failure.
	sulk = 250 * time.Millisecond
	// maxShelf bounds what is kept: namespaces of which objects were admitted.
	maxShelf = 5_000
)

// shelf keeps what was read, by name. It may be used concurrently; what is asked
// for by several at once is read once.
type shelf[T any] struct {
	now   func() time.Time
	ahead sync.WaitGroup // reads that nobody waits for, one for each item at most

	mu    sync.Mutex
	items map[string]*item[T]
}

// item is one thing that was read. It belongs to who holds its turn.
type item[T any] struct {
	turn   chan struct{} // capacity 1
	value  T
	read   time.Time // zero: never
	err    error     // of the last try, nil if it succeeded
	failed time.Time
	ahead  bool // it is being read ahead
}

func newShelf[T any](now func() time.Time) *shelf[T] {
	return &shelf[T]{now: now, items: map[string]*item[T]{}}
}

// get returns what is known of a name, and reads it if that is too old. Errors for
// which final is true are told at once, however much is known. read must end by
// itself: it may be called after get has returned, and before wait.
func (s *shelf[T]) get(ctx context.Context, name string, final func(error) bool, read func(context.Context) (T, error)) (T, error) {
	var none T
	it := s.item(name)
	select {
	case it.turn <- struct{}{}:
		defer func() { <-it.turn }()
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
	age := s.now().Sub(it.read)
	known := !it.read.IsZero() && age < usable
	if known && it.err == nil && age < fresh {
		if age >= soon && !it.ahead {
			it.ahead = true
			s.ahead.Go(func() { s.readAhead(context.WithoutCancel(ctx), it, read) })
		}
		return it.value, nil
	}
	if it.err == nil || s.now().Sub(it.failed) >= sulk {
		began := s.now()
		value, err := read(ctx)
		if it.err = err; err == nil {
			it.value, it.read = value, began
			return value, nil
		}
		it.failed = s.now()
	}
	if known && !final(it.err) {
		return it.value, nil
	}
	return none, it.err
}

// readAhead replaces an item that will soon be too old. A failure is left for those
// who ask then.
func (s *shelf[T]) readAhead(ctx context.Context, it *item[T], read func(context.Context) (T, error)) {
	began := s.now()
	value, err := read(ctx)
	it.turn <- struct{}{}
	defer func() { <-it.turn }()
	it.ahead = false
	if err == nil && began.After(it.read) {
		it.value, it.read, it.err = value, began, nil
	}
}

// wait returns when nothing is read ahead.
func (s *shelf[T]) wait() { s.ahead.Wait() }

// item finds or makes one. When there are too many all are forgotten: that costs a
// read each.
func (s *shelf[T]) item(name string) *item[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if it, known := s.items[name]; known {
		return it
	}
	if len(s.items) >= maxShelf {
		clear(s.items)
	}
	it := &item[T]{turn: make(chan struct{}, 1)}
	s.items[name] = it
	return it
}
