package firewall

import (
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/doors"
	"github.com/trivet-ha/trivet/fsm/fencing"
)

// lateAddress is how much later than it should a kernel removes an address, because it
// looks at lifetimes once a second at most (measured: up to 0.9 s).
const lateAddress = time.Second

// byOurClock is how long a new holder waits for what takes up to d on another host.
func byOurClock(d time.Duration) time.Duration { return d + max(margin, d/slewShare) }

// passWait is how long another host may have PXE open after its last proof.
func (o GuardOptions) passWait() time.Duration { return byOurClock(2*o.Length + o.Freeze) }

// addressWait is how long another host may show the address after its last proof: as long
// as it may have PXE open, or where the kernel cannot gate the address for as long as that
// lives there, however short the lease.
func (o GuardOptions) addressWait() time.Duration {
	if o.AddressLease != nil {
		return o.passWait()
	}
	return byOurClock(max(2*o.Length, freshAddress+addressLife) + lateAddress + o.Freeze)
}

// others is from when on this leadership waits for doors of others.
type others struct {
	// began is after raft gave leadership, and after the last former member was
	// heard: no door was proven for later.
	began time.Time
	heard fsm.Time // of the last former member, as far as began takes it into account
}

// mustWait returns how long a door that another token may hold open must stay shut
// here, and that token if it may open earlier than after the full wait: no proof of
// the other leadership has begun for long enough (docs/design.md#pxe-age).
func (w *watch) mustWait(v fsm.View, d doors.Door, wait time.Duration) (left time.Duration, proven fencing.Token) {
	if d.Shut() || d.OpenBy == w.a.Token() {
		return 0, 0
	}
	wait = max(wait, d.Wait)
	left = time.Until(w.others.began.Add(wait))
	// The log of an older cluster may not be told whose proofs have all begun.
	if d.Term == 0 || v.Admits(doors.PassOpen{Proven: d.OpenBy}) != nil { // an unknown door has no term
		return left, 0
	}
	if until, ok := w.a.Succeeds(d.Term, d.Index); ok && left > 0 && until.Before(w.others.began) {
		return time.Until(until.Add(wait)), d.OpenBy
	}
	return left, 0
}
