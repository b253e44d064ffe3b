package lease

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	api "github.com/trivet-ha/trivet/client"
	"github.com/trivet-ha/trivet/internal/pace"
)

// Parts of a ttl, and bounds.
const (
	maxTTL    = 24 * time.Hour
	renewals  = 3  // in a ttl: each third it is renewed, the last third is the margin
	retries   = 8  // in a ttl: of a grant that this holder has from before
	leads     = 24 // in a ttl: a server that is silent for one is joined by the next
	pauses    = 24 // in a ttl: what lies between two rounds of servers that did not answer
	maxTry    = 10 * time.Second
	maxLead   = time.Second
	maxPause  = time.Second
	maxWait   = 10 * time.Second       // at one server, for a lease that another holds
	leastRest = 250 * time.Millisecond // between refusals that no server waited with
)

// Options say which lease to hold, and as whom. API.Servers, Name, Holder and TTL are
// needed.
type Options struct {
	// API names the peers to ask, any or all of the cluster's, with credentials and
	// TLS. Its Once is set.
	API api.Options
	// Name of the lease, and who holds it: at most 256 bytes that no other program
	// calls itself.
	Name, Holder string
	// TTL is how long the lease lasts unless it is renewed: up to a day, and at least
	// what the peers' raft.timing asks for, 4.5 s with normal.
	TTL time.Duration
	// Margin is how long before its end the lease counts as over here. It must cover
	// what clocks differ in over a ttl, and the time that the program needs to stop.
	// A tenth to a half of the TTL; 0: a third.
	Margin time.Duration
	// Metadata is a text that is kept with the lease.
	Metadata string
	// Takeover has a new token although this holder has the lease already, and so
	// fences a predecessor of the same name that may still be at work. Without it the
	// predecessor's time must be over first.
	Takeover bool
	// NoWait has Acquire return when another holds the lease, instead of waiting.
	NoWait bool
	// OnRenewed receives each deadline, the first one before Acquire returns, then each
	// later one, by one goroutine at a time and in order, and none after Release. It must
	// not block, nor call Release, which waits for it. It may be nil.
	OnRenewed func(deadline time.Duration)
	// OnRefused is called by Acquire each time that another has the lease and it
	// waits. It may be nil.
	OnRefused func(refusal error)
	// Now is the clock that deadlines are told on; nil: Boottime. It must go on while
	// the machine sleeps.
	Now func() time.Duration
}

// Client acquires one lease, again if need be. It may be used concurrently.
type Client struct {
	o       Options
	servers []lender
	current atomic.Int32 // the server asked first: the one that answered last
}

// lender is one server.
type lender interface {
	AcquireLease(ctx context.Context, name string, l api.LeaseRequest) (api.Lease, error)
	RenewLease(ctx context.Context, name, holder, token string) (api.Lease, error)
	ReleaseLease(ctx context.Context, name, holder, token string) error
}

// New returns a client. It sends nothing yet; the error is about the options.
func New(o Options) (*Client, error) {
	if o.Margin == 0 {
		o.Margin = o.TTL / renewals
	}
	if o.Now == nil {
		o.Now = Boottime
	}
	switch {
	case o.Name == "":
		return nil, errors.New("no lease is named: set Name")
	case o.Holder == "":
		return nil, errors.New("lease holder is empty: set Holder, for example to the host name")
	case o.TTL <= 0 || o.TTL > maxTTL:
		return nil, fmt.Errorf("a lease lasts at most %v: the TTL is %v", maxTTL, o.TTL)
	case o.Margin < o.TTL/10 || o.Margin > o.TTL/2:
		return nil, fmt.Errorf("a margin is %v to %v, a tenth to a half of the ttl: the Margin is %v", o.TTL/10, o.TTL/2,
			o.Margin)
	}
	c := &Client{o: o}
	each := o.API
	each.Once = true
	for _, server := range o.API.Servers {
		each.Servers = []string{server}
		s, err := api.New(each)
		if err != nil {
			return nil, err
		}
		c.servers = append(c.servers, s)
	}
	if len(c.servers) == 0 {
		return nil, errors.New("no server is named")
	}
	return c, nil
}

