package lease_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"time"

	api "github.com/trivet-ha/trivet/client"
	"github.com/trivet-ha/trivet/client/lease"
	"github.com/trivet-ha/trivet/test/lender"
)

func Example() {
	peer := httptest.NewServer(lender.New()) // in the place of three peers
	defer peer.Close()

	c, err := lease.New(lease.Options{
		API:  api.Options{Servers: []string{peer.URL}},
		Name: "backup", Holder: "host-7", TTL: 15 * time.Second,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	held, err := c.Acquire(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	work := func(ctx context.Context) error {
		// Look before each step, and send the token with whatever it changes.
		fmt.Printf("Fencing-Token: backup:%d\n", held.Token())
		return ctx.Err()
	}
	if err := work(held.Context()); err != nil {
		fmt.Println(err) // what was done under the lease has ended: only then release it
	}
	if err := held.Release(context.Background()); err != nil {
		fmt.Println(err)
	}
	fmt.Println(held.Err())
	// Output:
	// Fencing-Token: backup:107
	// the lease was released
}
