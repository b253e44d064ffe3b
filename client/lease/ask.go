package lease

import (
	"context"
	"errors"
	"net/http"
	"time"

	api "github.com/trivet-ha/trivet/client"
)

// question is put to one server.
type question func(ctx context.Context, s lender) (api.Lease, error)

// granted is an answer, and when its request was sent, or a little earlier, on the
// lease's clock.
type granted struct {
	lease api.Lease
	sent  time.Duration
}

// reply is what one server said.
type reply struct {
	granted
	err    error
	server int
}

// ask puts a question to the servers in turn, first to the one that answered last. One
// that stays silent for longer than it was to wait is not given up: the next is asked
// in parallel, so that a dead peer costs a small part of a ttl, a slow one nothing,
// and one that comes back is asked again. All questions here may be repeated. The
// first definite answer counts. When all servers failed and no question is under way,
// the error is their refusal, or an *api.NoAnswerError.
func (c *Client) ask(ctx context.Context, wait time.Duration, q question) (granted, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	replies, done := make(chan reply), make(chan struct{})
	defer close(done) // late answers are dropped
	next := time.NewTimer(0)
	defer next.Stop()
	n, first := len(c.servers), int(c.current.Load())
	misses := make([]error, n)
	for asked, open := 0, 0; ; {
		select {
		case <-next.C:
			server := (first + asked) % n
			go func() {
				asking, cancel := context.WithTimeout(ctx, wait+try(c.o.TTL))
				defer cancel()
				r := reply{server: server}
				r.sent = c.o.Now()
				r.lease, r.err = q(asking, c.servers[server])
				select {
				case replies <- r:
				case <-done:
				}
			}()
			asked, open = asked+1, open+1
			next.Reset(wait + lead(c.o.TTL))
		case r := <-replies:
			if r.err == nil || definite(r.err) || full(r.err) {
				c.current.Store(int32(r.server))
				return r.granted, r.err
			}
			c.current.CompareAndSwap(int32(r.server), int32((r.server+1)%n))
			misses[r.server] = r.err
			switch open--; {
			case asked < n:
				next.Reset(0)
			case open == 0:
				return granted{}, silence(misses, c.o.API.Servers)
			}
		}
	}
}

// renewal asks for the whole ttl again.
func (c *Client) renewal(token string) question {
	return func(ctx context.Context, s lender) (api.Lease, error) {
		return s.RenewLease(ctx, c.o.Name, c.o.Holder, token)
	}
}

// definite reports whether err is what the cluster says of the lease: that another
// has it, or that it is over. Other refusals are one peer's, whose leases may not be
// switched on or whose users are others.
func definite(err error) bool {
	return api.HasStatus(err, http.StatusConflict) || api.HasStatus(err, http.StatusGone)
}

// full reports whether err is that the cluster has no room for what was asked: no other
// server has any. It says nothing of a lease that is held.
func full(err error) bool { return api.HasStatus(err, http.StatusInsufficientStorage) }

// again reports whether the same servers may answer a little later.
func again(err error) bool {
	var none *api.NoAnswerError
	return errors.As(err, &none) && !none.Hopeless()
}

// silence makes one error of those of all servers: a refusal if all refused, and else
// one that says that no server answered, for a silent server may have done it.
func silence(misses []error, servers []string) error {
	all := api.NoAnswerError{Changes: true}
	refused := 0
	for i, err := range misses {
		var none *api.NoAnswerError
		if errors.As(err, &none) {
			all.Misses = append(all.Misses, none.Misses...)
			continue
		}
		refused++
		all.Misses = append(all.Misses, &api.Miss{Server: servers[i], Err: err})
	}
	if refused == len(misses) {
		return misses[0]
	}
	return &all
}
