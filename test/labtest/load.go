//go:build e2e

package labtest

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/testwait"
)

// keysPerWriter bounds the settings that a load writes.
const keysPerWriter = 20

// repeated calls do once in each period until end is called or the test ends, whichever is
// first.
func repeated(t testing.TB, period time.Duration, do func()) (end func()) {
	stop := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		tick := time.NewTicker(period)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				do()
			case <-stop:
				return
			}
		}
	})
	end = sync.OnceFunc(func() {
		close(stop)
		work.Wait()
	})
	t.Cleanup(end)
	return end
}

// Load is clients that write numbers, each its own keys in ascending order, and
// remember what was acknowledged.
type Load struct {
	t       testing.TB
	stop    chan struct{}
	done    sync.WaitGroup
	acked   atomic.Int64
	refused atomic.Int64
	newest  atomic.Int64 // when the newest write was acknowledged, Unix ns
	worst   atomic.Int64 // longest time without one, ns
	writers []*writer
}

// writer is one client. Its maps belong to its goroutine until Stop.
type writer struct {
	name      string
	acked     map[string]int // greatest number acknowledged, by key
	attempted map[string]int
}

// Write starts n clients, spread over the peers that run now.
func (l *Lab) Write(n int) *Load {
	load := &Load{t: l.t, stop: make(chan struct{})}
	load.newest.Store(time.Now().UnixNano())
	peers := l.Running()
	for i := range n {
		w := &writer{name: fmt.Sprintf("w%d", i), acked: make(map[string]int), attempted: make(map[string]int)}
		load.writers = append(load.writers, w)
		load.done.Go(func() { load.run(w, peers, i) })
	}
	l.t.Cleanup(load.Stop)
	return load
}

// run writes through one peer until it fails, then through the next.
func (load *Load) run(w *writer, peers []*Peer, at int) {
	for n := 1; ; n++ {
		select {
		case <-load.stop:
			return
		default:
		}
		key := fmt.Sprintf("%s.k%d", w.name, n%keysPerWriter)
		w.attempted[key] = n
		if err := peers[at%len(peers)].Put(key, strconv.Itoa(n)); err != nil {
			load.refused.Add(1)
			at++
			if !testwait.Quiet(pollEvery, load.stop) {
				return
			}
			continue // a dead peer refuses at once: the pause keeps the writers from spinning
		}
		w.acked[key] = n
		load.acknowledged()
	}
}

func (load *Load) acknowledged() {
	load.acked.Add(1)
	now := time.Now().UnixNano()
	gap := now - load.newest.Swap(now)
	for {
		worst := load.worst.Load()
		if gap <= worst || load.worst.CompareAndSwap(worst, gap) {
			return
		}
	}
}

// Acked returns how many writes were acknowledged so far.
func (load *Load) Acked() int64 { return load.acked.Load() }

// WorstGap returns the longest time in which none was.
func (load *Load) WorstGap() time.Duration { return time.Duration(load.worst.Load()) }

// Stop ends the clients. It may be called twice, by the test's goroutine.
func (load *Load) Stop() {
	select {
	case <-load.stop:
	default:
		close(load.stop)
	}
	load.done.Wait()
}

// Verify stops the clients and reads everything back: a key holds the greatest
// number acknowledged for it, or a later one whose answer was lost.
func (load *Load) Verify(from *Peer) {
	load.t.Helper()
	load.Stop()
	for _, w := range load.writers {
		for key, acked := range w.acked {
			var text string
			err := again(func() (err error) { // a busy machine may be electing
				text, err = from.Get(key)
				return err
			})
			if err != nil {
				load.t.Errorf("%s: %d was acknowledged, reading it from %s: %v", key, acked, from.Name, err)
				continue
			}
			if got, err := strconv.Atoi(text); err != nil || got < acked || got > w.attempted[key] {
				load.t.Errorf("%s: %d was acknowledged, %s has %q", key, acked, from.Name, text)
			}
		}
	}
	load.t.Logf("%d writes acknowledged, %d refused or lost on the way, longest pause %v", load.Acked(),
		load.refused.Load(), load.WorstGap().Round(time.Millisecond))
}
