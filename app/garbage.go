package app

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

// How the garbage of a process that runs a peer is collected. Go's own rule, that a
// heap may double, suits neither end: a loaded leader of a few machines spends a
// fifth of its time collecting, and an idle one of 100,000 holds their memory twice.
// So the heap may grow by what it has lately allocated in garbageTime, within bounds.
const (
	garbageTime  = 2 * time.Second
	garbageLeast = 4 << 20
	garbageMost  = 64 << 20
	// A process that has not filled the room it was given in garbageQuiet allocates less
	// than it did, and is given the least.
	garbageQuiet = 2 * garbageTime
	// A heap may always grow by a garbageShare-th: the larger it is, the longer a
	// collection takes.
	garbageShare = 8
	// garbagePercentMost bounds the growth of a heap that has grown since it was measured.
	garbagePercentMost = 400
)

// garbage follows one collection after the other. Its methods run in one goroutine at
// a time: the next collection is looked for at the end of collected.
type garbage struct {
	ended     atomic.Bool
	at        time.Time   // of the last collection
	allocated uint64      // until then, in bytes
	quiet     *time.Timer // since then; nil before the first
}

// BoundGarbage bounds the memory that the process holds beyond its live heap until
// stop is called. The owner of the process calls it, unless GOGC or GOMEMLIMIT is set.
func BoundGarbage() (stop func()) {
	g := &garbage{at: time.Now()}
	g.collected()
	return func() { g.ended.Store(true) }
}

// collected says how far the heap may grow until the next collection, and waits for
// that one: for the end of an object that nothing refers to.
func (g *garbage) collected() {
	if g.ended.Load() {
		return
	}
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	living, allocated, now := sample[0].Value.Uint64(), sample[1].Value.Uint64(), time.Now()
	debug.SetGCPercent(garbagePercent(living, allocated-g.allocated, now.Sub(g.at)))
	g.at, g.allocated = now, allocated
	if g.quiet != nil {
		g.quiet.Stop()
	}
	g.quiet = time.AfterFunc(garbageQuiet, func() {
		if !g.ended.Load() {
			debug.SetGCPercent(garbagePercent(living, 0, garbageQuiet))
		}
	})
	runtime.AddCleanup(new(struct{ _ *garbage }), (*garbage).collected, g)
}

// garbagePercent is the share of the live heap that may be allocated until the next
// collection, given what was allocated since the last one and how long ago that was.
func garbagePercent(living, allocated uint64, since time.Duration) int {
	living = max(living, 1<<20) // 0 before the first collection
	wanted := uint64(float64(allocated) * garbageTime.Seconds() / max(since.Seconds(), 1e-3))
	room := max(min(max(wanted, garbageLeast), garbageMost), living/garbageShare)
	return int(min(room*100/living, garbagePercentMost))
}
