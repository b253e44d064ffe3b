package app

import (
	"context"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/app/admin"
)

// askLimit bounds the wait for what another peer says of itself, unless the
// caller does.
const askLimit = 2 * time.Second

// Ask implements admin.Others.
func (p *Peer) Ask(ctx context.Context, path string) []admin.Answer {
	if _, bounded := ctx.Deadline(); !bounded {
		limited, cancel := context.WithTimeout(ctx, askLimit)
		defer cancel()
		ctx = limited
	}
	others := p.others(p.core.Store.View())
	out := make([]admin.Answer, len(others)) // a cluster has few members
	var asked sync.WaitGroup
	for i, m := range others {
		asked.Go(func() {
			body, err := p.forward.Ask(ctx, m, path)
			out[i] = admin.Answer{Name: m.Name, ID: m.ID, Body: body, Err: err}
		})
	}
	asked.Wait()
	return out
}
