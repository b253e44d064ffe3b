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
)

// access is one operation on the shared register, as a client saw it.
type access struct {
	write bool
	value string // written, or read
}

// register is a single value; what was read must be what was last written.
var register = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		if in := input.(access); in.write {
			return true, in.value
		}
		return output.(access).value == state, state
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%v → %v", in, out) },
}

// history is what several clients saw.
type history struct {
	mu  sync.Mutex
	ops []porcupine.Operation
}

// add notes an operation; one whose end is not known may take effect at any
// time after its call, or never.
func (h *history) add(client int, in, out access, call time.Time, known bool) {
	end := time.Now().UnixNano()
	if !known {
		end = math.MaxInt64
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: in, Call: call.UnixNano(), Output: out,
		Return: end})
}

// Clients that write and read one setting through any peer, while leaders are
// lost, see a history that one register could have given.
func TestHistoryIsLinearizable(t *testing.T) {
	t.Parallel()
	const clients, losses = 5, 24
	for seed := range uint64(3) {
		var h history
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
		result, steps := linearized(register, settledWrites(h.ops))
		if result != porcupine.Ok {
			t.Errorf("linearizable: seed %d: a history of %d operations is %v after %d steps of the search", seed, len(h.ops),
				result, steps)
		}
		t.Logf("%d operations, judged in %d steps", len(h.ops), steps)
	}
}

// client writes and reads the register, in turn, through random peers.
func (c *Cluster) client(ctx context.Context, id int, h *history) {
	for n := 0; ctx.Err() == nil; n++ {
		if core := c.Peers[c.rng.IntN(len(c.Peers))].Core(); core != nil {
			limited, cancel := context.WithTimeout(context.Background(), 3*time.Second) // in a bubble
			call := time.Now()
			if n%2 == 0 {
				in := access{write: true, value: fmt.Sprintf("%d-%d", id, n)}
				res, err := core.Session.Do(limited, "", settings.PutSetting{Key: "register", Value: in.value})
				h.add(id, in, access{}, call, err == nil && res.Code == fsm.OK)
			} else if v, err := core.Store.Read(limited); err == nil {
				s, _ := v.Setting("register")
				h.add(id, access{}, access{value: s.Value}, call, true)
			}
			cancel()
		}
		select {
		case <-time.After(time.Duration(100+c.rng.IntN(200)) * time.Millisecond): // in a bubble
		case <-ctx.Done():
		}
	}
}
