package admission

import (
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A place that goes from hand to hand does not keep those waiting who want a processor for
// something else.
func TestThoseInLineLetOthersGoFirst(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const callers = 100
	line := NewLine(Places{AtOnce: 1, Share: 1, Waiting: 2 * callers, Wait: time.Minute}, 1)
	from := netip.MustParsePrefix("192.0.2.1/32")
	if err := line.Enter(t.Context(), 0, from); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var served atomic.Int64
	for range callers {
		all.Go(func() {
			if line.Enter(t.Context(), 0, from) == nil {
				served.Add(1)
				line.Leave(from)
			}
		})
	}
	for _, waiting := line.Idle(); waiting < callers; _, waiting = line.Idle() {
		runtime.Gosched()
	}
	before := int64(-1)
	all.Go(func() { before = served.Load() })
	line.Leave(from)
	all.Wait()
	if before < 0 || before > callers/10 || served.Load() != callers {
		t.Errorf("line-yields: %d of %d callers were served before another goroutine ran", before, served.Load())
	}
}
