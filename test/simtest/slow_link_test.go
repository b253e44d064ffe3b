package simtest

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/leases"
)

// TestFollowerCatchesUpOverASlowLink: a follower that was away while 15 MB were written
// has them soon over a link of 1 MB/s, on which no request may take more than ten seconds.
func TestFollowerCatchesUpOverASlowLink(t *testing.T) {
	t.Parallel()
	Simulate(t, 3, 77, func(c *Cluster) {
		const entries, size, rate = 240, 64 << 10, 1_000_000
		c.settle(0)
		leader := c.Leader()
		away := c.Others(leader)[0]
		c.Net.Isolate(away.Name)
		for n := range entries {
			_, err := leader.Core().Lending.Put(context.Background(), fmt.Sprintf("slow-%d", n),
				bytes.Repeat([]byte{byte(n)}, size), leases.Condition{Compare: true}, "")
			c.must(err)
		}
		index := leader.Core().Store.View().Index()
		c.Net.SetRate(rate)
		c.Net.HealAll()
		c.Until(4*entries*size/rate*time.Second, "slow-link: the follower has what was written while it was away",
			func() bool { return away.Core().Store.View().Index() >= index })
		c.Net.SetRate(0)
	})
}
