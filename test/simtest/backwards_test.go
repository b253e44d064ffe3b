package simtest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/settings"
)

// watchIndex notes whether the state of a peer ever goes back, until ctx ends.
func (p *Peer) watchIndex(ctx context.Context, back *atomic.Pointer[string]) {
	view, changed := p.Core().Store.Changed()
	for at := view.Index(); ; {
		select {
		case <-changed:
			view, changed = p.Core().Store.Changed()
			if now := view.Index(); now < at {
				said := fmt.Sprintf("from %d to %d", at, now)
				back.Store(&said)
			}
			at = view.Index()
		case <-ctx.Done():
			return
		}
	}
}

// A follower that cannot store entries for some minutes, its disk being full, keeps
// the state that it has applied and goes on from there. Raft alone had the leader
// send its oldest snapshot, which the follower installed. The same where the
// follower has compacted its log and holds a newer snapshot than the leader.
func TestFullDiskDoesNotSetAFollowerBack(t *testing.T) {
	t.Parallel()
	for name, compacted := range map[string]bool{"with its log": false, "with a snapshot of its own": true} {
		t.Run(name, func(t *testing.T) {
			Simulate(t, 3, 223, func(c *Cluster) {
				c.settle(0)
				leader := c.AwaitLeader(successionLimit)
				p := c.Others(leader)[0]
				put := func(n int) {
					ctx, cancel := context.WithTimeout(context.Background(), successionLimit)
					defer cancel()
					res, err := leader.Core().Session.Do(ctx, "", settings.PutSetting{Key: "k", Value: fmt.Sprint(n)})
					c.must(errors.Join(err, res.Err()))
				}
				for n := range 30 {
					put(n)
				}
				c.Agree(successionLimit)
				if compacted {
					c.must(p.Core().Store.Snapshot(context.Background()))
				}
				ctx, stop := context.WithCancel(context.Background())
				defer stop()
				var back atomic.Pointer[string]
				go p.watchIndex(ctx, &back)
				p.Disk.Fail(OpLog|OpDelete, syscall.ENOSPC)
				for n := range 60 {
					put(n)
					time.Sleep(5 * time.Second)
				}
				p.Disk.Fail(OpLog|OpDelete, nil)
				c.settle(0)
				c.Agree(successionLimit)
				stop()
				if said := back.Load(); said != nil {
					c.Oracle.broken("applied-goes-back: the state of %s went %s", p.Name, *said)
				}
			})
		})
	}
}
