package node

import (
	"context"
	"errors"
	"sync"

	"github.com/trivet-ha/trivet/client"
)

// callsAtOnce is how many questions are under way together; more of them wait.
const callsAtOnce = 16

// forEach calls do for 0 … n-1, callsAtOnce at a time, and waits for all. Once a do
// fails and no server has answered any of the others meanwhile, forEach ends the
// context of the others with that error as the cause: a thousand nodes do not wait for
// a dead cluster a thousand times.
func forEach(ctx context.Context, web *client.Client, n int, do func(ctx context.Context, i int) error) {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	next := make(chan int) // closed here, when all were handed out
	var working sync.WaitGroup
	for range min(n, callsAtOnce) {
		working.Go(func() {
			for i := range next {
				heard := web.Heard()
				err := do(ctx, i)
				if _, silent := errors.AsType[*client.NoAnswerError](err); silent && web.Heard() == heard {
					giveUp(err)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	working.Wait()
}
