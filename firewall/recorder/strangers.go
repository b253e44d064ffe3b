package recorder

import (
	"cmp"
	"slices"
	"time"

	"github.com/hashicorp/golang-lru/simplelru"
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
	Server      string // the newest DHCP server that offered it an address
}

// strangers are the newest of them. Its methods are for one goroutine at a time.
type strangers struct {
	byMAC  *simplelru.LRU // of *Stranger; the one that asked longest ago makes room
	budget *rate.Limiter
}

func newStrangers() strangers {
	byMAC, err := simplelru.NewLRU(maxStrangers, nil)
	if err != nil {
		panic(err) // of a size below 1 alone
	}
	return strangers{byMAC, rate.NewLimiter(strangersPerSecond, strangersPerSecond)}
}

// noteStranger keeps what was read of one.
func (s strangers) noteStranger(seen message, now time.Time) {
	switch seen.step.Kind {
	case boots.Asked, boots.Chose:
		known, ok := s.byMAC.Get(seen.mac)
		if !ok {
			known = &Stranger{MAC: seen.mac, First: now}
			s.byMAC.Add(seen.mac, known)
		}
		o := known.(*Stranger)
		o.Last, o.Asked = now, o.Asked+1
		o.Client, o.Arch = seen.step.Client, seen.step.Arch
		o.Relay, o.UUID = seen.step.Relay, cmp.Or(seen.uuid, o.UUID)
	case boots.Offered, boots.Leased:
		if known, ok := s.byMAC.Peek(seen.mac); ok { // else it did not ask here
			known.(*Stranger).Server = seen.step.Server
		}
	}
}

// list returns copies, the newest first.
func (s strangers) list() []Stranger {
	all := make([]Stranger, 0, s.byMAC.Len())
	for _, mac := range s.byMAC.Keys() {
		if o, ok := s.byMAC.Peek(mac); ok {
			all = append(all, *o.(*Stranger))
		}
	}
	slices.SortStableFunc(all, func(a, b Stranger) int {
		return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.MAC, b.MAC))
	})
	return all
}
