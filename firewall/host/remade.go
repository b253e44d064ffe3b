package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/firewall/netif"
	"github.com/trivet-ha/trivet/firewall/nftables"
	"github.com/trivet-ha/trivet/internal/logs"
	"github.com/trivet-ha/trivet/internal/pace"
)

const (
	// A filter that could not be made is tried again after retryFirst, then after
	// twice as long each time, and every lateEvery in the end: an interface that
	// moves is busy for a moment, a missing directory may be missing for days.
	retryFirst = 250 * time.Millisecond
	lateEvery  = 15 * time.Second
	// placeEvery is how often the place of firewall.interface is looked at: for so
	// long a host may answer machines on a bridge to which the interface was added.
	placeEvery = time.Second
)

// remadeFilter is the filter of a host, made again where that is needed: until it
// can be made, and as soon as its interface has another place.
// A machine that is too busy to answer in time, a directory that is not there yet,
// and an interface that is added to a bridge need no restart. Until it is made it
// fails at everything. Its methods may be called concurrently.
type remadeFilter struct {
	make maker
	look func(known int) (netif.Place, error)
	log  *slog.Logger
	news chan struct{} // holds one; never closed

	// use is held for reading by each call of a filter: none is closed under a call.
	use sync.RWMutex
	mu  sync.Mutex
	now Filter // one that opens nothing until it could be made
}

// maker makes a host's filter, and tells of the table that keeps everything out until
// that is done. If it fails it may return what goes on doing that.
type maker func(meanwhile func(*nftables.Filter)) (Filter, error)

// errUnderWay is why a filter opens nothing while its successor is made.
var errUnderWay = fmt.Errorf("%w: its successor is being made", firewall.ErrMisplaced)

// newRemadeFilter returns the filter after the first attempt, which gave first.
func newRemadeFilter(first Filter, again maker, look func(known int) (netif.Place, error), log *slog.Logger) Filter {
	l := &remadeFilter{make: again, look: look, log: log, news: make(chan struct{}, 1), now: first}
	return Filter{Chains: l, Lease: l, Foreign: l.news, Driver: first.Driver, Run: l.keepRemade,
		close: []func() error{l.close}}
}

// keepRemade lets the filter run, and makes it again when it has to, until ctx ends.
func (l *remadeFilter) keepRemade(ctx context.Context) {
	for made := l.inner(); ctx.Err() == nil; made = l.inner() {
		if made.why == nil {
			l.runMade(ctx, made)
			continue
		}
		for pause := retryFirst; pace.Wait(ctx, pause) && !l.remake(); {
			pause = min(2*pause, lateEvery)
		}
	}
}

// runMade lets a filter run until its interface has another place or ctx ends, and
// makes its successor.
func (l *remadeFilter) runMade(ctx context.Context, made Filter) {
	life, end := context.WithCancel(ctx)
	defer end()
	var work sync.WaitGroup
	if made.Run != nil {
		work.Go(func() { made.Run(life) })
	}
	if made.Foreign != nil {
		work.Go(func() { pass(life, made.Foreign, l.news) })
	}
	failing := logs.Limit(l.log)
	for range pace.After(ctx, placeEvery) {
		now, err := l.look(made.place.Index)
		if err != nil {
			failing.Warn("look at the interface of the PXE filter failed, retrying", "err", err)
			continue
		}
		if now != made.place {
			l.log.Warn("packets of firewall.interface arrive elsewhere, making the PXE filter again", "from", made.place.Name,
				"to", now.Name)
			break
		}
	}
	end()
	work.Wait()
	if ctx.Err() != nil {
		return
	}
	l.remake()
}

