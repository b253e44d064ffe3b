package firewall

import (
	"time"

	"github.com/trivet-ha/trivet/fsm/fencing"
)

// GuardStatus is how door and address stand on this host. It claims no more
// than the kernel grants: what the guard did not renew in time counts as ended,
// so that of all hosts' at most one says it is open.
type GuardStatus struct {
	Token       fencing.Token // of the leadership it acts under; zero: none
	Open        bool
	Held        bool      // the floating IP
	Since       time.Time // of the newest change of Open, or the start
	Why         string    // why the door is shut
	AddressWhy  string    // why the address is not held
	Swaps       uint64    // how often the lease was opened or held
	Lapses      uint64    // how often the kernel had ended it first
	LastHold    time.Time // right before the newest swap
	LastPut     time.Time // right before the address was written last
	ConflictMAC string    // who else answers for the address, held here or not
}

// Status returns how it stands. It may be called concurrently.
func (g *Guard) Status() GuardStatus {
	g.mu.Lock()
	s := g.status
	g.mu.Unlock()
	now := time.Now()
	if end := s.LastHold.Add(g.o.Length); s.Open && !now.Before(end) {
		s.Open, s.Since, s.Why = false, end, "the lease ended before it was renewed"
	}
	if s.Held && now.Sub(s.LastPut) >= addressLife {
		s.Held, s.AddressWhy = false, "its life ended before it was renewed"
	}
	return s
}

func (g *Guard) updateStatus(change func(*GuardStatus)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.status.Open
	change(&g.status)
	if g.status.Open != before {
		g.status.Since = time.Now()
	}
}
