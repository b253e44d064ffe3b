package identify_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/inspector/identify"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/test/inspecttest"
)

// Callbacks of machines that nobody knows, each with many MACs and a BMC, cost
// Ironic its lists, read at a rate that does not depend on how many come.
func TestStrangersCostIronicLittle(t *testing.T) {
	for name, allow := range map[string]func(*inspecttest.Rig) *inspecttest.Service{"adopt": (*inspecttest.Rig).Permits,
		"discover": (*inspecttest.Rig).Discovers} {
		t.Run(name, func(t *testing.T) {
			inspecttest.InRig(t, func(o *inspecttest.Rig) {
				s := allow(o)
				began := time.Now()
				var posts sync.WaitGroup
				for n := range 200 {
					posts.Go(func() {
						var nics []string
						for i := range 100 {
							nics = append(nics, fmt.Sprintf(`{"name":"eth%d","mac_address":"52:54:01:00:%02x:%02x"}`, i, n, i))
						}
						body := fmt.Sprintf(
							`{"inventory":{"interfaces":[%s,{"name":"own","mac_address":%q}],"bmc_address":"198.18.9.9"}}`,
							strings.Join(nics, ","), inspecttest.MacB)
						_, err := s.Continue(o.Ctx, []byte(body))
						var said *inspecttest.Refusal
						if !errors.As(err, &said) || said.Status != 400 {
							t.Errorf("%d: %v", n, err)
						}
					})
					time.Sleep(50 * time.Millisecond) // in a bubble
				}
				posts.Wait()
				most := 2 * (identify.ReadBurst + 1 + int(time.Since(began)/identify.ReadInterval))
				if lists := len(o.Ironic.Sent("list")); lists > most || lists < 2 {
					t.Errorf("ironic-lists: 200 callbacks made Ironic list %d times in %v, at most %d", lists, time.Since(began), most)
				}
				if nodes := len(o.Ironic.Sent("node")); nodes > 200 {
					t.Errorf("ironic-lists: %d nodes were read", nodes)
				}
			})
		})
	}
}

// A machine that was enrolled a moment ago is known, however recent the last
// reading is.
func TestReadingIsNotOlderThanItsQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now atomic.Int64
		r := identify.NewSharedRead(func(context.Context) (int64, error) {
			was := now.Load()
			time.Sleep(time.Second) // in a bubble
			return was, nil
		})
		var asking sync.WaitGroup
		for n := range int64(20) {
			now.Store(n)
			asking.Go(func() {
				if got, err := r.Get(t.Context()); err != nil || got < n {
					t.Errorf("fresh: asked at %d, answered as of %d, %v", n, got, err)
				}
			})
			time.Sleep(300 * time.Millisecond) // in a bubble
		}
		asking.Wait()
	})
}

// Ironic is listed a fifth of the time at most, and nobody waits for long.
func TestReadingsArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var busy time.Duration
		r := identify.NewSharedRead(func(context.Context) (int, error) {
			busy += time.Second
			time.Sleep(time.Second) // in a bubble
			return 0, nil
		})
		began := time.Now()
		for time.Since(began) < 5*time.Minute {
			asked := time.Now()
			if _, err := r.Get(t.Context()); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(asked); took > identify.LongestRead+2*time.Second {
				t.Errorf("waited for %v", took)
			}
		}
		if share := float64(busy) / float64(time.Since(began)); share > 0.3 {
			t.Errorf("ironic-lists: it is read %.0f %% of the time", 100*share)
		}
	})
}

// Who gives up, or may not go on, answers for itself alone; what Ironic says is
// the answer to all.
func TestReadingOfOneThatGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failure := error(nil)
		r := identify.NewSharedRead(func(ctx context.Context) (int, error) {
			select {
			case <-time.After(time.Second):
				return 7, failure
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		})
		hasty, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		var asking sync.WaitGroup
		asking.Go(func() {
			if _, err := r.Get(hasty); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("hasty: %v", err)
			}
		})
		time.Sleep(10 * time.Millisecond) // in a bubble
		if got, err := r.Get(t.Context()); got != 7 || err != nil {
			t.Errorf("the next: %d, %v", got, err)
		}
		asking.Wait()
		failure = inspecttest.Away()
		if _, err := r.Get(t.Context()); !ironic.Unjudged(err) {
			t.Errorf("Ironic is away: %v", err)
		}
	})
}

