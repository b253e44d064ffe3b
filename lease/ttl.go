package lease

import (
	"time"

	"github.com/trivet-ha/trivet/fsm/leases"
)

// ShortestTTL is the shortest lease that a change of leader alone does not cost its holder.
// A holder renews after a third of the ttl and stops a third before its end. The third
// between is what a renewal has that finds no leader: the succession, up to 50 ms until
// it is repeated, and its wait for others (docs/contract.md#lease-ttl).
func ShortestTTL(succession time.Duration) time.Duration { return 3 * (succession + 2*renewalsGather) }

// check refuses an acquisition whose times are out of bounds.
func (s *Service) check(a Acquisition) error {
	least := max(s.o.MinTTL, leases.MinTTL)
	if a.TTL < least || a.TTL > leases.MaxTTL {
		return invalid("ttl_ms: a lease lasts %v to %v here, not %v", least, leases.MaxTTL, a.TTL)
	}
	if a.Wait < 0 || a.Wait > MaxWait {
		return invalid("wait_ms: an acquisition waits 0 to %v, not %v", MaxWait, a.Wait)
	}
	return valid(leases.Grant{Name: a.Name, Holder: a.Holder, TTL: a.TTL, Metadata: a.Metadata})
}
