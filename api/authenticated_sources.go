package api

import (
	"net/netip"
	"sync"
	"time"
)

// Bounds of what is kept of sources that sent good credentials.
const (
	maxGoodSources = 4096
	goodSourceFor  = time.Hour // since its last good credentials
)

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

// class returns knownSource or newcomer.
func (g *goodSources) class(source netip.Prefix, now time.Time) class {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.kept.get(source, now); ok {
		return knownSource
	}
	return newcomer
}