// Callers that give up, before the reading or in it, by hanging up or by a short limit, and
// however long it takes, leave the pace as it was: whoever comes after them and waits is
// answered as if they had not come.
func TestThoseWhoGiveUpCostNoPace(t *testing.T) {
	for name, c := range map[string]struct {
		lasts time.Duration // of those who give up
		limit bool          // they have a deadline; else they hang up
		takes time.Duration // the reading
	}{
		"hang up, quick list":      {50 * time.Millisecond, false, 100 * time.Millisecond},
		"hang up, slow list":       {50 * time.Millisecond, false, 3 * time.Second},
		"hang up late, slow list":  {1900 * time.Millisecond, false, 3 * time.Second},
		"short limit, quick list":  {50 * time.Millisecond, true, 100 * time.Millisecond},
		"short limit, slow list":   {900 * time.Millisecond, true, 3 * time.Second},
		"hang up, list at once":    {50 * time.Millisecond, false, 0},
		"limit of a search's word": {3 * time.Second, true, 2 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			var lists int
			takes := c.takes
			r := identify.NewSharedRead(func(ctx context.Context) (int, error) {
				lists++
				select {
				case <-time.After(takes):
					return 1, nil
				case <-ctx.Done():
					return 0, ctx.Err()
				}
			})
			began := time.Now()
			var posts sync.WaitGroup
			for range 600 {
				posts.Go(func() {
					ctx, cancel := context.WithCancel(t.Context())
					if c.limit {
						ctx, cancel = context.WithTimeout(t.Context(), c.lasts)
					}
					defer cancel()
					defer time.AfterFunc(c.lasts, cancel).Stop()
					_, _ = r.Get(ctx) // it gives up, or was lucky
				})
				time.Sleep(10 * time.Millisecond) // in a bubble
			}
			posts.Wait()
			most := identify.ReadBurst + 1 + int(time.Since(began)/identify.ReadInterval)
			if lists > most {
				t.Errorf("given-up: %s: Ironic listed %d times, at most %d", name, lists, most)
			}
			for range 3 {
				asked := time.Now()
				honest, cancel := context.WithTimeout(t.Context(), identify.LongestRead+2*takes+time.Second)
				if got, err := r.Get(honest); got != 1 || err != nil {
					t.Errorf("given-up: %s: an honest caller gets %d, %v after %v", name, got, err, time.Since(asked))
				}
				cancel()
			}
		})
	}
}

// A list that was slow and is quick again keeps nobody waiting for what it was.
func TestPaceOfASlowListEndsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		takes := 2 * time.Second
		r := identify.NewSharedRead(func(context.Context) (int, error) {
			time.Sleep(takes) // in a bubble
			return 1, nil
		})
		for n := range 12 {
			if n >= 6 {
				takes = 10 * time.Millisecond
			}
			asked := time.Now()
			if _, err := r.Get(t.Context()); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(asked); took > identify.LongestRead+takes+time.Second {
				t.Errorf("slow-pace: reading %d is waited for for %v", n, took)
			}
		}
	})
}

// Who would give up before its turn is told so at once, and lets the next one try.
func TestReadingThatIsTooLateIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := identify.NewSharedRead(func(context.Context) (int, error) { return 1, nil })
		for range identify.ReadBurst {
			if _, err := r.Get(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		asked := time.Now()
		hasty, cancel := context.WithTimeout(t.Context(), identify.ReadInterval/2)
		defer cancel()
		if _, err := r.Get(hasty); !errors.Is(err, context.DeadlineExceeded) || time.Since(asked) > 0 {
			t.Errorf("too-late: %v after %v", err, time.Since(asked))
		}
	})
}
