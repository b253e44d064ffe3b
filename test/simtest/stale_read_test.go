package simtest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/leases"
	"github.com/trivet-ha/trivet/lease"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/test/history"
)

// TestStaleReadsTellTheirAge: what a peer answers from its own state is no older than it
// says, also while its disk hangs, right after it was stopped, while it is cut off in one
// direction or both, and after it has begun again without anybody.
func TestStaleReadsTellTheirAge(t *testing.T) {
	t.Parallel()
	const faults = 15
	for seed := range uint64(countFrom(t, "TRIVET_SIM_STALE", 3)) {
		s := &staleReads{}
		Simulate(t, 3, 9000+seed, func(c *Cluster) {
			c.settle(0)
			ctx, stop := context.WithCancel(context.Background())
			var done sync.WaitGroup
			done.Go(func() { s.write(ctx, c) })
			done.Go(func() { s.read(ctx, c) })
			for n := range faults {
				c.ageing(n, c.Peers[c.rng.IntN(len(c.Peers))])
			}
			stop()
			done.Wait()
		})
		for _, broken := range history.Stale(s.written.Ops(), s.seen, 0) {
			t.Errorf("stale-read: seed %d: %s", seed, broken)
		}
		old := 0
		for _, r := range s.seen {
			if r.Age > int64(5*time.Second) {
				old++
			}
		}
		t.Logf("seed %d: %d writes, %d stale reads, %d of which said that they may be old, %d that nothing bounds it", seed,
			len(s.written.Ops()), len(s.seen), old, s.unbounded)
		if old < faults || old > len(s.seen)/2 || s.unbounded == 0 {
			t.Errorf("seed %d: this is no test", seed)
		}
	}
}

// ageing hurts a peer for a while in one of the ways in which its state gets old.
func (c *Cluster) ageing(n int, p *Peer) {
	time.Sleep(2 * time.Second) // in a bubble
	long := time.Duration(1000+c.rng.IntN(20_000)) * time.Millisecond
	switch n % 5 {
	case 0:
		p.Pause()
		time.Sleep(long) // in a bubble
		p.Resume()
	case 1:
		p.Disk.Hang()
		time.Sleep(long) // in a bubble
		p.Disk.Thaw()
	case 2:
		c.Net.Isolate(p.Name)
		time.Sleep(long) // in a bubble
	case 3:
		c.Net.IsolateInbound(p.Name)
		time.Sleep(long) // in a bubble
	default:
		c.Net.Isolate(p.Name)
		c.must(p.Kill())
		c.must(p.Start())
		time.Sleep(long) // in a bubble
	}
	time.Sleep(100 * time.Millisecond) // what it has not heard yet, it is asked for now
	c.Net.HealAll()
	c.settle(0)
}

// staleReads is what a writer and a reader of one value saw.
type staleReads struct {
	written   history.History
	seen      []history.StaleRead
	unbounded int // reads of any age
}

const staleKey = "stale"

// write replaces the value through any peer, again and again.
func (s *staleReads) write(ctx context.Context, c *Cluster) {
	version := fencing.Token(0)
	for n := 0; rest(ctx, 100*time.Millisecond); n++ {
		core := c.Peers[c.rng.IntN(len(c.Peers))].Core()
		if core == nil {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, 2*time.Second)
		in := history.ValueCall{Verb: history.Write, Key: staleKey, Version: version, Data: fmt.Sprint(n)}
		call := time.Now().UnixNano()
		next, err := core.Lending.Put(limited, staleKey, []byte(in.Data), leases.Condition{Compare: true, Version: version},
			in.Data)
		out := history.ValueTold{Said: history.Unknown}
		if err == nil {
			out, version = history.ValueTold{Said: history.Yes, Version: next}, next
		} else if v, err := core.Lending.Value(limited, staleKey, lease.Linearizable); err == nil {
			version = v.Version
		}
		s.written.Add(0, in, out, call, time.Now().UnixNano())
		cancel()
	}
}

// read asks each peer that runs for its own state, every tenth of a second.
func (s *staleReads) read(ctx context.Context, c *Cluster) {
	for rest(ctx, 100*time.Millisecond) {
		for _, p := range c.Peers {
			core := p.Core()
			if core == nil || p.paused() {
				continue
			}
			r := history.StaleRead{Key: staleKey, Peer: p.Name, Called: time.Now().UnixNano()}
			age, known := raftstore.Age(ctx, core.Store)
			if !known {
				s.unbounded++
				continue
			}
			v, err := core.Lending.Value(ctx, staleKey, lease.Stale)
			if err != nil || p.paused() {
				continue // there is none yet
			}
			r.Version, r.Data, r.Age, r.Returned = v.Version, string(v.Data), int64(age), time.Now().UnixNano()
			s.seen = append(s.seen, r)
		}
	}
}