// remake makes the filter once; the lists compare, and so build, what the kernel
// has then. The old filter writes nothing more as soon as its successor's table is
// built: it would put its own into the place of that.
func (l *remadeFilter) remake() bool {
	var old []Filter
	made, err := l.make(func(nft *nftables.Filter) {
		why := l.inner().why
		if why == nil {
			why = errUnderWay
		}
		old = append(old, l.replace(keptShut(nft, why)))
	})
	if err != nil {
		made = made.orBroken(err) // the newest reason
	} else {
		l.log.Info("PXE filter ready", "driver", made.Driver, "interface", made.place.Name)
	}
	old = append(old, l.replace(made))
	l.use.Lock() // until the calls of the old filters have ended
	defer l.use.Unlock()
	for _, f := range old {
		if err := f.Close(); err != nil {
			l.log.Warn("close the PXE filter of another interface failed", "interface", f.place.Name, "err", err)
		}
	}
	return err == nil
}

// replace puts a filter in force, and returns the one that was.
func (l *remadeFilter) replace(made Filter) (old Filter) {
	l.mu.Lock()
	old, l.now = l.now, made
	l.mu.Unlock()
	firewall.Tell(l.news)
	return old
}

func (l *remadeFilter) inner() Filter {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

func (l *remadeFilter) close() error { return l.inner().Close() }

// callFilter calls the filter that is in force.
func (l *remadeFilter) callFilter(call func(Filter) error) error {
	l.use.RLock()
	defer l.use.RUnlock()
	return call(l.inner())
}

// Replace implements firewall.Chains.
func (l *remadeFilter) Replace(ctx context.Context, r firewall.Ruleset) error {
	return l.callFilter(func(f Filter) error { return f.Chains.Replace(ctx, r) })
}

// Change implements firewall.Chains.
func (l *remadeFilter) Change(ctx context.Context, c firewall.Change) error {
	return l.callFilter(func(f Filter) error { return f.Chains.Change(ctx, c) })
}

// Read implements firewall.Chains.
func (l *remadeFilter) Read(ctx context.Context) (r firewall.Ruleset, err error) {
	err = l.callFilter(func(f Filter) (err error) {
		r, err = f.Chains.Read(ctx)
		return err
	})
	return r, err
}

// Arm implements firewall.Lease.
func (l *remadeFilter) Arm(ctx context.Context, d time.Duration) error {
	return l.callFilter(func(f Filter) error { return f.Lease.Arm(ctx, d) })
}

// Open implements firewall.Lease.
func (l *remadeFilter) Open(ctx context.Context, d time.Duration) error {
	return l.callFilter(func(f Filter) error { return f.Lease.Open(ctx, d) })
}

// Hold implements firewall.Lease.
func (l *remadeFilter) Hold(ctx context.Context, d time.Duration) error {
	return l.callFilter(func(f Filter) error { return f.Lease.Hold(ctx, d) })
}

// Shut implements firewall.Lease.
func (l *remadeFilter) Shut(ctx context.Context) error {
	return l.callFilter(func(f Filter) error { return f.Lease.Shut(ctx) })
}

// shut is a filter that keeps everything out and says why: its rules are on another
// interface than the configured one, or a part of it could not be made.
type shut struct {
	broken
	chains firewall.Chains
	lease  firewall.Lease
}

// keptShut is the filter of a host that has no more of it than the table in nf_tables.
func keptShut(nft *nftables.Filter, why error) Filter {
	lease := nft.Lease()
	s := shut{broken{why}, leased{new(noop), nft}, lease}
	return Filter{Chains: s, Lease: s, why: why, close: []func() error{lease.Close}}
}

// Replace implements firewall.Chains. It writes no lists, since without a lease no
// machine passes, and nothing at all where that is done.
func (s shut) Replace(ctx context.Context, _ firewall.Ruleset) error {
	none := firewall.Ruleset{}
	now, err := s.chains.Read(ctx)
	if err != nil || !now.Equal(none) {
		err = s.chains.Replace(ctx, none)
	}
	return errors.Join(s.err, err)
}

// Shut implements firewall.Lease.
func (s shut) Shut(ctx context.Context) error { return s.lease.Shut(ctx) }
