package lease

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
)

// Reading says how fresh an answer must be.
type Reading bool

// Linearizable answers hold all writes acknowledged before, by any peer. Stale ones
// are this peer's own, also without a quorum: of a lease they prove nothing.
const (
	Linearizable Reading = false
	Stale        Reading = true
)

func (s *Service) view(ctx context.Context, r Reading) (fsm.View, error) {
	if r == Stale {
		return s.o.Log.View(), nil
	}
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	return s.o.Log.Read(ctx)
}

// Get returns a lease, also one that is free. What remains of it is at most what it
// says: time goes on until the next entry of the log.
func (s *Service) Get(ctx context.Context, name string, r Reading) (Grant, error) {
	v, err := s.view(ctx, r)
	if err != nil {
		return Grant{}, err
	}
	l, ok := v.Lease(name)
	if !ok {
		return Grant{}, notFound("lease %s does not exist", name)
	}
	return grantOf(l, v.Now()), nil
}

// List returns the leases whose names come after another name, in order. They are read
// as the caller goes on.
func (s *Service) List(ctx context.Context, after string, r Reading) (iter.Seq[Grant], error) {
	v, err := s.view(ctx, r)
	if err != nil {
		return nil, err
	}
	return func(yield func(Grant) bool) {
		for l := range v.LeasesAfter(after) {
			if !yield(grantOf(l, v.Now())) {
				return
			}
		}
	}, nil
}

// Known is what a watcher knows of a lease: the token of its newest grant, and whether
// that is over. The zero value is nothing at all.
type Known struct {
	Token fencing.Token
	Free  bool
}

// outdated reports whether a lease has changed since the caller read it.
func (k Known) outdated(v fsm.View, name string) bool {
	l, _ := v.Lease(name)
	return l.Token > k.Token || (l.Holder == "") != k.Free
}

// Watch returns a lease as soon as it is not as the caller knows it: its token is
// greater, or it was freed, or it was granted again. It returns what there is when
// the wait is over, as this peer has it and confirmed by a quorum at the end. That a
// lease ended by itself shows with the next entry of the log, a second or so later.
func (s *Service) Watch(ctx context.Context, name string, known Known, wait time.Duration) (Grant, error) {
	if wait < 0 || wait > MaxWait {
		return Grant{}, invalid("wait: a watch waits 0 to %v, not %v", MaxWait, wait)
	}
	if err := s.waitForView(ctx, wait, func(v fsm.View) bool { return known.outdated(v, name) }); err != nil {
		return Grant{}, err
	}
	return s.Get(ctx, name, Linearizable)
}

// waitForView waits for a view, and no longer than told.
func (s *Service) waitForView(ctx context.Context, wait time.Duration, wanted func(fsm.View) bool) error {
	limited, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	_, err := s.o.Log.Wait(limited, wanted)
	if ctx.Err() == nil && errors.Is(limited.Err(), context.DeadlineExceeded) {
		return nil
	}
	return err
}

func notFound(format string, args ...any) error {
	return &fsm.Error{Code: fsm.NotFound, Message: fmt.Sprintf(format, args...)}
}
