package app

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/firewall"
)

// lateEvery is how long after a failure a filter is made again.
const lateEvery = 15 * time.Second

// lateFilter stands in for the filter of a host that could not have one when its
// peer started: the machine was too busy to answer in time, or a directory was
// not there yet. It fails at everything, and is made again until it can be; then
// it is that filter. Its methods may be called concurrently.
type lateFilter struct {
	make func() (filter, error)
	log  *slog.Logger
	news chan struct{} // holds one; never closed

	mu  sync.Mutex
	now filter // all broken until one could be made
}

// newLateFilter returns the stand-in after the first failure.
func newLateFilter(driver string, first error, again func() (filter, error), log *slog.Logger) filter {
	l := &lateFilter{make: again, log: log, news: make(chan struct{}, 1)}
	l.now = broken{first}.filter()
	return filter{chains: l, lease: l, foreign: l.news, driver: driver, run: l.run, close: []func() error{l.close}}
}

// run makes the filter and lets it run, until ctx ends.
func (l *lateFilter) run(ctx context.Context) {
	made, ok := l.await(ctx)
	if !ok {
		return
	}
	l.log.Info("PXE filter ready", "driver", made.driver)
	tell(l.news) // the lists compare, and so build, what the kernel has
	var work sync.WaitGroup
	if made.run != nil {
		work.Go(func() { made.run(ctx) })
	}
	if made.foreign != nil {
		work.Go(func() { pass(ctx, made.foreign, l.news) })
	}
	work.Wait()
}

// await makes the filter as often as it takes; not ok says that ctx ended.
func (l *lateFilter) await(ctx context.Context) (made filter, ok bool) {
	tick := time.NewTicker(lateEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return filter{}, false
		}
		made, err := l.make()
		if err != nil {
			made = broken{err}.filter() // the newest reason
		}
		l.mu.Lock()
		l.now = made
		l.mu.Unlock()
		if err == nil {
			return made, true
		}
	}
}

func (l *lateFilter) inner() filter {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

func (l *lateFilter) close() error { return closeAll(l.inner().close) }

// Replace implements firewall.Chains.
func (l *lateFilter) Replace(ctx context.Context, r firewall.Ruleset) error {
	return l.inner().chains.Replace(ctx, r)
}

// Change implements firewall.Chains.
func (l *lateFilter) Change(ctx context.Context, c firewall.Change) error {
	return l.inner().chains.Change(ctx, c)
}

// Read implements firewall.Chains.
func (l *lateFilter) Read(ctx context.Context) (firewall.Ruleset, error) {
	return l.inner().chains.Read(ctx)
}

// Arm implements firewall.Lease.
func (l *lateFilter) Arm(ctx context.Context, d time.Duration) error {
	return l.inner().lease.Arm(ctx, d)
}

// Open implements firewall.Lease.
func (l *lateFilter) Open(ctx context.Context, d time.Duration) error {
	return l.inner().lease.Open(ctx, d)
}

// Hold implements firewall.Lease.
func (l *lateFilter) Hold(ctx context.Context, d time.Duration) error {
	return l.inner().lease.Hold(ctx, d)
}

// Shut implements firewall.Lease.
func (l *lateFilter) Shut(ctx context.Context) error { return l.inner().lease.Shut(ctx) }
