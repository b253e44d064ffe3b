package ballast

import (
	"slices"
	"sync"
	"time"
)

// keptTimes is how many writes to the log are remembered: some minutes of a
// quiet leader's, which writes once a second.
const keptTimes = 256

// WriteTimes are how long the newest writes to the log took, each until the disk
// had it.
type WriteTimes struct {
	Count  int
	Median time.Duration
	Most   time.Duration
}

// Writes tells how long writes to this peer's log took of late.
func (b *Ballast) Writes() WriteTimes { return b.times.summary() }

// ring keeps the newest durations. Its zero value is ready.
type ring struct {
	mu   sync.Mutex
	kept [keptTimes]time.Duration
	n    int // of all that were added
}

func (r *ring) add(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept[r.n%keptTimes] = d
	r.n++
}

func (r *ring) summary() WriteTimes {
	r.mu.Lock()
	sorted := slices.Clone(r.kept[:min(r.n, keptTimes)])
	r.mu.Unlock()
	if len(sorted) == 0 {
		return WriteTimes{}
	}
	slices.Sort(sorted)
	return WriteTimes{Count: len(sorted), Median: sorted[len(sorted)/2], Most: sorted[len(sorted)-1]}
}
