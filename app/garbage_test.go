package app

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/testwait"
)

func TestRoomForGarbage(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		name              string
		living, allocated uint64
		since             time.Duration
		percent           int
	}{
		{"before the first collection", 0, 2 * mb, 0, 400},
		{"idle", 5 * mb, 4 * mb, 10 * time.Second, 80},
		{"as it allocates", 20 * mb, 30 * mb, 3 * time.Second, 100},
		{"a loaded leader", 10 * mb, 64 * mb, time.Second, 400},
		{"10,000 machines, loaded", 50 * mb, 64 * mb, time.Second, 128},
		{"100,000 machines, idle", 640 * mb, 80 * mb, time.Minute, 12},
		{"100,000 machines, loaded", 640 * mb, 80 * mb, time.Second, 12},
	} {
		if got := garbagePercent(c.living, c.allocated, c.since); got != c.percent {
			t.Errorf("garbage-room: %s: %d %%, want %d %%", c.name, got, c.percent)
		}
	}
}

// TestGarbageIsBounded has a collection find a heap that has grown.
func TestGarbageIsBounded(t *testing.T) {
	was := debug.SetGCPercent(100)
	defer debug.SetGCPercent(was)
	defer BoundGarbage()()
	alive := make([][]byte, 128)
	for n := range alive {
		alive[n] = make([]byte, 1<<20)
	}
	runtime.GC()
	limit := uint64(384 << 20)
	testwait.Within(t, testwait.Limit, "garbage-bounded: the bound follows the collection", func() error {
		sample := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
		metrics.Read(sample)
		if goal := sample[0].Value.Uint64(); goal > limit {
			return fmt.Errorf("the heap may grow to %d MB next to 128 that live, want at most %d", goal>>20, limit>>20)
		}
		return nil
	})
	runtime.KeepAlive(alive)
}

// TestRoomEndsWithTheLoad has a heap that was given much room fill none of it.
func TestRoomEndsWithTheLoad(t *testing.T) {
	was := debug.SetGCPercent(100)
	defer debug.SetGCPercent(was)
	defer BoundGarbage()()
	alive := make([]byte, 32<<20)
	runtime.GC() // finds what was allocated in no time
	testwait.Within(t, testwait.Limit, "garbage-quiet: the room ends with the load", func() error {
		sample := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}, {Name: "/gc/heap/live:bytes"}}
		metrics.Read(sample)
		goal, living := sample[0].Value.Uint64(), sample[1].Value.Uint64()
		if most := living + 2*garbageLeast; goal > most {
			return fmt.Errorf("the heap may grow to %d MB next to %d that live, want at most %d", goal>>20, living>>20, most>>20)
		}
		return nil
	})
	runtime.KeepAlive(alive)
}
