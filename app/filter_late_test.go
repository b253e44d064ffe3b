package app

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/firewall"
)

// TestAFilterThatComesLate wants a host to get its filter without a restart, and
// the lists to be told.
func TestAFilterThatComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := errors.New("too busy"), errors.New("no directory")
		tries, closed := 0, false
		kernel := &firewall.Memory{}
		watched := make(chan struct{})
		f := newLateFilter("nftables", first, func() (filter, error) {
			if tries++; tries == 1 {
				return filter{}, second
			}
			return filter{chains: kernel, lease: kernel, driver: "nftables", foreign: watched,
				close: []func() error{func() error { closed = true; return nil }}}, nil
		}, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		var work sync.WaitGroup
		work.Go(func() { f.run(ctx) })
		defer work.Wait()
		defer stop()

		rules := firewall.Ruleset{Deny: []string{firewall.TestMAC}}
		if err := f.chains.Replace(t.Context(), rules); !errors.Is(err, first) {
			t.Errorf("before: %v", err)
		}
		time.Sleep(lateEvery)
		synctest.Wait()
		if err := f.lease.Shut(t.Context()); !errors.Is(err, second) {
			t.Errorf("after the second failure: %v", err)
		}
		time.Sleep(lateEvery)
		<-f.foreign
		if err := f.chains.Replace(t.Context(), rules); err != nil {
			t.Errorf("late-filter: %v", err)
		}
		if got, err := kernel.Read(t.Context()); err != nil || !got.Equal(rules) {
			t.Errorf("late-filter: the kernel has %+v, %v", got, err)
		}
		watched <- struct{}{}
		<-f.foreign
		if err := closeAll(f.close); err != nil || !closed {
			t.Errorf("closed: %v, %v", closed, err)
		}
	})
}
