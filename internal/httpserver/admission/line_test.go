package admission

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// The lanes of these tests, and a line of one place.
const (
	newcomer = iota
	knownSource
	knownCredentials
)

var one = Places{AtOnce: 1, Share: 1, Waiting: 512, Wait: 30 * time.Second}

// queued sends callers into a queue one after the other and notes in which order
// they are served; each ends before the next begins.
type queued struct {
	t *testing.T
	q *Line

	mu      sync.Mutex // guards the rest while callers run
	served  []string
	refused []string
}

// come returns once the caller waits, was served or was refused.
func (q *queued) come(name string, known int, source int) {
	go func() {
		err := q.q.Enter(q.t.Context(), known, numbered(source))
		q.mu.Lock()
		defer q.mu.Unlock()
		if err != nil {
			q.refused = append(q.refused, name)
			return
		}
		q.served = append(q.served, name)
		q.q.Leave(numbered(source))
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
		q := &queued{t: t, q: NewLine(one, 3)}
		if err := q.q.Enter(t.Context(), newcomer, numbered(0)); err != nil {
			t.Fatal(err)
		}
		for n := range 4 {
			q.come(fmt.Sprint("a", n), newcomer, 1)
		}
		q.come("b0", newcomer, 2)
		q.come("s0", knownSource, 1)
		q.come("c0", knownCredentials, 1)
		q.come("c1", knownCredentials, 1)
		q.q.Leave(numbered(0))
		synctest.Wait()
		if got, _ := q.outcome(); got != "a0 s0 c0 b0 c1 a1 a2 a3" {
			t.Errorf("served %s", got)
		}
	})
}

// Who comes from many addresses, or often from one, fills the line for itself.
func TestAFullQueueHasRoomForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queued{t: t, q: NewLine(one, 3)}
		if err := q.q.Enter(t.Context(), newcomer, numbered(0)); err != nil {
			t.Fatal(err)
		}
		for source := 1; source <= 2; source++ {
			for n := range one.Waiting/2 + 1 {
				q.come(fmt.Sprintf("%d-%d", source, n), newcomer, source)
			}
		}
		q.come("other", newcomer, 3)
		q.come("known", knownCredentials, 1)
		last := one.Waiting/2 - 1
		want := fmt.Sprintf("1-%d 2-%d 1-%d", last+1, last+1, last)
		if _, got := q.outcome(); got != want &&
			got != strings.Replace(want, fmt.Sprint(" 1-", last), fmt.Sprint(" 2-", last), 1) {
			t.Errorf("refused %s, want %s", got, want)
		}
		q.q.Leave(numbered(0))
		synctest.Wait()
		if served, _ := q.outcome(); len(strings.Fields(served)) != one.Waiting+1 || q.q.idle != 1 {
			t.Errorf("%d served, %d places are idle", len(strings.Fields(served)), q.q.idle)
		}
	})
}

// What was given up in line holds no place.
func TestWhoGoesAwayLeavesTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queued{t: t, q: NewLine(one, 3)}
		if err := q.q.Enter(t.Context(), newcomer, numbered(0)); err != nil {
			t.Fatal(err)
		}
		for n := range 3 {
			q.come(fmt.Sprint("a", n), newcomer, n/2)
		}
		time.Sleep(one.Wait - time.Millisecond) // in a bubble
		synctest.Wait()
		if _, refused := q.outcome(); refused != "" {
			t.Errorf("told to come again too early: %s", refused)
		}
		time.Sleep(time.Millisecond) // in a bubble
		synctest.Wait()
		if _, refused := q.outcome(); len(strings.Fields(refused)) != 3 {
			t.Errorf("told to come again: %s, want three", refused)
		}
		q.q.Leave(numbered(0))
		if q.q.idle != 1 || q.q.lanes[newcomer].waiting != 0 || len(q.q.lanes[newcomer].sources) != 0 {
			t.Errorf("places were never given back: %+v", q.q)
		}
	})
}

// A source has its share of the places and no more, however many are idle.
func TestASourceHasItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLine(Places{AtOnce: 4, Share: 3, Waiting: 8, Wait: time.Second}, 1)
		for range 3 {
			if err := l.Enter(t.Context(), 0, numbered(1)); err != nil {
				t.Fatal(err)
			}
		}
		fourth := make(chan error, 1)
		go func() { fourth <- l.Enter(t.Context(), 0, numbered(1)) }()
		synctest.Wait()
		if len(fourth) != 0 {
			t.Fatalf("line-share: a source has a fourth place: %v", <-fourth)
		}
		if err := l.Enter(t.Context(), 0, numbered(2)); err != nil {
			t.Errorf("line-share: another source: %v", err)
		}
		l.Leave(numbered(2))
		synctest.Wait()
		if len(fourth) != 0 {
			t.Fatalf("line-share: a source has the place of another: %v", <-fourth)
		}
		l.Leave(numbered(1))
		synctest.Wait()
		if err := <-fourth; err != nil { // in a bubble
			t.Errorf("line-share: its next one: %v", err)
		}
		for range 3 {
			l.Leave(numbered(1))
		}
		if idle, waiting := l.Idle(); idle != 4 || waiting != 0 || len(l.in) != 0 {
			t.Errorf("line-share: %d idle, %d wait, %d sources are in", idle, waiting, len(l.in))
		}
	})
}

// A caller who goes away while it waits holds nothing.
func TestACallerGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLine(one, 1)
		if err := l.Enter(t.Context(), 0, numbered(1)); err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		ended := make(chan error, 1)
		go func() { ended <- l.Enter(ctx, 0, numbered(2)) }()
		synctest.Wait()
		leave(gone)
		if err := <-ended; !errors.Is(err, gone) { // in a bubble
			t.Errorf("line-left: %v", err)
		}
		l.Leave(numbered(1))
		if idle, waiting := l.Idle(); idle != 1 || waiting != 0 {
			t.Errorf("line-left: %d idle, %d wait", idle, waiting)
		}
	})
}
