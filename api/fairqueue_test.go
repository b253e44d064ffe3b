package api

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// queued sends callers into a queue one after the other and notes in which order
// they are served; each ends before the next begins.
type queued struct {
	t *testing.T
	q *fairQueue

	mu      sync.Mutex // guards the rest while callers run
	served  []string
	refused []string
}

// come returns once the caller waits, was served or was refused.
func (q *queued) come(name string, known class, source int) {
	go func() {
		err := q.q.enter(q.t.Context(), known, numbered(source))
		q.mu.Lock()
		defer q.mu.Unlock()
		if err != nil {
			q.refused = append(q.refused, name)
			return
		}
		q.served = append(q.served, name)
		q.q.leave()
	}()
	synctest.Wait()
}

// outcome returns who was served and who was refused so far, in that order.
func (q *queued) outcome() (served, refused string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return strings.Join(q.served, " "), strings.Join(q.refused, " ")
}

func numbered(n int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}), 32)
}

// Classes are served in turn, within them sources, and those of one source in order.
func TestSourcesAreServedInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queued{t: t, q: newFairQueue(1, "busy")}
		if err := q.q.enter(t.Context(), newcomer, numbered(0)); err != nil {
			t.Fatal(err)
		}
		for n := range 4 {
			q.come(fmt.Sprint("a", n), newcomer, 1)
		}
		q.come("b0", newcomer, 2)
		q.come("s0", knownSource, 1)
		q.come("c0", knownCredentials, 1)
		q.come("c1", knownCredentials, 1)
		q.q.leave()
		synctest.Wait()
		if got, _ := q.outcome(); got != "a0 s0 c0 b0 c1 a1 a2 a3" {
			t.Errorf("served %s", got)
		}
	})
}

// Who comes from many addresses, or often from one, fills the line for itself.
func TestAFullQueueHasRoomForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queued{t: t, q: newFairQueue(1, "busy")}
		if err := q.q.enter(t.Context(), newcomer, numbered(0)); err != nil {
			t.Fatal(err)
		}
		for source := 1; source <= 2; source++ {
			for n := range maxWaitingOfSource + 1 {
				q.come(fmt.Sprintf("%d-%d", source, n), newcomer, source)
			}
		}
		q.come("other", newcomer, 3)
		q.come("known", knownCredentials, 1)
		last := maxWaitingOfSource - 1
		want := fmt.Sprintf("1-%d 2-%d 1-%d", last+1, last+1, last)
		if _, got := q.outcome(); got != want && got != strings.Replace(want, fmt.Sprint(" 1-", last), fmt.Sprint(" 2-", last), 1) {
			t.Errorf("refused %s, want %s", got, want)
		}
		q.q.leave()
		synctest.Wait()
		if served, _ := q.outcome(); len(strings.Fields(served)) != maxWaiting+1 || q.q.idle != 1 {
			t.Errorf("%d served, %d places are idle", len(strings.Fields(served)), q.q.idle)
		}
	})
}

// What was given up in line holds no place.
func TestWhoGoesAwayLeavesTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queued{t: t, q: newFairQueue(1, "busy")}
		if err := q.q.enter(t.Context(), newcomer, numbered(0)); err != nil {
			t.Fatal(err)
		}
		for n := range 3 {
			q.come(fmt.Sprint("a", n), newcomer, n/2)
		}
		time.Sleep(maxQueueWait - time.Millisecond) // in a bubble
		synctest.Wait()
		if _, refused := q.outcome(); refused != "" {
			t.Errorf("told to come again too early: %s", refused)
		}
		time.Sleep(time.Millisecond) // in a bubble
		synctest.Wait()
		if _, refused := q.outcome(); len(strings.Fields(refused)) != 3 {
			t.Errorf("told to come again: %s, want three", refused)
		}
		q.q.leave()
		if q.q.idle != 1 || q.q.queues[newcomer].waiting != 0 || len(q.q.queues[newcomer].sources) != 0 {
			t.Errorf("places were never given back: %+v", q.q)
		}
	})
}
