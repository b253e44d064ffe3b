package firewall

import "time"

// A new holder announces the address at once, again after announceSecond and
// announceThird, and from then on every announceEvery (docs/design.md#address).
const (
	announceSecond = time.Second
	announceThird  = 3 * time.Second
	announceEvery  = 10 * time.Second
)

// announcements is when the next one is due.
type announcements struct {
	taken time.Time
	next  time.Time
}

// due reports whether to announce now, and plans the next time.
func (a *announcements) due(now time.Time) bool {
	if now.Before(a.next) {
		return false
	}
	switch since := now.Sub(a.taken); {
	case since < announceSecond:
		a.next = a.taken.Add(announceSecond)
	case since < announceThird:
		a.next = a.taken.Add(announceThird)
	default:
		a.next = now.Add(announceEvery)
	}
	return true
}
