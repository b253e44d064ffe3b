package simtest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/doors"
)

// renewals are the hand-overs of the door that a cluster has seen: which host renewed its
// lease last, and how another one came to open.
type renewals struct {
	mu   sync.Mutex
	host string     // that renewed last
	at   time.Time  // when
	door doors.Door // as the log had it then
	done handOverFigures
}

// handOverFigures sum up hand-overs by how the door opened: by the age of the last proof,
// after the full wait, or at once, since its last owner had recorded that it shut it.
type handOverFigures struct {
	byAge, inFull, planned []time.Duration // from the last renewal to the opening elsewhere
}

// renewed notes that a lease came into force on a host, or was renewed.
func (h *renewals) renewed(host string, v fsm.View) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, door := time.Now(), v.PassDoor()
	if h.host != "" && h.host != host {
		gap := now.Sub(h.at)
		switch wait := max(h.door.Wait, door.Wait); {
		case door.ClosedBy >= h.door.OpenBy:
			h.done.planned = append(h.done.planned, gap)
		case door.Since.Sub(v.Leadership().At) < wait:
			h.done.byAge = append(h.done.byAge, gap)
		default:
			h.done.inFull = append(h.done.inFull, gap)
		}
	}
	h.host, h.at, h.door = host, now, door
}

// figures returns what was seen so far.
func (h *renewals) figures() handOverFigures {
	h.mu.Lock()
	defer h.mu.Unlock()
	return handOverFigures{slices.Clone(h.done.byAge), slices.Clone(h.done.inFull), slices.Clone(h.done.planned)}
}

// count is how many hand-overs there were.
func (f handOverFigures) count() int { return len(f.byAge) + len(f.inFull) + len(f.planned) }

// plus returns the figures of two clusters.
func (f handOverFigures) plus(o handOverFigures) handOverFigures {
	return handOverFigures{slices.Concat(f.byAge, o.byAge), slices.Concat(f.inFull, o.inFull),
		slices.Concat(f.planned, o.planned)}
}

// String tells how many there were of each kind, and their medians.
func (f handOverFigures) String() string {
	return fmt.Sprintf(
		"%d hand-overs, and from the last renewal to the opening elsewhere: by age %s, after the full wait %s, recorded as shut %s",
		f.count(), ofMedian(f.byAge), ofMedian(f.inFull), ofMedian(f.planned))
}

func ofMedian(all []time.Duration) string {
	if len(all) == 0 {
		return "none"
	}
	sorted := slices.Sorted(slices.Values(all))
	return fmt.Sprintf("%d (median %v, longest %v)", len(all), sorted[len(all)/2].Round(time.Millisecond),
		sorted[len(all)-1].Round(time.Millisecond))
}
