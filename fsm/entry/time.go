package entry

import (
	"math"
	"time"
)

// Time is cluster time: nanoseconds since the cluster was created, as counted
// by its leaders (docs/design.md#time). All deadlines, ttls and retention use it; wall
// clocks are for display. It is never negative and never goes back.
type Time int64

// MaxTime is the greatest time an entry may carry, 146 years: deadlines after
// it still have room.
const MaxTime Time = 1 << 62

// Add returns t+d, at least 0 and at most the greatest Time: a sum that would
// wrap around would turn a far deadline into a past one.
func (t Time) Add(d time.Duration) Time {
	sum := t + Time(d)
	switch {
	case d > 0 && sum < t:
		return math.MaxInt64
	case sum < 0:
		return 0
	}
	return sum
}

// Sub returns the duration t-u.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// Before reports whether t is earlier than u.
func (t Time) Before(u Time) bool { return t < u }

// After reports whether t is later than u.
func (t Time) After(u Time) bool { return t > u }

// Millis returns whole milliseconds since the cluster was created.
func (t Time) Millis() int64 { return int64(t) / int64(time.Millisecond) }

// String returns the time as a duration since the cluster was created.
func (t Time) String() string { return time.Duration(t).String() }
