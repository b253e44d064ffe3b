package firewall

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm/ironicports"
)

// running is what a duty does inside a bubble until the function that is
// returned has been called.
func running(run func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { run(ctx) })
	return func() { cancel(); work.Wait() }
}

// Other terms are in the kernel at once, and the leader's rules are not built
// anew for them.
func TestTermsOfTheListsAreReloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		chains := &counted{}
		lists := NewLists(chains, r, Policy{Discovery: true}, 0, nil, slog.New(slog.DiscardHandler))
		defer running(lists.Run)()
		r.lead()
		lists.Lead(r.token)
		for _, p := range []Policy{{Discovery: true}, {}, {Discovery: true}, {Discovery: true, DenyUnknown: true}} {
			lists.Renew(Terms{Policy: p})
			synctest.Wait()
			want := p.Discovery && !p.DenyUnknown
			now, _ := lists.State()
			if got, err := chains.Read(t.Context()); err != nil || got.Pass != want || now.Pass != want || now.Err != nil {
				t.Errorf(
					"renewed-policy: with %+v the kernel lets unknown machines through: %t, and they are said to be: %t, want %t (%v, %v)",
					p, got.Pass, now.Pass, want, err, now.Err)
			}
		}
		if chains.replaced != 1 {
			t.Errorf("the rules were built %d times, want once", chains.replaced)
		}
	})
}

// The kernel is looked at as often as the newest terms say.
func TestComparisonsAreReloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		chains := &looked{}
		lists := NewLists(chains, r, Policy{}, 0, nil, slog.New(slog.DiscardHandler))
		defer running(lists.Run)()
		for _, step := range []struct {
			every time.Duration
			want  int32
		}{{0, 0}, {time.Minute, 10}, {30 * time.Second, 20}, {0, 0}} {
			lists.Renew(Terms{Compare: step.every})
			synctest.Wait()
			before := chains.reads.Load()
			time.Sleep(10*time.Minute + time.Second) // in a bubble
			if got := chains.reads.Load() - before; got != step.want {
				t.Errorf("renewed-comparison: every %v the rules were read back %d times in 10 m, want %d", step.every, got,
					step.want)
			}
		}
	})
}

type looked struct {
	rules
	reads atomic.Int32
}

func (c *looked) Read(ctx context.Context) (Ruleset, error) {
	c.reads.Add(1)
	return c.rules.Read(ctx)
}

// A new period counts from the newest pull: an old one of hours has not to end
// first, and a failure is tried again as soon as ever.
func TestPeriodOfThePullIsReloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.lead()
		var ironic asked
		pull := NewPull(&ironic, r, 24*time.Hour, slog.New(slog.DiscardHandler))
		defer running(func(ctx context.Context) {
			if err := pull.Run(ctx, r); err != nil {
				t.Error(err)
			}
		})()
		time.Sleep(time.Hour) // in a bubble
		pull.Renew(10 * time.Minute)
		synctest.Wait()
		if got := ironic.times.Load(); got != 2 {
			t.Errorf("renewed-period: an hour after the first pull, with a period of 10 m: %d pulls, want 2", got)
		}
		time.Sleep(time.Hour + time.Second) // in a bubble
		pull.Renew(0)
		synctest.Wait()
		before := ironic.times.Load()
		time.Sleep(time.Hour) // in a bubble
		if got := ironic.times.Load(); before != 8 || got != before {
			t.Errorf("renewed-period: %d pulls after another hour, want 8; %d without a period", before, got)
		}
	})
}

// asked is an Ironic that counts lists and has no ports.
type asked struct{ times atomic.Int32 }

func (a *asked) AllPorts(context.Context) ([]ironicports.Port, error) {
	if a.times.Add(1) > 100 {
		return nil, errors.New("too often")
	}
	return nil, nil
}
