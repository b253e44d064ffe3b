package admission

import (
	"testing"
	"testing/synctest"
	"time"
)

// A source has its burst, then its rate; all together have theirs.
func TestRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRates(Pace{Rate: 2, Burst: 5}, Pace{Rate: 10, Burst: 8})
		passed := func(source, tries int) (n int) {
			for range tries {
				if _, ok := r.Take(numbered(source), 0); ok {
					n++
				}
			}
			return n
		}
		if n := passed(1, 20); n != 5 {
			t.Errorf("rate-source: %d of a source passed at once, want 5", n)
		}
		if n := passed(2, 20); n != 3 {
			t.Errorf("rate-all: %d of another passed, want the 3 that are left of all", n)
		}
		time.Sleep(time.Second) // in a bubble
		if n := passed(1, 20); n != 2 {
			t.Errorf("rate-source: %d passed after a second, want 2", n)
		}
		wait, _ := r.Take(numbered(1), 0)
		time.Sleep(wait) // in a bubble
		if again, ok := r.Take(numbered(1), 0); !ok {
			t.Errorf("rate-wait: told to wait %v, and then %v more", wait, again)
		}
	})
}

// Who has many addresses gets no more room for them, and what is kept of sources
// that have nothing to wait for is given up.
func TestTheTableOfSourcesIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRates(Pace{Rate: 10, Burst: 500}, Pace{})
		refused := 0
		for n := range maxSources + 1000 {
			if _, ok := r.Take(numbered(n), 0); !ok {
				refused++
			}
		}
		if len(r.known.of) != maxSources || refused != 1000-500 {
			t.Errorf("rate-table: %d sources are kept, %d were refused", len(r.known.of), refused)
		}
		time.Sleep(sweepEvery) // in a bubble
		r.Take(numbered(1<<20), 0)
		if len(r.known.of) != 1 {
			t.Errorf("rate-table: %d sources are kept after all have gone", len(r.known.of))
		}
	})
}

// A source that was vouched for is known for a while; the table is bounded, and those
// that are in it stay.
func TestKnownSources(t *testing.T) {
	k, now := NewKnown(time.Hour), time.Now()
	k.Vouch(numbered(1), now)
	if !k.Has(numbered(1), now.Add(time.Hour-1)) || k.Has(numbered(1), now.Add(time.Hour)) || k.Has(numbered(2), now) {
		t.Error("known-while: a source is not known for an hour")
	}
	k.Vouch(numbered(1), now.Add(time.Minute))
	if !k.Has(numbered(1), now.Add(time.Hour)) {
		t.Error("known-while: a source that is vouched for again is not known for an hour from then on")
	}
	for n := range 2 * maxSources {
		k.Vouch(numbered(n), now)
	}
	if len(k.until.of) != maxSources || !k.Has(numbered(1), now) {
		t.Errorf("known-bound: %d sources are known", len(k.until.of))
	}
	later := now.Add(2 * time.Hour)
	if k.Vouch(numbered(2*maxSources), later); len(k.until.of) != 1 || !k.Has(numbered(2*maxSources), later) {
		t.Errorf("known-bound: %d sources are known after all have gone", len(k.until.of))
	}
}
