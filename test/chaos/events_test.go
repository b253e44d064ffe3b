//go:build e2e

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/trivet-ha/trivet/client"
	"github.com/trivet-ha/trivet/test/testwait"
)

// follower is a client that follows the events at one peer, and goes on at another after
// an answer that it lost, and now and then without one.
type follower struct {
	*clients
	rng  *rand.Rand
	last string   // position
	seen []string // IDs
	// forgets is for one that does not judge: it remembers nothing and forgives resets.
	forgets bool
}

// page takes the next events, and waits for the first.
func (f *follower) page(wait time.Duration) (n int, err error) {
	query := url.Values{"after": {f.last}, "limit": {fmt.Sprint(1 + f.rng.IntN(50))}}
	if wait > 0 {
		query.Set("wait", wait.String())
	}
	f.operations.Add(1)
	reply, err := f.ask(f.rng, nil, request{method: http.MethodGet, path: "/v1/events?" + query.Encode()})
	if err != nil {
		return 0, err
	}
	var page client.EventPage
	if err := json.Unmarshal(reply.Body, &page); err != nil || reply.Status != http.StatusOK {
		f.t.Errorf("events after %s: answered %d %s (%v)", f.last, reply.Status, reply.Body, err)
		return 0, fmt.Errorf("answered %d", reply.Status)
	}
	f.last = page.Last
	if f.forgets {
		return len(page.Events), nil
	}
	if page.Reset != nil {
		f.t.Errorf("events after %s: reset to %s: %s", f.last, page.Reset.First, page.Reset.Reason)
	}
	for _, e := range page.Events {
		f.seen = append(f.seen, e.ID)
	}
	return len(page.Events), nil
}

func (f *follower) run(ctx context.Context) {
	for ctx.Err() == nil {
		if _, err := f.page(time.Duration(f.rng.IntN(2000)) * time.Millisecond); err != nil {
			testwait.Rest(ctx, 50*time.Millisecond)
		}
	}
}

// drain takes what there is.
func (f *follower) drain() {
	testwait.Within(f.t, settleLimit, "the newest events", func() error {
		n, err := f.page(0)
		if err == nil && n > 0 {
			err = fmt.Errorf("%d more", n)
		}
		return err
	})
}
