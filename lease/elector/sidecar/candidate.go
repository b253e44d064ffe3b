package sidecar

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	api "github.com/trivet-ha/trivet/client"
	"github.com/trivet-ha/trivet/client/lease"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/internal/logs"
	"github.com/trivet-ha/trivet/internal/pace"
	"github.com/trivet-ha/trivet/lease/elector"
)

// Acquirer waits for the lease until it is ours.
type Acquirer interface {
	Acquire(ctx context.Context) (*lease.Held, error)
}

// Reader reads a lease, also one that is another's.
type Reader interface {
	Lease(ctx context.Context, name string) (api.Lease, error)
}

// Parts of a ttl.
const (
	retries = 4 // in a ttl: how often it is looked who leads, as leader-elector retried
	others  = 2 // in a ttl: how long another is named without being looked at again
)

// Options are the parts of a Candidate.
type Options struct {
	ID       string // whom to name when the lease is ours
	Lease    string
	TTL      time.Duration // as the Acquirer's
	Acquirer Acquirer
	Reader   Reader
	Now      elector.Clock // the Acquirer's
	Logger   *slog.Logger
}

// Candidate stands for election until its Run ends.
type Candidate struct {
	o       Options
	failing *slog.Logger // of what fails at each try

	mu    sync.Mutex
	held  *lease.Held // nil: not ours, as far as we know
	other elector.Claim
}

// New returns a candidate that names no leader until Run.
func New(o Options) *Candidate { return &Candidate{o: o, failing: logs.Limit(o.Logger)} }

// Claim implements elector.Source.
func (c *Candidate) Claim() elector.Claim {
	c.mu.Lock()
	held, other := c.held, c.other
	c.mu.Unlock()
	if held == nil {
		return other
	}
	return c.own(held)
}

// own is what is said while the lease is ours; held may be nil.
func (c *Candidate) own(held *lease.Held) elector.Claim {
	if held == nil {
		return elector.Claim{}
	}
	until := held.Deadline() // before the look: a deadline only moves on while the lease is held
	if !held.Valid() {
		return elector.Claim{}
	}
	return elector.Claim{Name: c.o.ID, Token: fencing.Token(held.Token()), Asked: until - c.kept(), Until: until}
}

// kept is how long a grant counts from before it was asked for.
func (c *Candidate) kept() time.Duration { return c.o.TTL - c.o.TTL/3 }

// Mine returns the claim if it names us, else the zero Claim.
func (c *Candidate) Mine() elector.Claim {
	c.mu.Lock()
	held := c.held
	c.mu.Unlock()
	return c.own(held)
}

// Run stands until ctx ends, then gives the lease back. It ends before that only when
// the cluster refuses what is asked for before it has granted anything: the error is
// an *api.Error. It is called once.
func (c *Candidate) Run(ctx context.Context) error {
	looking, stop := context.WithCancel(ctx)
	var looks sync.WaitGroup
	looks.Go(func() { c.readHolder(looking) })
	defer looks.Wait()
	defer stop()
	for led := false; ctx.Err() == nil; {
		h, err := c.o.Acquirer.Acquire(ctx)
		switch {
		case err == nil:
			led = true
			c.lead(ctx, h)
			continue
		case ctx.Err() != nil:
		case !led && refusal(err):
			return err
		default:
			c.failing.Warn("acquire lease failed, retrying", "lease", c.o.Lease, "err", err)
		}
		pace.Wait(ctx, c.o.TTL/retries)
	}
	return nil
}

// lead holds the lease until it is lost or ctx ends.
func (c *Candidate) lead(ctx context.Context, h *lease.Held) {
	c.set(h)
	c.o.Logger.Info("lease acquired", "lease", c.o.Lease, "holder", c.o.ID, "token", h.Token())
	select {
	case <-h.Context().Done():
		c.set(nil)
		c.o.Logger.Warn("lease lost", "lease", c.o.Lease, "err", h.Err())
		return
	case <-ctx.Done():
	}
	c.set(nil) // from here on no client reads our name, and then another may have it
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.o.TTL)
	defer cancel()
	if err := h.Release(limited); err != nil {
		c.o.Logger.Warn("release lease failed; it ends with its ttl", "lease", c.o.Lease, "err", err)
	}
}

// set notes whether the lease is ours. What was read of it before is void.
func (c *Candidate) set(h *lease.Held) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held, c.other = h, elector.Claim{}
}

// readHolder reads who holds the lease while we do not.
func (c *Candidate) readHolder(ctx context.Context) {
	for ctx.Err() == nil {
		c.mu.Lock()
		waiting := c.held == nil
		c.mu.Unlock()
		if waiting {
			c.askOnce(ctx)
		}
		pace.Wait(ctx, c.o.TTL/retries)
	}
}

// askOnce asks once. No answer changes nothing: what is known is over by itself.
func (c *Candidate) askOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, c.o.TTL/others)
	defer cancel()
	asked := c.o.Now()
	l, err := c.o.Reader.Lease(ctx, c.o.Lease)
	if err != nil && !api.HasStatus(err, http.StatusNotFound) {
		c.o.Logger.Debug("read lease failed", "lease", c.o.Lease, "err", err)
		return
	}
	var claim elector.Claim
	if token, wrong := strconv.ParseUint(l.Token, 10, 64); err == nil && wrong == nil && l.Holder != c.o.ID {
		remaining := time.Duration(l.Remaining) * time.Millisecond
		claim = elector.Claim{Name: l.Holder, Token: fencing.Token(token), Asked: asked,
			Until: asked + min(remaining, c.o.TTL/others)}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == nil {
		c.other = claim
	}
}

// refusal reports whether a server said no to what we ask, or to who we are.
func refusal(err error) bool {
	var no *api.Error
	return errors.As(err, &no) &&
		slices.Contains([]int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound},
			no.Status)
}
