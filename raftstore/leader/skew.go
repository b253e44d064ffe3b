package leader

import (
	"slices"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// Skew returns how far the peer's wall clock is off the median of all live
// sessions, by what each reported with its newest renewal; zero when fewer than
// three report, since two clocks that differ do not tell which one is wrong.
//
// Reports are relative to the wall clock of the leader that took them. Until every
// session was renewed under the leadership since then, within 3 s, they cannot be
// compared, and nothing is known: peers whose clocks were right, reported to a
// leader whose clock was wrong, would look wrong next to the others.
//
// It is the median of all, not of the others: with three peers that are all apart,
// the median of the others would exclude every one and leave no leader; the median
// of all excludes the same outlier and always leaves the median peer
// (docs/design.md#leadership). With an even number the nearer of the two middle
// clocks counts, for the same reason.
func Skew(sessions []membership.Session, since fsm.Time, peer string) (skew time.Duration, known bool) {
	const quorate = 3
	if len(sessions) < quorate {
		return 0, true
	}
	var all []int64
	own, reported := int64(0), false
	for _, s := range sessions {
		if renewed := s.Expires.Add(-membership.SessionTTL); !renewed.After(since) {
			return 0, false
		}
		all = append(all, s.SkewMillis)
		if s.Peer == peer {
			own, reported = s.SkewMillis, true
		}
	}
	if !reported {
		return 0, true
	}
	slices.Sort(all)
	low := own - all[(len(all)-1)/2]
	high := own - all[len(all)/2]
	if max(low, -low) > max(high, -high) {
		low = high
	}
	return time.Duration(low) * time.Millisecond, true
}
