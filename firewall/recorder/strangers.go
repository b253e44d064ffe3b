package recorder

import (
	"cmp"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/trivet-ha/trivet/fsm/boots"
)

// Bounds of the list of machines that are not under introspection.
const (
	maxStrangers = 1000
	// strangersPerSecond is how many of their messages are read in a second: invented MACs cost
	// no more work than that.
	strangersPerSecond = 500
)

// Stranger is a machine that asked to boot and is not under introspection.
type Stranger struct {
	MAC         string // in lower case
	First, Last time.Time
	Asked       int // messages that were read
	Client      boots.Client
	Arch        uint16 // as boots.Step has it
	Relay       string
	UUID        string // as its firmware tells it, "" if it does not
	// Server is the newest DHCP server that offered it an address, and where from; Foreign
	// says that it is not this host's.
	Server, ServerMAC string
	Foreign           bool
}

// strangers are the newest of them. Its methods are for one goroutine at a time.
type strangers struct {
	byMAC  map[string]*Stranger
	budget *rate.Limiter
	unread int // messages beyond the budget
}

func newStrangers() strangers {
	return strangers{byMAC: make(map[string]*Stranger),
		budget: rate.NewLimiter(strangersPerSecond, strangersPerSecond)}
}

// admit reports whether there is work left for one more message of theirs.
func (s *strangers) admit(now time.Time) bool {
	if s.budget.AllowN(now, 1) {
		return true
	}
	s.unread++
	return false
}

// note keeps what was read of one. The one that asked longest ago makes room.
func (s *strangers) note(seen message, now time.Time) {
	known := s.byMAC[seen.mac]
	if known == nil {
		if seen.step.Kind != boots.Asked && seen.step.Kind != boots.Chose {
			return // an answer to one that did not ask here
		}
		s.makeRoom()
		known = &Stranger{MAC: seen.mac, First: now}
		s.byMAC[seen.mac] = known
	}
	switch seen.step.Kind {
	case boots.Asked, boots.Chose:
		known.Last, known.Asked = now, known.Asked+1
		known.Client, known.Arch = seen.step.Client, seen.step.Arch
		known.Relay, known.UUID = seen.step.Relay, cmp.Or(seen.uuid, known.UUID)
	case boots.Offered, boots.Leased:
		known.Server, known.ServerMAC, known.Foreign = seen.step.Server, seen.step.ServerMAC, seen.step.Foreign
	}
}

func (s *strangers) makeRoom() {
	if len(s.byMAC) < maxStrangers {
		return
	}
	var oldest *Stranger
	for _, o := range s.byMAC {
		if oldest == nil || o.Last.Before(oldest.Last) {
			oldest = o
		}
	}
	delete(s.byMAC, oldest.MAC)
}

// list returns copies, the newest first.
func (s *strangers) list() []Stranger {
	all := make([]Stranger, 0, len(s.byMAC))
	for _, o := range s.byMAC {
		all = append(all, *o)
	}
	slices.SortFunc(all, func(a, b Stranger) int {
		return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.MAC, b.MAC))
	})
	return all
}
