package iptables

import (
	"context"
	"slices"
	"time"
)

// Bounds of the watch.
const (
	// glanceEvery is how often it looks, at most.
	glanceEvery = time.Second
	// glanceShare is how many times as long as a look took it rests, so that
	// long lists do not make it take more than 2 % of a core.
	glanceShare = 50
	// restMost is how long it rests at most: a look is slow, too, where
	// others want the processors (seen: 9 s of rest after one), and a flush must
	// not go unseen meanwhile.
	restMost = 2 * time.Second
)

// Watch tells when the rules are not met any more: after 'iptables -F', or the
// start of a firewall that begins with it. The kernel tells nobody what becomes
// of the legacy back end, and of the other only among all else that is
// committed; so INPUT is looked at. What somebody may do to single chains is for
// a comparison in full to find.
type Watch struct {
	filter  *Filter
	changed chan struct{} // holds one: more changes before it is received are the same news
	met     bool          // when it looked last; belongs to Run
}

// Watch returns a watch that has not begun; Run runs it.
func (f *Filter) Watch() *Watch { return &Watch{filter: f, changed: make(chan struct{}, 1)} }

// Changed yields when the rules are not met any more, or that cannot be seen any
// more: once, until they are again. It is never closed.
func (w *Watch) Changed() <-chan struct{} { return w.changed }

// Run looks until ctx ends. One goroutine calls it, once.
func (w *Watch) Run(ctx context.Context) {
	pause := glanceEvery
	for {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		began := time.Now()
		w.look(ctx)
		pause = restAfter(time.Since(began))
	}
}

// restAfter is how long the watch rests after a look that took so long.
func restAfter(took time.Duration) time.Duration {
	return min(max(glanceEvery, glanceShare*took), restMost)
}

// look tells, if the rules were met before and are not now.
func (w *Watch) look(ctx context.Context) {
	met := w.filter.met(ctx)
	if w.met && !met && ctx.Err() == nil {
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
	w.met = met
}

// met reports whether INPUT leads to our rules in every family. What cannot be
// seen is not: whoever is told reads the rules, and says why they cannot be.
func (f *Filter) met(ctx context.Context) bool {
	want := jumpText(f.layout, gateChain)
	for _, family := range f.tools.families {
		// One command lists a chain alone at little cost, in one back end; in the
		// other it takes the lock that programs share, and the one for all does not.
		see := family.inputOf
		if f.tools.backend == Legacy {
			see = family.read
		}
		now, err := see(ctx, listTable)
		if err != nil || !slices.Contains(now.rules[input], want) {
			return false
		}
	}
	return true
}
