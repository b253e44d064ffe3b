package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"
)

// Lease is a grant as a server tells of it.
type Lease struct {
	Name     string `json:"name"`
	Holder   string `json:"holder"` // "": it is free
	Token    string `json:"token"`  // decimal, of the newest grant
	TTL      int64  `json:"ttl_ms"`
	Metadata string `json:"metadata"`
	// Remaining is what is left of it in ms, at most: count from before you asked.
	Remaining int64 `json:"remaining_ms"`
}

// LeaseRequest is a request for a lease.
type LeaseRequest struct {
	Holder   string
	TTL      time.Duration
	Metadata string
	Takeover bool          // have a new token although this holder has the lease
	Wait     time.Duration // for a lease that another holds; at most 30 s
	// Request is this acquisition's own ID: the same again is the same grant. "":
	// the client makes one, so that a lost answer costs nothing.
	Request string
}

// maxLeaseWait is the longest that a server waits for a lease.
const maxLeaseWait = 30 * time.Second

// Leases lists the leases by name, free ones too. It reads page after page: a lease that
// is made meanwhile may be missed.
func (c *Client) Leases(ctx context.Context) (all []Lease, err error) {
	type answer struct {
		Leases []Lease `json:"leases"`
		More   bool    `json:"more"`
	}
	var query url.Values
	for range maxPages {
		page, err := asked(ctx, c.endpoints, c.reading(query, "leases"),
			func(a answer) bool { return a.Leases != nil && !(a.More && len(a.Leases) == 0) })
		if err != nil {
			return nil, err
		}
		all = append(all, page.Leases...)
		if !page.More {
			return all, nil
		}
		query = url.Values{"marker": {all[len(all)-1].Name}}
	}
	return nil, fmt.Errorf("the list of leases has more than %d pages", maxPages)
}

// Lease reads one lease.
func (c *Client) Lease(ctx context.Context, name string) (Lease, error) {
	return asked(ctx, c.endpoints, c.reading(nil, "leases", name), isLease)
}

func isLease(l Lease) bool { return l.Name != "" && l.Token != "" }

// AcquireLease acquires a lease. That another holds it is an *Error of status 409
// whose message says who.
func (c *Client) AcquireLease(ctx context.Context, name string, l LeaseRequest) (Lease, error) {
	if l.Request == "" {
		l.Request = uuid.NewString()
	}
	r, err := repeatable("the request", map[string]any{ // its request_id makes repeats one
		"holder": l.Holder, "ttl_ms": l.TTL.Milliseconds(), "metadata": l.Metadata, "takeover": l.Takeover,
		"wait_ms": l.Wait.Milliseconds(), "request_id": l.Request,
	}, http.MethodPut, "leases", name)
	if err != nil {
		return Lease{}, err
	}
	r.try += min(max(l.Wait, 0), maxLeaseWait)
	return asked(ctx, c.endpoints, r, isLease)
}

// RenewLease has a lease for its whole time again. Status 410: it is over; 409:
// another grant holds it.
func (c *Client) RenewLease(ctx context.Context, name, holder, token string) (Lease, error) {
	r, err := shown(http.MethodPost, holder, token, "leases", name, "renew")
	if err != nil {
		return Lease{}, err
	}
	return asked(ctx, c.endpoints, r, isLease)
}

// ReleaseLease ends a grant. The same again is a success.
func (c *Client) ReleaseLease(ctx context.Context, name, holder, token string) error {
	r, err := shown(http.MethodDelete, holder, token, "leases", name)
	if err != nil {
		return err
	}
	_, err = c.ask(ctx, r)
	return err
}

// ForgetLease removes the record of a free lease.
func (c *Client) ForgetLease(ctx context.Context, name string) error {
	r := acting(http.MethodDelete, "leases", name)
	r.query = url.Values{"record": {"1"}}
	_, err := c.ask(ctx, r)
	return err
}

// shown is a question of who has a lease. It may be repeated: a renewal twice is a
// renewal, and of a release the second finds nothing to do.
func shown(method, holder, token string, path ...string) (request, error) {
	return repeatable("the request", map[string]string{"holder": holder, "token": token}, method, path...)
}
