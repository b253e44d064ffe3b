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

// Allowed runs the check of ctx. Without one everything is allowed: reads on
// behalf of the API change nothing.
func Allowed(ctx context.Context) error {
	if check, ok := ctx.Value(guardKey{}).(func() error); ok {
		return check()
	}
	return nil
}
