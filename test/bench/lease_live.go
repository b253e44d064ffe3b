package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	leaseDeaths   = 24 // holders that die, six at a time
	leaseReleases = 60 // holders that let go, one after the other
	leaseHolders  = 192
	renewFor      = 5 * time.Second
	liveLeases    = 52 * leaseHolders // a few less than the 10,000 that there may be
	liveEvery     = 10 * time.Second
	liveRounds    = 4 // the first is not looked at
)

// deaths takes how long after a holder's death another has its lease, beyond its ttl.
// A holder dies here by saying nothing any more.
func (s *leaseSite) deaths(ctx context.Context) error {
	const name, atOnce = "lease.after_death_max", 6
	var mu sync.Mutex
	var late Sample
	trials, _ := errgroup.WithContext(ctx)
	for n := range atOnce {
		trials.Go(func() error {
			for range leaseDeaths / atOnce {
				took, err := s.handOver(n, shortTTL,
					func(_ holder, _ string, granted time.Time) (time.Time, error) { return granted, nil })
				if err != nil {
					return err
				}
				mu.Lock()
				late = append(late, took-shortTTL)
				mu.Unlock()
			}
			return nil
		})
	}
	if err := trials.Wait(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	s.bench.Report.Add(name, late.Max().Seconds(), "s", AtMost(0.5),
		fmt.Sprintf("beyond the ttl of %v since its grant, for a client that waits at another peer: %v", shortTTL, late))
	return nil
}

// releases takes how long after a release a client has the lease that waits for it.
func (s *leaseSite) releases(ctx context.Context) error {
	const name = "lease.after_release_max_ms"
	var all Sample
	for n := range leaseReleases {
		took, err := s.handOver(n, leaseTTL, func(h holder, token string, _ time.Time) (time.Time, error) {
			if err := pause(ctx, 30*time.Millisecond); err != nil { // the other waits by now
				return time.Time{}, err
			}
			let := time.Now()
			return let, h.release(leaseName(n), token)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, took)
	}
	s.bench.Report.Add(name, all.Max().Seconds()*1000, "ms", AtMost(50),
		fmt.Sprintf("since the release was sent, for a client that waits at another peer: %v", all))
	return nil
}

// handOver has one client acquire a lease, and another at the next peer wait for it.
// It returns how long after the moment that end tells the other has it.
func (s *leaseSite) handOver(n int, ttl time.Duration,
	end func(h holder, token string, granted time.Time) (time.Time, error)) (time.Duration, error) {
	name := leaseName(n)
	first, err := s.holder("first", n)
	if err != nil {
		return 0, err
	}
	defer first.web.close()
	next, err := s.holder("next", n+1)
	if err != nil {
		return 0, err
	}
	defer next.web.close()
	asked := time.Now()
	token, err := first.acquire(name, ttl, 0)
	if err != nil {
		return 0, err
	}
	var waiting errgroup.Group
	var had time.Time
	waiting.Go(func() error {
		token, err := next.acquire(name, ttl, 30*time.Second)
		if had = time.Now(); err != nil {
			return err
		}
		return next.release(name, token)
	})
	since, err := end(first, token, asked)
	if err := errors.Join(err, waiting.Wait()); err != nil {
		return 0, err
	}
	return had.Sub(since), nil
}

// holders share the live leases, each with its share of the leases.
type holders struct {
	holders []holder
	tokens  [][]string // by holder: of its leases
	first   []int      // by holder: the number of its first lease
}

// startHolders has so many holders acquire all leases.
func (s *leaseSite) startHolders(ctx context.Context, leases int) (*holders, error) {
	c := &holders{}
	each := leases / leaseHolders
	for n := range leaseHolders {
		h, err := s.holder("live", n)
		if err != nil {
			return c, errors.Join(err, c.close())
		}
		c.holders, c.tokens, c.first = append(c.holders, h), append(c.tokens, make([]string, each)), append(c.first, n*each)
	}
	err := c.all(ctx, func(n int) error {
		for i := range each {
			var err error
			if c.tokens[n][i], err = c.holders[n].acquire(leaseName(c.first[n]+i), 2*leaseTTL, 0); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return c, errors.Join(err, c.close())
	}
	return c, nil
}

func (c *holders) all(ctx context.Context, do func(n int) error) error {
	busy, _ := errgroup.WithContext(ctx)
	for n := range c.holders {
		busy.Go(func() error { return do(n) })
	}
	return busy.Wait()
}

func (c *holders) close() error {
	var errs []error
	for _, h := range c.holders {
		errs = append(errs, h.web.close())
	}
	return errors.Join(errs...)
}

// renewals takes how many leases a second are renewed by holders that do nothing else,
// and then what it costs to keep as many alive as there may be.
func (s *leaseSite) renewals(ctx context.Context) (err error) {
	const name = "lease.renewals_per_s"
	c, err := s.startHolders(ctx, liveLeases)
	if err != nil {
		return fmt.Errorf("%s: acquire %d leases: %w", name, liveLeases, err)
	}
	defer func() { err = errors.Join(err, c.close()) }()
	before, began := s.entries(ctx), time.Now()
	var done atomic.Int64
	if err := c.all(ctx, func(n int) error {
		for i := 0; time.Since(began) < renewFor; i = (i + 1) % len(c.tokens[n]) {
			if err := c.holders[n].renew(leaseName(c.first[n]+i), c.tokens[n][i]); err != nil {
				return err
			}
			done.Add(1)
		}
		return nil
	}); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	took := time.Since(began).Seconds()
	s.bench.Report.Add(name, float64(done.Load())/took, "/s", AtLeast(5000),
		fmt.Sprintf("%d holders, a third at each peer; %.0f entries of the log a second, %.1f renewals each",
			leaseHolders, float64(s.entries(ctx)-before)/took, float64(done.Load())/float64(max(1, s.entries(ctx)-before))))
	return s.live(ctx, c)
}

// live renews every lease every ten seconds, evenly, and takes the leader's processor
// time.
func (s *leaseSite) live(ctx context.Context, c *holders) error {
	const name = "lease.live_10000_cpu_percent"
	leader, _, err := s.fleet.roles(ctx)
	if err != nil {
		return err
	}
	var used time.Duration
	var began time.Time
	var entries uint64
	beat := liveEvery / time.Duration(len(c.tokens[0]))
	for round := range liveRounds {
		if round == 1 {
			if used, err = cpuOf(leader.serving.Process.Pid); err != nil {
				return err
			}
			entries, began = s.entries(ctx), time.Now()
		}
		profiled := s.fleet.profile(ctx, s.bench, "live")
		if err := c.all(ctx, func(n int) error { return c.round(ctx, n, beat) }); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := profiled(); err != nil {
			return err
		}
	}
	now, err := cpuOf(leader.serving.Process.Pid)
	if err != nil {
		return err
	}
	took := time.Since(began).Seconds()
	s.bench.Report.Add(name, 100*(now-used).Seconds()/took, "%", AtMost(10),
		fmt.Sprintf(
			"%d leases, %.0f renewals a second at all peers, during %.0f s; %.0f entries of the log a second; of one core",
			liveLeases, float64(liveLeases*(liveRounds-1))/took, took, float64(s.entries(ctx)-entries)/took))
	return nil
}

// round renews the leases of one holder, one each beat. Holders begin one after the
// other, so that they do not ask all at once.
func (c *holders) round(ctx context.Context, n int, beat time.Duration) error {
	next := time.Now().Add(beat * time.Duration(n) / time.Duration(len(c.holders)))
	end := time.Now().Add(liveEvery)
	for i, token := range c.tokens[n] {
		if err := pause(ctx, time.Until(next)); err != nil {
			return err
		}
		if err := c.holders[n].renew(leaseName(c.first[n]+i), token); err != nil {
			return err
		}
		next = next.Add(beat)
	}
	return pause(ctx, time.Until(end))
}

// entries returns how far the log is.
func (s *leaseSite) entries(ctx context.Context) uint64 {
	status, err := s.fleet[0].status(ctx)
	if err != nil {
		s.bench.Say("%v", err)
	}
	return status.Index
}
