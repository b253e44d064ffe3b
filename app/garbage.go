package app

import (
	"math"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// How the garbage of a process that runs a peer is collected. A peer's state is
// small and its garbage, request by request, is not: with Go's own 100 a loaded
// leader spends a fifth of its time collecting. But four times a state of 60 MB,
// which is what 10,000 nodes with their data make, would be wasted memory.
const (
	// garbagePercent is how far the heap may grow between two collections.
	garbagePercent = 400
	// garbageMost is added to twice the live heap; from that size on the collector
	// runs earlier.
	garbageMost = 96 << 20
	// garbageLook is the time between two looks at the live heap, which grows
	// meanwhile by what a second of requests brings.
	garbageLook = time.Second
)

// livingHeap is the runtime's metric of what the last collection left, in bytes.
const livingHeap = "/gc/heap/live:bytes"

// BoundGarbage keeps the memory of the process near twice its live heap until stop
// is called; stop waits. The owner of the process calls it, unless GOGC or
// GOMEMLIMIT is set.
func BoundGarbage() (stop func()) {
	debug.SetGCPercent(garbagePercent)
	ended := make(chan struct{}) // closed by stop
	var looking sync.WaitGroup
	looking.Go(func() {
		tick := time.NewTicker(garbageLook)
		defer tick.Stop()
		for limit := int64(math.MaxInt64); ; {
			// A new limit stops the world for a moment, so small changes wait.
			if next := garbageLimit(); next != limit {
				limit = next
				debug.SetMemoryLimit(limit)
			}
			select {
			case <-tick.C:
			case <-ended:
				return
			}
		}
	})
	return sync.OnceFunc(func() {
		close(ended)
		looking.Wait()
	})
}

// garbageLimit returns the memory limit that the live heap asks for, in steps of
// 4 MiB. The live heap is so far below it that the collector never needs more than
// half of the time.
func garbageLimit() int64 {
	const step = 4 << 20
	sample := []metrics.Sample{{Name: livingHeap}}
	metrics.Read(sample)
	living := sample[0].Value.Uint64()
	return int64((2*living + garbageMost + step - 1) / step * step)
}
