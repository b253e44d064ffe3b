package firewall

import (
	"testing"
	"testing/synctest"
	"time"
)

// What is held rests on a proof that begins after the write which it extends, and for the
// address not long before: heartbeats that a majority has acknowledged since then do. What
// is opened or taken rests on one that begins then.
func TestHeldByNewestHeartbeats(t *testing.T) {
	for _, addressless := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.slow, r.addressless = 7*time.Millisecond, addressless
			r.lead()
			r.guard(10*time.Second, func(*Guard) {})
			r.checkProofs()
		})
	}
}

// checkProofs looks at what each write of the kernel rests on.
func (r *rig) checkProofs() {
	r.t.Helper()
	var t0, written time.Duration
	held, put := 0, 0
	for _, e := range r.events {
		switch e.what {
		case "t0":
			t0 = e.at
		case "open", "hold":
			if t0 < written {
				r.t.Fatalf("held-by-heartbeats: a proof since %v holds what was written at %v", t0, written)
			}
			if held++; e.what == "open" && t0 != e.at-r.slow {
				r.t.Errorf("held-by-heartbeats: the write that opens at %v rests on a proof since %v", e.at, t0)
			}
			written = e.at
		case "put":
			if age := e.at - t0; age > recentProof+r.slow || put == 0 && age > r.slow {
				r.t.Errorf("held-by-heartbeats: write %d of the address rests on a proof that began %v before", put, age)
			}
			put++
		}
	}
	if held < 20 || !r.addressless && put < 20 {
		r.t.Errorf("held-by-heartbeats: held %d times, the address %d", held, put)
	}
}