// Acquire waits until the lease is this holder's, for as long as ctx lasts; ctx does
// not bound the time that it is held. Servers that do not answer are asked again, by
// the same request, so that a lost answer costs nothing. The error is the last thing
// that was heard: an *api.Error of status 409 says who holds the lease, one of 507 that
// there is no room for another, an *api.NoAnswerError that no server answered.
//
// A caller that ends the wait may leave behind a grant whose answer was on its way:
// it ends by itself after its ttl.
func (c *Client) Acquire(ctx context.Context) (*Held, error) {
	var held error // who was in the way
	var late *pace.EndedError
	var wait time.Duration // at a server; at first none, so that a dead one does not delay what is free
	for first := true; ; first = false {
		if !first {
			wait = c.wait(ctx)
		}
		began := c.o.Now()
		h, err := c.acquire(ctx, wait)
		switch {
		case err == nil:
			return h, nil
		case held != nil && (ctx.Err() != nil || errors.As(err, &late)):
			return nil, held // no server answered only because there was no time
		case api.HasStatus(err, http.StatusGone): // it was granted, and is over: ask again
		case api.HasStatus(err, http.StatusConflict) && !c.o.NoWait:
			held = err
			if c.o.OnRefused != nil {
				c.o.OnRefused(err)
			}
		default:
			return nil, err
		}
		// A server waits for another's lease, but does not when this holder has it, of
		// an earlier acquisition.
		rest := min(wait, c.o.TTL/retries) - (c.o.Now() - began)
		if !first && wait < leastRest {
			rest = leastRest
		}
		if !pace.Wait(ctx, rest) {
			return nil, err
		}
	}
}

// wait is how long a server shall wait for a lease that another holds: not so long
// that the refusal would come after the caller's own limit.
func (c *Client) wait(ctx context.Context) time.Duration {
	most := min(maxWait, c.o.TTL)
	if end, bounded := ctx.Deadline(); bounded {
		most = min(most, time.Until(end)-lead(c.o.TTL))
	}
	return max(0, most.Truncate(time.Millisecond))
}

// acquire asks for a grant until there is a definite answer, and makes a lease of it.
func (c *Client) acquire(ctx context.Context, wait time.Duration) (*Held, error) {
	request := api.LeaseRequest{Holder: c.o.Holder, TTL: c.o.TTL, Metadata: c.o.Metadata, Takeover: c.o.Takeover,
		Wait: wait, Request: uuid.NewString()}
	ask := func(ctx context.Context, s lender) (api.Lease, error) { return s.AcquireLease(ctx, c.o.Name, request) }
	began := c.o.Now()
	g, err := c.insist(ctx, wait, again, ask)
	if err != nil {
		return nil, err
	}
	// Whichever try was answered, the first may have been granted; what is left of it then
	// is told in cluster time, which may lag.
	g.sent = began
	number, err := strconv.ParseUint(g.lease.Token, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("token %q: the server gives no decimal number: %w", g.lease.Token, err)
	}
	h := &Held{client: c, token: g.lease.Token, number: number, quiet: make(chan struct{}), deadline: c.deadline(g)}
	// One whose answer was long on its way, as after a wait for another, is renewed first: its time counts
	// from before it was asked for.
	for c.o.Now() >= h.due() {
		g, err := c.insist(ctx, 0, again, c.renewal(h.token))
		if err != nil {
			return nil, err
		}
		h.deadline = c.deadline(g)
	}
	h.start()
	return h, nil
}

// insist asks until there is an answer after which it may not ask again.
func (c *Client) insist(
	ctx context.Context, wait time.Duration, again func(error) bool, q question,
) (g granted, err error) {
	retry := pace.Retry{Pause: pause(c.o.TTL), Random: c.o.API.Random}
	err = retry.Do(ctx, func(ctx context.Context, _ int) (bool, error) {
		g, err = c.ask(ctx, wait, q)
		return again(err), err
	})
	return g, err
}

// deadline is when a grant counts as over here.
func (c *Client) deadline(g granted) time.Duration {
	left := min(c.o.TTL, time.Duration(g.lease.Remaining)*time.Millisecond)
	return g.sent + left - c.o.Margin
}

func try(ttl time.Duration) time.Duration   { return min(ttl, maxTry) }
func lead(ttl time.Duration) time.Duration  { return min(ttl/leads, maxLead) }
func pause(ttl time.Duration) time.Duration { return min(ttl/pauses, maxPause) }
