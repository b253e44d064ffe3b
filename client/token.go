package client

import (
	"context"
	"fmt"
	"sync"
)

// tokenHeader carries a token of Keystone.
const tokenHeader = "X-Auth-Token"

// tokens keeps the token that servers took last. It goes to servers that asked
// for one of Keystone alone.
type tokens struct {
	source func(context.Context) (string, error)

	mu   sync.Mutex // held while the source is asked: of many questions one asks it
	kept string     // guarded by mu; "" while no server asked for one
}

// get returns the token to show, "" for none.
func (t *tokens) get() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.kept
}

// renew returns another token than the one that was refused.
func (t *tokens) renew(ctx context.Context, refused string) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept != refused {
		return t.kept, nil
	}
	fresh, err := t.source(ctx)
	if err != nil {
		return "", &tokenError{err}
	}
	t.kept = fresh
	return fresh, nil
}

// tokenError is that there is no token to show: no server can help.
type tokenError struct{ err error }

// Error implements error.
func (e *tokenError) Error() string { return fmt.Sprintf("get a token of Keystone: %v", e.err) }

// Unwrap gives the source's own error.
func (e *tokenError) Unwrap() error { return e.err }
