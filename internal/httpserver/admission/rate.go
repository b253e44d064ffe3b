package admission

import (
	"net/netip"
	"sync"
	"time"
)

// Bounds of the records of sources.
const (
	maxSources = 4096             // those beyond share what one may, or are not known
	sweepEvery = 10 * time.Second // sources of which nothing matters any more are forgotten
)

// Pace is so many events a second, and Burst at once. The zero one has no bound.
type Pace struct {
	Rate  float64 // a second, for as long as it goes on
	Burst int     // at once; at least 1
}

// Rates bounds how often each source does something, and all of them together.
type Rates struct {
	each, all Pace

	mu    sync.Mutex
	known sources[bucket]
	crowd bucket // of sources for which there is no room
	total bucket
}

// bucket is the moment until which a rate is used up, which makes a token bucket of
// one number.
type bucket struct {
	due time.Time
}

// NewRates returns rates: each source has the pace each, and all together have all.
func NewRates(each, all Pace) *Rates {
	idle := func(b *bucket, now time.Time) bool { return !now.Before(b.due) }
	return &Rates{each: each, all: all, known: sources[bucket]{of: make(map[netip.Prefix]*bucket), over: idle}}
}

// Charge counts events that have happened already, of a source, and returns for how long
// it is beyond its pace then, and for how long all are.
func (r *Rates) Charge(source netip.Prefix, events float64) (own, all time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	of := r.find(source, now)
	of.count(r.each, now, events)
	r.total.count(r.all, now, events)
	return of.overFor(r.each, now), r.total.overFor(r.all, now)
}

// Take counts one event of a source that may happen after wait, if that is no longer than
// longest; else it counts nothing, and the source may try again after wait.
func (r *Rates) Take(source netip.Prefix, longest time.Duration) (wait time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	of := r.find(source, now)
	wait = max(of.overFor(r.each, now), r.total.overFor(r.all, now))
	if wait > 0 && wait > longest {
		return wait, false
	}
	of.count(r.each, now, 1)
	r.total.count(r.all, now, 1)
	return max(wait, 0), true
}

// GiveBack takes back an event that was counted, and then did not happen.
func (r *Rates) GiveBack(source netip.Prefix) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.find(source, now).count(r.each, now, -1)
	r.total.count(r.all, now, -1)
}

// overFor returns for how long a bucket has no room.
func (b *bucket) overFor(p Pace, now time.Time) time.Duration {
	if p.Rate <= 0 || b.due.IsZero() {
		return 0
	}
	return b.due.Sub(now) - p.interval()*time.Duration(max(p.Burst, 1)-1)
}

// count takes events from a bucket.
func (b *bucket) count(p Pace, now time.Time, events float64) {
	if p.Rate <= 0 {
		return
	}
	if !now.Before(b.due) {
		b.due = now
	}
	b.due = b.due.Add(time.Duration(events * float64(p.interval())))
}

func (p Pace) interval() time.Duration { return time.Duration(float64(time.Second) / p.Rate) }

// find returns the bucket of a source, for the first time perhaps; the caller holds
// the lock.
func (r *Rates) find(source netip.Prefix, now time.Time) *bucket {
	if of := r.known.find(source, now); of != nil {
		return of
	}
	return &r.crowd
}
