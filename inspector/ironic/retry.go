package ironic

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/internal/pace"
)

// do carries out a call and returns the answer's body. The error is an *Error, or what the
// check of WithReread said.
//
// Records have UUIDs in lower case, but Ironic keeps a node's as it was enrolled, often in
// upper case as firmware writes it, and not every database compares without case. So a
// node that is not found is asked for in upper case, too.
func (l *line) do(ctx context.Context, k call) ([]byte, error) {
	raw, err := l.persist(ctx, k)
	upper := strings.ToUpper(k.node)
	if upper == k.node || !IsUUID(k.node) || !errors.Is(err, ErrNoNode) {
		return raw, err
	}
	k.path = strings.Replace(k.path, k.node, upper, 1)
	if raw, other := l.persist(ctx, k); !errors.Is(other, ErrNoNode) {
		return raw, other
	}
	return nil, err
}

// persist carries out a call and tries again what may get better with time.
func (l *line) persist(ctx context.Context, k call) ([]byte, error) {
	var raw []byte
	var last *Error
	var refused error // by what was read before a further try
	err := pace.Retry{
		Pause: l.interval, Tries: l.retries + 1, Random: l.random,
		Log: l.log, Level: slog.LevelDebug, Call: "call Ironic: " + k.name(),
	}.Do(ctx, func(ctx context.Context, n int) (again bool, err error) {
		if n > 1 && k.method != http.MethodGet {
			if refused = reread(ctx); refused != nil {
				return false, refused
			}
		}
		if raw, last = l.try(ctx, k); last == nil {
			return false, nil
		}
		again = !errors.Is(last, ErrNotAllowed) && !k.means(last) && k.passing(last)
		if again && n > max(1, l.retries) && last.Status == 0 {
			last.Message += fmt.Sprintf(" (%d tries)", n)
		}
		return again, last
	})
	if last != nil && Unjudged(last) {
		l.doubted.Store(true)
	}
	var over *pace.EndedError
	switch {
	case err == nil:
		return raw, nil
	case refused != nil:
		return nil, refused
	case errors.As(err, &over):
		return nil, ended(over.Cause, k.name(), last)
	}
	return nil, last
}

// means puts the meaning of the answer, if it has one, into the error. A proxy's page means nothing,
// which words there are on it.
func (k call) means(err *Error) bool {
	if err.Status == http.StatusNotFound && !err.Own {
		return false
	}
	for _, m := range k.meanings {
		if err.Status == m.status && strings.Contains(err.Message, m.part) {
			err.Err = m.err
			return true
		}
	}
	return false
}

// passing reports whether a failure may be over soon.
func (k call) passing(err *Error) bool {
	if k.once && Unknown(err) {
		return false
	}
	passing := []int{0, http.StatusConflict, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}
	return slices.Contains(passing, err.Status) || failedInside(err)
}

// within bounds ctx, and says so in words where it ends a call.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, tooLate(limit))
}

// tooLate is what ends a try that took longer.
type tooLate time.Duration

// Error implements error.
func (d tooLate) Error() string { return fmt.Sprintf("nothing came within %v", time.Duration(d)) }

// try sends a call once; a second time after logging in again if Ironic does
// not know the session any more.
func (l *line) try(ctx context.Context, k call) ([]byte, *Error) {
	bounded, cancel := within(ctx, l.timeout)
	defer cancel()
	raw, err := l.inSession(bounded, k)
	if err == nil {
		return raw, nil
	}
	e := describe("Ironic", l.login, k.name(), err)
	if failedInside(e) {
		e.NoBMC = !k.bmc
	}
	if ctx.Err() == nil && errors.Is(e.Err, context.DeadlineExceeded) {
		sent := !errors.Is(e, ErrNotSent)
		e.Err = tooLate(l.timeout) // the caller's context has not ended, and must not seem to
		if !sent {
			e.Err = unsent{e.Err}
		}
	}
	return nil, e
}
