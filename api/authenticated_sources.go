package api

import (
	"net/netip"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// Bounds of what is kept of sources that sent good credentials.
const (
	maxGoodSources = 4096
	goodSourceFor  = time.Hour // since its last good credentials
)

// The lanes in which callers wait for a check of their credentials, by what is known
// of them.
const (
	newcomer         = iota // nothing
	knownSource             // other credentials from the same source were good lately
	knownCredentials        // these credentials were good lately
	lanes
)

const (
	waitingOfLane = 512              // one source has half of it
	maxQueueWait  = 30 * time.Second // 120 checks of 228 ms (bcrypt, cost 12) take 27 s
)

// checks bounds the work on credentials: so many checks at a time. A request that
// waits costs some 10 KiB, and with the longest headers some 40 KiB. A flood of wrong
// passwords delays good credentials by a few checks: two if they were good lately, one
// for each source that floods if they were not.
func checks(atOnce int) *admission.Line {
	return admission.NewLine(admission.Places{
		AtOnce: atOnce, Share: atOnce, Waiting: waitingOfLane,
		Wait: maxQueueWait,
	}, lanes)
}

// goodSources remembers where good credentials came from, since clients of
// Keystone come with another token each time. Only good credentials make an entry,
// and the least recent gives way. It may be used concurrently.
type goodSources struct {
	mu   sync.Mutex
	kept *recent[netip.Prefix, struct{}]
}

func newGoodSources() *goodSources {
	return &goodSources{kept: newRecent[netip.Prefix, struct{}](maxGoodSources)}
}

// add notes that good credentials came from a source.
func (g *goodSources) add(source netip.Prefix, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.kept.put(remembered[netip.Prefix, struct{}]{id: source, until: now.Add(goodSourceFor)})
}

// lane returns knownSource or newcomer.
func (g *goodSources) lane(source netip.Prefix, now time.Time) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.kept.get(source, now); ok {
		return knownSource
	}
	return newcomer
}
