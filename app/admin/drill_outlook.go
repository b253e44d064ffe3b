package admin

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/internal/pace"
)

// How a peer looks on: so often it asks, and for so long it waits for one answer.
const (
	lookEvery   = 20 * time.Millisecond
	lookTimeout = 200 * time.Millisecond
)

// Look looks on for a while: three questions are asked again and again, each by
// itself, so that one that hangs delays no other.
func (d *Drill) Look(ctx context.Context, looking time.Duration) Outlook {
	ctx, cancel := context.WithTimeout(ctx, looking)
	defer cancel()
	began := time.Now()
	out := Outlook{Guards: d.Door != nil, HasFloat: d.HasFloat}
	var work sync.WaitGroup
	work.Go(func() {
		out.APIMS = longestVain(ctx, func(ctx context.Context) error {
			_, err := d.Store.Read(ctx)
			return err
		}).Milliseconds()
	})
	if d.Address != "" {
		connect := func(ctx context.Context) error {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", d.Address)
			if err != nil {
				return err
			}
			return conn.Close()
		}
		work.Go(func() { out.AddressMS = longestVain(ctx, connect).Milliseconds() })
	}
	work.Go(func() { out.Door = d.doorOpen(ctx, began) })
	work.Wait()
	out.LookedMS = time.Since(began).Milliseconds()
	return out
}

// longestVain asks until ctx ends and returns the longest time from a question
// that was in vain to the next answer.
func longestVain(ctx context.Context, ask func(ctx context.Context) error) (longest time.Duration) {
	var since time.Time
	for range pace.Every(ctx, lookEvery) {
		began := time.Now()
		limited, cancel := context.WithTimeout(ctx, lookTimeout)
		err := ask(limited)
		cancel()
		if ctx.Err() != nil {
			return longest // what was asked last had no time to answer
		}
		if err != nil && since.IsZero() {
			since = began
		}
		if !since.IsZero() {
			longest = max(longest, time.Since(since))
		}
		if err == nil {
			since = time.Time{}
		}
	}
	return longest
}

// doorOpen returns when this host's door was open, since began.
func (d *Drill) doorOpen(ctx context.Context, began time.Time) []Span {
	spans := []Span{}
	if d.Door == nil {
		return spans
	}
	open := false
	for range pace.Every(ctx, lookEvery) {
		now := time.Since(began).Milliseconds()
		is := d.Door()
		if is && !open {
			spans = append(spans, Span{FromMS: now})
		}
		if open {
			spans[len(spans)-1].ToMS = now
		}
		open = is
	}
	return spans
}
