package servicecreds

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// RefusalRests is how long credentials that were refused are not shown again.
// Every call would otherwise repeat them, and a service that counts would lock
// the user.
const RefusalRests = 5 * time.Second

// Session keeps what a login gave, and logs in when there is nothing: never
// before the first call, so that the service may start later than we. It may be
// used concurrently; what it keeps is shared and must not be changed.
type Session[T any] struct {
	logIn   func(context.Context) (*T, error)
	refused func(error) bool
	current atomic.Pointer[T]
	turn    chan struct{} // one place: the goroutine that logs in holds it

	mu        sync.Mutex // guards the rest
	refusal   error      // of the last login, if it was one of the credentials
	refusedAt time.Time
}

// NewSession returns a session without anything in it. refused tells whether a
// login failed because of the credentials; other failures may be over soon.
func NewSession[T any](logIn func(context.Context) (*T, error), refused func(error) bool) *Session[T] {
	return &Session[T]{logIn: logIn, refused: refused, turn: make(chan struct{}, 1)}
}

// Get returns what the last login gave, after logging in if need be. Callers who
// come meanwhile wait; if the login fails they try for themselves, because it was
// made in another caller's context.
func (s *Session[T]) Get(ctx context.Context) (*T, error) {
	if kept := s.current.Load(); kept != nil {
		return kept, nil
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for another request's login: %w", context.Cause(ctx))
	}
	if kept := s.current.Load(); kept != nil {
		return kept, nil
	}
	if err := s.resting(); err != nil {
		return nil, err
	}
	fresh, err := s.logIn(ctx)
	if err != nil {
		if s.refused(err) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.refusal, s.refusedAt = err, time.Now()
		}
		return nil, err
	}
	s.current.Store(fresh)
	return fresh, nil
}

// Drop forgets what the service refused, unless something else took its place.
func (s *Session[T]) Drop(stale *T) { s.current.CompareAndSwap(stale, nil) }

func (s *Session[T]) resting() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.refusedAt) < RefusalRests {
		return s.refusal
	}
	return nil
}
