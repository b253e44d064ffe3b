package admission

import (
	"maps"
	"net/netip"
	"sync"
	"time"
)

// sources keeps something of each of many sources until it is over. The lock of its
// owner guards it.
type sources[V any] struct {
	of    map[netip.Prefix]*V
	over  func(v *V, now time.Time) bool
	swept time.Time
}

// find returns the record of a source, the zero V for a new one, and nil where there
// is no room. It removes outdated records now and then.
func (s *sources[V]) find(source netip.Prefix, now time.Time) *V {
	if v, ok := s.of[source]; ok {
		return v
	}
	if now.Sub(s.swept) >= sweepEvery {
		s.swept = now
		maps.DeleteFunc(s.of, func(_ netip.Prefix, v *V) bool { return s.over(v, now) })
	}
	if len(s.of) >= maxSources {
		return nil
	}
	v := new(V)
	s.of[source] = v
	return v
}

// Known remembers for a while which sources were vouched for, as by good credentials.
// It may be used concurrently.
type Known struct {
	lasts time.Duration

	mu    sync.Mutex
	until sources[time.Time]
}

// NewKnown returns a Known that remembers a source for so long after the last time.
func NewKnown(lasts time.Duration) *Known {
	over := func(until *time.Time, now time.Time) bool { return !now.Before(*until) }
	return &Known{lasts: lasts, until: sources[time.Time]{of: make(map[netip.Prefix]*time.Time), over: over}}
}

// Vouch notes a source. Of too many it remembers those that it knows.
func (k *Known) Vouch(source netip.Prefix, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if until := k.until.find(source, now); until != nil {
		*until = now.Add(k.lasts)
	}
}

// Has reports whether a source was vouched for lately.
func (k *Known) Has(source netip.Prefix, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	until, ok := k.until.of[source]
	return ok && now.Before(*until)
}
