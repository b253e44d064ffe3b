package simtest

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/settings"
	"github.com/trivet-ha/trivet/test/history"
)

// Clients that write and read one setting through any peer, while leaders are
// lost, see a history that one register could have given.
func TestHistoryIsLinearizable(t *testing.T) {
	t.Parallel()
	const clients, losses = 5, 24
	for seed := range uint64(3) {
		var h history.History
		Simulate(t, 3, 40+seed, func(c *Cluster) {
			c.settle(0)
			ctx, stop := context.WithCancel(context.Background())
			var done sync.WaitGroup
			for i := range clients {
				done.Go(func() { c.client(ctx, i, &h) })
			}
			ways := Losses()
			for i := range losses {
				c.Lose(ways[i%len(ways)])
			}
			stop()
			done.Wait()
		})
		result, steps := history.Linearized(history.Register(), history.SettledWrites(h.Ops()))
		if result != porcupine.Ok {
			t.Errorf("linearizable: seed %d: a history of %d operations is %v after %d steps of the search", seed, len(h.Ops()),
				result, steps)
		}
		t.Logf("%d operations, judged in %d steps", len(h.Ops()), steps)
	}
}

// client writes and reads the register, in turn, through random peers.
func (c *Cluster) client(ctx context.Context, id int, h *history.History) {
	for n := 0; ctx.Err() == nil; n++ {
		if core := c.Peers[c.rng.IntN(len(c.Peers))].Core(); core != nil {
			limited, cancel := context.WithTimeout(context.Background(), 3*time.Second) // in a bubble
			call := time.Now().UnixNano()
			if n%2 == 0 {
				in := history.Access{Write: true, Value: fmt.Sprintf("%d-%d", id, n)}
				res, err := core.Session.Do(limited, "", settings.PutSetting{Key: "register", Value: in.Value})
				end := time.Now().UnixNano()
				if err != nil || res.Code != fsm.OK {
					end = math.MaxInt64
				}
				h.Add(id, in, history.Access{}, call, end)
			} else if v, err := core.Store.Read(limited); err == nil {
				s, _ := v.Setting("register")
				h.Add(id, history.Access{}, history.Access{Value: s.Value}, call, time.Now().UnixNano())
			}
			cancel()
		}
		select {
		case <-time.After(time.Duration(100+c.rng.IntN(200)) * time.Millisecond): // in a bubble
		case <-ctx.Done():
		}
	}
}
