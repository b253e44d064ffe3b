package admission

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// What streams do at once is done in turn, at the pace of their class; one that goes away while
// it waits has not done it, and keeps nobody waiting.
func TestStreamsWorkInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams, each = 500, 10 * time.Millisecond
		c := NewController()
		pace := places[Stream].Each
		run := func(stay time.Duration) (all time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), stay)
			defer cancel()
			ended := make(chan time.Duration, streams)
			began := time.Now()
			for range streams {
				go func() {
					p, err := c.Admit(t.Context(), Stream, Caller{Source: numbered(1)})
					if err != nil {
						t.Error(err)
						return
					}
					defer p.Leave()
					_ = p.Pay(ctx, each, 0)
					ended <- time.Since(began)
				}()
			}
			for range streams {
				all = max(all, <-ended) // in a bubble
			}
			return all
		}
		work := streams * each.Seconds() * 1000 // ms
		least, most := (work-float64(pace.Burst))/pace.Rate, (work+float64(streams))/pace.Rate
		if all := run(time.Hour); all.Seconds() < least || all.Seconds() > most {
			t.Errorf("stream-pace: %d streams with %v of work each took %v, want %.1f to %.1f s", streams, each, all, least,
				most)
		}
		time.Sleep(time.Minute) // in a bubble
		run(time.Second)
		if all := run(time.Hour); all.Seconds() > (work+2*float64(streams))/pace.Rate {
			t.Errorf("stream-pace: after those who went away the next ones take %v", all)
		}
	})
}

// A storm of readers keeps no stream of a known source waiting: it waits for its own pace.
func TestKnownStreamsWaitForTheirSourceAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewController()
		storm := make(chan struct{}, 1000)
		for n := range cap(storm) {
			p, err := c.Admit(t.Context(), Stream, Caller{Source: numbered(1 + n)})
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				_ = p.Pay(t.Context(), 20*time.Millisecond, 0)
				p.Leave()
				storm <- struct{}{}
			}()
		}
		synctest.Wait()
		for _, known := range []bool{true, false} {
			p, err := c.Admit(t.Context(), Stream, Caller{Source: numbered(5000), Known: known})
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if err := p.Pay(t.Context(), 20*time.Millisecond, 0); err != nil || (time.Since(began) == 0) != known {
				t.Errorf("stream-known: known %v: waits %v beside a storm: %v", known, time.Since(began), err)
			}
			p.Leave()
		}
		for range cap(storm) {
			<-storm // in a bubble
		}
	})
}
