package lease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	api "github.com/trivet-ha/trivet/client"
	"github.com/trivet-ha/trivet/internal/pace"
)

// Why a lease is held no longer: errors.Is finds one of them in Held.Err and in the
// cause of Held.Context.
var (
	ErrDeadline = errors.New("the lease was not renewed in time")
	ErrLost     = errors.New("the lease is lost")
	ErrReleased = errors.New("the lease was released")
)

// Held is a lease that is renewed until it is released or lost. Its methods may be
// called concurrently.
type Held struct {
	client *Client
	token  string
	number uint64 // token
	ctx    context.Context
	cancel context.CancelCauseFunc
	quiet  chan struct{} // closed when nothing renews, looks or tells any more

	mu       sync.Mutex
	deadline time.Duration
	missed   error // of the last renewal, unless that succeeded
	over     error // why it is held no longer; nil while it is
}

// start begins to renew the lease and to look at the clock. Both end soon after the lease is over;
// Release waits for that.
func (h *Held) start() {
	h.ctx, h.cancel = context.WithCancelCause(context.Background())
	h.tell()
	var working sync.WaitGroup
	working.Go(h.watch)
	working.Go(h.renewUntilOver)
	go func() {
		working.Wait()
		close(h.quiet)
	}()
}

// Token is the fencing token: it rises with every grant, of any lease.
func (h *Held) Token() uint64 { return h.number }

// Annotation is where the writer of a Kubernetes object shows its token. The policy
// that `trivet lease kubernetes-policy` prints has the API server refuse one that is
// lower than the object's.
const Annotation = "trivet.dev/fencing-token"

// Annotations are those that a write of a Kubernetes object under the lease must
// carry: for WithAnnotations of client-go's apply configurations, or a patch. A patch
// without them keeps the annotation of a later holder, and is not refused.
func (h *Held) Annotations() map[string]string { return map[string]string{Annotation: h.token} }

// Annotate shows the token of the lease on an object that is about to be created or
// updated. All objects of client-go have these two methods.
func (h *Held) Annotate(object interface {
	GetAnnotations() map[string]string
	SetAnnotations(annotations map[string]string)
}) {
	all := maps.Clone(object.GetAnnotations())
	if all == nil {
		all = make(map[string]string, 1)
	}
	maps.Copy(all, h.Annotations())
	object.SetAnnotations(all)
}

// Deadline is until when the lease is held unless it is renewed, on Options.Now's
// clock: since boot, by CLOCK_BOOTTIME. It is never earlier than it was.
func (h *Held) Deadline() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.deadline
}

// Err says why the lease is held no longer; nil while it is. It looks at the clock.
func (h *Held) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over == nil && h.client.o.Now() >= h.deadline {
		err := ErrDeadline
		if h.missed != nil {
			err = fmt.Errorf("%w: %w", ErrDeadline, h.missed)
		}
		h.endLocked(err)
	}
	return h.over
}

// Valid reports whether the lease is held at this moment, by the clock.
func (h *Held) Valid() bool { return h.Err() == nil }

// Context ends when the lease is held no longer; its cause is Err's. It is not
// derived from Acquire's.
func (h *Held) Context() context.Context { return lookingContext{h.ctx, h} }

// Done is closed when Context ends.
func (h *Held) Done() <-chan struct{} { return h.ctx.Done() }

// lookingContext is over when its lease is, though no timer said so yet.
type lookingContext struct {
	context.Context
	held *Held
}

// Err implements context.Context.
func (c lookingContext) Err() error {
	c.held.Valid() // ends the context if it is not
	return c.Context.Err()
}

// Release ends the lease before its time: at once for this program, and for the cluster
// as soon as a server answers. Call it when all work under the lease has ended. It asks
// until ctx ends, for a ttl at most; then the lease ends by itself, and the error says
// why no server answered. The same again, and of a lease that is lost, is a success.
// When it has returned before ctx ended and a ttl was over, OnRenewed does not run and
// is not called again. Called by OnRenewed it would wait for itself, until ctx ends or
// for a ttl: have another goroutine call it.
func (h *Held) Release(ctx context.Context) error {
	was := h.endLease(ErrReleased)
	c := h.client
	ctx, cancel := context.WithTimeout(ctx, c.o.TTL)
	defer cancel()
	defer h.waitForCallbacks(ctx)
	if was && errors.Is(h.Err(), ErrLost) {
		return nil
	}
	more := func(err error) bool { return again(err) || full(err) }
	_, err := c.insist(ctx, 0, more, func(ctx context.Context, s lender) (api.Lease, error) {
		return api.Lease{}, s.ReleaseLease(ctx, c.o.Name, c.o.Holder, h.token)
	})
	if err == nil || definite(err) || api.HasStatus(err, http.StatusNotFound) {
		return nil
	}
	return fmt.Errorf("release lease %s, which ends by itself: %w", c.o.Name, err)
}

// waitForCallbacks waits until no callback runs any more. The caller's time bounds it, since the
// caller may be a callback itself.
func (h *Held) waitForCallbacks(ctx context.Context) {
	select {
	case <-h.quiet:
	case <-ctx.Done():
	}
}

// endLease has the lease be over, and returns whether it was already.
func (h *Held) endLease(why error) (was bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over != nil {
		return true
	}
	h.endLocked(why)
	return false
}

func (h *Held) endLocked(why error) {
	h.over = why
	h.cancel(why)
}

// due is when the lease is to be renewed: a third of the ttl after it was asked for.
func (h *Held) due() time.Duration {
	o := h.client.o
	return h.Deadline() + o.Margin - o.TTL + o.TTL/renewals
}

// watch ends the lease at its deadline.
func (h *Held) watch() {
	for h.Valid() {
		left := h.Deadline() - h.client.o.Now()
		pace.Wait(h.ctx, min(left, lookEvery(h.client.o.TTL))) // Valid looks again, also after an early end
	}
}

// renewUntilOver renews the lease until it is over.
func (h *Held) renewUntilOver() {
	o := h.client.o
	for h.Valid() {
		if left := h.due() - o.Now(); left > 0 {
			pace.Wait(h.ctx, min(left, lookEvery(o.TTL)))
			continue
		}
		g, err := h.client.ask(h.ctx, 0, h.client.renewal(h.token))
		switch {
		case err == nil:
			h.extend(g)
		case definite(err):
			h.endLease(fmt.Errorf("%w: %w", ErrLost, err))
		default:
			h.mu.Lock()
			h.missed = err
			h.mu.Unlock()
			pace.Wait(h.ctx, pause(o.TTL))
		}
	}
}

// extend sets the deadline that a renewal gives. One that comes when the lease is
// over revives nothing: the program may have acted on its end.
func (h *Held) extend(g granted) {
	if !h.Valid() {
		return
	}
	h.mu.Lock()
	later := h.over == nil && h.client.deadline(g) > h.deadline
	if later {
		h.deadline, h.missed = h.client.deadline(g), nil
	}
	h.mu.Unlock()
	if later {
		h.tell()
	}
}

func (h *Held) tell() {
	if h.client.o.OnRenewed != nil {
		h.client.o.OnRenewed(h.Deadline())
	}
}
