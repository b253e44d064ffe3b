package admission

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// cheap makes so many requests of a source that take no time at all, 64 at once, and
// returns how long that lasted.
func cheap(requests, source int, ask func(source int) error) time.Duration {
	began := time.Now()
	var asking sync.WaitGroup
	for n := range 64 {
		asking.Go(func() {
			for range requests / 64 {
				if ask(source+n%2) != nil {
					return // there was no place for as long as a caller waits
				}
			}
		})
	}
	asking.Wait()
	return time.Since(began)
}

// least is how long work lasts at the least that goes on at a pace.
func least(p Pace, work time.Duration) time.Duration {
	return time.Duration(float64(work-time.Duration(p.Burst)*time.Millisecond) * 1000 / p.Rate)
}

// A request counts for what it costs to take and to answer it, whatever its handler does.
func TestTheCheapestRequestCounts(t *testing.T) {
	for _, class := range []Class{Callback, Request, Dear, Stranger, Probe} {
		synctest.Test(t, func(t *testing.T) {
			c := NewController()
			const requests = 64_000
			took := cheap(requests, 1, func(source int) error {
				p, err := c.Admit(t.Context(), class, Caller{Source: numbered(source)})
				if err == nil {
					p.Leave()
				}
				return err
			})
			if want := least(places[class].All, requests*taking); took < want*9/10 {
				t.Errorf("request-cost: %d requests of class %v that do nothing were answered within %v, want some %v", requests,
					class, took, want)
			}
		})
	}
}

// A change counts for its part of the log, so that a flood of them, refused or not, has not
// the pace of reads.
func TestAChangeCountsForTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewController()
		const requests = 64_000
		took := cheap(requests, 1, func(source int) error {
			p, err := c.Admit(t.Context(), Request, Caller{Source: numbered(source), Change: true})
			if err == nil {
				p.Leave()
			}
			return err
		})
		if want := least(places[Request].All, requests*(taking+changing)); took < want*9/10 {
			t.Errorf("request-change: %d changes were answered within %v, want some %v", requests, took, want)
		}
	})
}

// What no route has admitted counts as a stranger's, and what one has does not count twice.
func TestARequestWithoutAPlaceCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewController()
		const requests = 64_000
		took := cheap(requests, 1, func(source int) error {
			_, ended := c.Visit(t.Context(), Caller{Source: numbered(source)})
			ended()
			return nil
		})
		if want := least(places[Stranger].All, requests*taking); took < want*9/10 {
			t.Errorf("request-stray: %d requests without a place were answered within %v, want some %v", requests, took, want)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := NewController()
		fill(t, c, Stranger)
		ctx, ended := c.Visit(t.Context(), Caller{Source: numbered(1)})
		p, err := c.Admit(ctx, Request, Caller{Source: numbered(1)})
		if err != nil {
			t.Fatal(err)
		}
		p.Leave()
		_, elsewhere := c.Visit(t.Context(), Caller{Port: Webhook, Source: numbered(1)})
		began := time.Now()
		if elsewhere(); time.Since(began) > 0 {
			t.Errorf("request-stray: a request of the webhook's port waits %v for strangers of the API's", time.Since(began))
		}
		if ended(); time.Since(began) > 0 {
			t.Errorf("request-stray: a request that had a place waits %v for a stranger's", time.Since(began))
		}
	})
}

// Who opens connections without end waits; others do not, and members' hosts have a line
// of their own.
func TestConnectionsWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewController()
		const lasts = time.Minute
		var flood sync.WaitGroup
		begun := make([]int, 256)
		for n := range begun {
			flood.Go(func() {
				for began := time.Now(); time.Since(began) < lasts; {
					if c.Connect(t.Context(), numbered(1+n%2), false, ByTLS) == nil {
						begun[n]++
					}
				}
			})
		}
		time.Sleep(lasts / 2) // in a bubble
		for _, known := range []bool{false, true} {
			began := time.Now()
			if err := c.Connect(t.Context(), numbered(3), known, ByTLS); err != nil || time.Since(began) > 100*time.Millisecond {
				t.Errorf("connect-turn: known %v: another source waits %v beside a flood: %v", known, time.Since(began), err)
			}
		}
		flood.Wait()
		all := 0
		for _, n := range begun {
			all += n
		}
		most := 2 * (float64(connections.Each.Burst) + connections.Each.Rate*(lasts+connections.Wait).Seconds()) /
			(ByTLS.Seconds() * 1000)
		if float64(all) > most*1.1 {
			t.Errorf("connect-pace: two sources began %d connections in %v, want at most %.0f", all, lasts, most)
		}
	})
}

