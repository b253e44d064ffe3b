package api

import (
	"net/netip"
	"time"

	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// goodSourceFor is how long a source is known after its last good credentials.
const goodSourceFor = time.Hour

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
// Keystone come with another token each time. Only good credentials make an entry.
func goodSources() *admission.Known { return admission.NewKnown(goodSourceFor) }

// laneOf returns the lane of credentials: good says that they were lately, and sources
// where good ones came from.
func laneOf(sources *admission.Known, source netip.Prefix, good bool, now time.Time) int {
	switch {
	case good:
		return knownCredentials
	case sources.Has(source, now):
		return knownSource
	}
	return newcomer
}
