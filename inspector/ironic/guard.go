package ironic

import (
	"context"
	"errors"
)

// ErrNotAllowed says that a worker may not act any more: its claim or its
// peer's session is over, or may be by now.
var ErrNotAllowed = errors.New("this worker may not act any more")

type guardKey struct{}

// WithGuard attaches the check that every outside effect inside ctx must pass.
// It travels in the context because it must be made right before bytes leave,
// below every retry (docs/design.md#guard): a worker that was stopped for a minute
// between two tries would otherwise go on with the second.
func WithGuard(ctx context.Context, check func() error) context.Context {
	return context.WithValue(ctx, guardKey{}, check)
}

type rereadKey struct{}

// WithReread attaches what is asked before each further try of a call inside ctx that changes
// something. The first try rests on what its caller has read of the node a moment ago. What
// refused it may have been the node's next user, who had it locked, and the pause before the
// next try outlives a reading.
func WithReread(ctx context.Context, check func(ctx context.Context) error) context.Context {
	return context.WithValue(ctx, rereadKey{}, check)
}

// reread runs that check of ctx.
func reread(ctx context.Context) error {
	if check, ok := ctx.Value(rereadKey{}).(func(ctx context.Context) error); ok {
		return check(ctx)
	}
	return nil
}

// Allowed runs the check of ctx. Without one everything is allowed: reads on
// behalf of the API change nothing.
func Allowed(ctx context.Context) error {
	if check, ok := ctx.Value(guardKey{}).(func() error); ok {
		return check()
	}
	return nil
}
