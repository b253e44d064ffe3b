package simtest

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/introspection"
)

// operators introspect the machines of a site again and again.
type operators struct {
	site    *Site
	stopped chan struct{} // closed by stop
	limit   time.Duration // of one introspection
	rest    time.Duration // of an operator after each
	// abandoned says that the run has failed: no end is waited for any more.
	abandoned atomic.Bool
	running   sync.WaitGroup

	mu    sync.Mutex
	ends  map[string]int // introspections that ended, by "finished" or the error's first words
	total int
}

// operate puts n operators to work, each with machines of its own, whose introspections
// end within a limit, and who rest after each.
func (s *Site) operate(n int, limit, rest time.Duration) *operators {
	o := &operators{site: s, stopped: make(chan struct{}), limit: limit, rest: rest, ends: make(map[string]int)}
	nodes := s.Nodes()
	for i := range n {
		o.running.Go(func() {
			for k := i; !o.over(); k = (k + n) % len(nodes) {
				if s.begin(nodes[k]) {
					o.attend(nodes[k])
				}
				o.pause()
			}
		})
	}
	return o
}

// endLimit bounds an introspection of the quick configuration: its time-out,
// a sweep, a session's ttl for each attempt, and the elections in between.
const endLimit = 3 * time.Minute

// attend waits for the end of an introspection and notes it.
func (o *operators) attend(node string) {
	began, era := time.Now(), o.site.c.foundings.Load()
	for !o.abandoned.Load() {
		if now := o.site.c.foundings.Load(); now != era { // it may be in the backup, as it was then, or not
			began, era = time.Now(), now
		}
		if v, ok := o.site.c.newest(); ok {
			rec, known := v.Record(node)
			if known && !rec.State.Active() {
				o.note(rec)
				return
			}
			if !known && era > 0 {
				return
			}
		}
		if time.Since(began) > o.limit {
			o.site.c.Oracle.broken("no-stuck: %s has not ended within %v", node, o.limit)
			return
		}
		time.Sleep(200 * time.Millisecond) // in a bubble
	}
}

func (o *operators) note(rec introspection.Record) {
	end := "finished"
	if rec.State == introspection.NodeError {
		words := strings.Fields(rec.Error)
		end = strings.Join(words[:min(6, len(words))], " ")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ends[end]++
	o.total++
}

func (o *operators) over() bool {
	select {
	case <-o.stopped:
		return true
	default:
		return false
	}
}

// pause is the rest of an operator.
func (o *operators) pause() {
	if o.rest == 0 {
		return
	}
	select {
	case <-o.stopped:
	case <-time.After(o.rest): // in a bubble
	}
}

// abandon ends the operators of a run that failed.
func (o *operators) abandon() {
	if !o.over() {
		o.abandoned.Store(true)
		o.stop()
	}
}

// stop lets the operators see the last introspections end.
func (o *operators) stop() {
	close(o.stopped)
	o.running.Wait()
}

// TestIntrospectionsUnderLosses loses leader after leader in every way while
// operators introspect without a pause. What is accepted ends in time, and most
// of it well: what a lost leader was processing itself is all that may fail.
func TestIntrospectionsUnderLosses(t *testing.T) {
	const perBubble, machines = 12, 24
	began := time.Now()
	total := max(lossesWanted(t)/10, 2*perBubble)
	t.Run("bubbles", func(t *testing.T) {
		for i := range (total + perBubble - 1) / perBubble {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				SimulateSite(t, 3, uint64(1000+i), func(c *Cluster) *Site {
					return NewSite(c, machines, quick(), patcher{})
				}, func(c *Cluster, s *Site) { s.loseUnderWork(i, perBubble) })
			})
		}
	})
	took := time.Since(began)
	t.Logf("%d losses in %v: %.0f a minute", total, took.Round(time.Millisecond), float64(total)/took.Minutes())
}

func (s *Site) loseUnderWork(seed, n int) {
	s.c.AwaitLeader(successionLimit)
	work := s.operate(8, endLimit, 0)
	losses := Losses()
	for i := range n {
		s.c.Lose(losses[(seed+i)%len(losses)])
		time.Sleep(time.Duration(s.c.rng.Int64N(int64(time.Second)))) // in a bubble
	}
	work.stop()
	s.c.Agree(successionLimit)
	if work.total < 2*n || work.ends["finished"] < work.total*9/10 {
		s.c.T.Errorf("of %d introspections in %d losses ended: %v", work.total, n, work.ends)
	}
	s.c.T.Logf("%d introspections: %v", work.total, work.ends)
}