// A connection that is closed while it waits waits no longer.
func TestAClosedConnectionLeavesTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewController()
		for range 3 {
			c.connections.takePlace(numbered(1))
		}
		ctx, closed := context.WithCancel(t.Context())
		began, ended := time.Now(), make(chan error, 1)
		go func() { ended <- c.Connect(ctx, numbered(1), false, InClear) }()
		synctest.Wait()
		closed()
		if err := <-ended; !errors.Is(err, context.Canceled) || time.Since(began) > 0 { // in a bubble
			t.Errorf("connect-closed: after %v: %v", time.Since(began), err)
		}
	})
}

// Bodies come in at a pace, and that of another source does not wait for them.
func TestBodiesComeInAtAPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewController()
		const bytes, piece = 1 << 30, firstPiece
		take := func(source int, bytes int) time.Duration {
			p, err := c.Admit(t.Context(), Callback, Caller{Source: numbered(source)})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Leave()
			began := time.Now()
			for range bytes / piece {
				if err := p.Take(t.Context(), piece); err != nil {
					t.Error(err)
				}
			}
			return time.Since(began)
		}
		flood := make(chan time.Duration, 1)
		go func() { flood <- take(1, bytes) }()
		time.Sleep(time.Second) // in a bubble
		if took := take(2, 4<<20); took > time.Second {
			t.Errorf("intake-turn: 4 MiB of another source take %v beside a flood", took)
		}
		want := least(intake.Each, bytes*takeByte)
		if took := <-flood; took < want*9/10 { // in a bubble
			t.Errorf("intake-pace: %d MiB came in within %v, want some %v", bytes>>20, took, want)
		}
	})
}

// Who sends slowly holds no place.
func TestWhoSendsSlowlyHoldsNoPlace(t *testing.T) {
	c := NewController()
	p, err := c.Admit(t.Context(), Callback, Caller{Source: numbered(1)})
	if err != nil {
		t.Fatal(err)
	}
	err = p.Aside(t.Context(), func() error {
		if in, _ := c.Taken(Callback); in != 0 {
			t.Errorf("aside-place: %d places are taken while a body comes in", in)
		}
		return nil
	})
	if in, _ := c.Taken(Callback); err != nil || in != 1 {
		t.Errorf("aside-place: %d places are taken then: %v", in, err)
	}
	p.Leave()
	if in, _ := c.Taken(Callback); in != 0 {
		t.Errorf("aside-place: %d places are taken at the end", in)
	}
}

// What strangers cause within a second leaves a processor to the log, also when they begin.
func TestStrangersBeginAtAPace(t *testing.T) {
	const each = time.Millisecond
	for _, of := range []struct {
		class Class
		port  Port
	}{{Stranger, Public}, {Probe, Public}, {Stranger, Webhook}} {
		for sources, most := range map[int]time.Duration{1: 550 * time.Millisecond, 100: 950 * time.Millisecond} {
			synctest.Test(t, func(t *testing.T) {
				c := NewController()
				ctx, end := context.WithTimeout(t.Context(), time.Second)
				defer end()
				var worked atomic.Int64
				var asking sync.WaitGroup
				for n := range 512 {
					asking.Go(func() {
						for ctx.Err() == nil {
							p, err := c.Admit(ctx, of.class, Caller{Port: of.port, Source: numbered(1 + n%sources)})
							if err != nil {
								return // a second is over, or there was no room
							}
							time.Sleep(each) // in a bubble
							worked.Add(int64(each))
							p.Leave()
						}
					})
				}
				asking.Wait()
				if got := time.Duration(worked.Load()); got < most/4 || got > most {
					t.Errorf("first-second: %d sources caused %v of work of class %v in the first second, want at most %v", sources,
						got, of.class, most)
				}
			})
		}
	}
}
