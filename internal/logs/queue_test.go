package logs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// pipe is a stream whose reader may stop, or be gone.
type pipe struct {
	full  chan struct{} // has one while its reader has stopped; never closed
	gone  error
	then  func() // for each line
	wrote []string
}

func (p *pipe) Write(text []byte) (int, error) {
	p.full <- struct{}{}
	defer func() { <-p.full }()
	if p.gone != nil {
		return 0, p.gone
	}
	if p.wrote = append(p.wrote, string(text)); p.then != nil {
		p.then()
	}
	return len(text), nil
}

func newQueue() (*pipe, *Queue) {
	p := &pipe{full: make(chan struct{}, 1)}
	return p, NewQueue(p, func(lost uint64) []byte { return fmt.Appendf(nil, "lost %d\n", lost) })
}

// hundreds are lines of a queue, of 100 bytes.
func hundreds(from, to int) []string {
	var out []string
	for n := from; n < to; n++ {
		out = append(out, fmt.Sprintf("%099d\n", n))
	}
	return out
}

func addAll(q *Queue, lines []string) {
	for _, l := range lines {
		text := []byte(l)
		q.Add(text)
		text[0] = 'x' // it is the caller's
	}
}

// TestQueueWaitsForNoReader: lines are kept within a bound, the rest is counted, and told at its place.
func TestQueueWaitsForNoReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, q := newQueue()
		addAll(q, hundreds(0, 3))
		if q.Flush(time.Second); !slices.Equal(p.wrote, hundreds(0, 3)) || q.Fault() != nil {
			t.Fatalf("log-of-a-reader: %v, %v", p.wrote, q.Fault())
		}
		p.full <- struct{}{}
		const many = 20_000
		addAll(q, hundreds(3, many))
		addAll(q, []string{"short\n"}) // for which there is room
		lost := int(q.Lost())
		if kept := many - 3 - lost; kept != maxQueued/(100+lineCost) {
			t.Errorf("log-queue-is-bounded: %d lines are kept", kept)
		}
		began := time.Now()
		for range 5 {
			q.Flush(time.Second)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("last-words-are-bounded: the end waits %v", took)
		}
		time.Sleep(stuckAfter) // in a bubble
		if err := q.Fault(); err == nil || !strings.Contains(err.Error(), "under way for 11s") {
			t.Errorf("log-unread-is-told: %v", err)
		}
		<-p.full
		synctest.Wait() // else the write that Flush waited for in vain may not have ended
		want := append(hundreds(0, many-lost), fmt.Sprintf("lost %d\n", lost), "short\n")
		if lost == 0 || !slices.Equal(p.wrote, want) {
			t.Errorf("lost-lines-are-told: %d lines, %d lost, the newest %q", len(p.wrote), lost, p.wrote[len(p.wrote)-3:])
		}
		if err := q.Fault(); !errors.Is(err, errSlow) {
			t.Errorf("log-unread-is-told: lines were lost just now: %v", err)
		}
		if time.Sleep(lossHold); q.Fault() != nil || int(q.Lost()) != lost || q.size != 0 { // in a bubble
			t.Errorf("log-of-a-reader: %v, lost %d, holds %d bytes", q.Fault(), q.Lost(), q.size)
		}
	})
}

// TestQueueTellsAtItsEnd, where no line follows those that were lost.
func TestQueueTellsAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, q := newQueue()
		p.full <- struct{}{}
		addAll(q, hundreds(0, 10_000))
		<-p.full
		synctest.Wait()
		if last := p.wrote[len(p.wrote)-1]; last != fmt.Sprintf("lost %d\n", q.Lost()) {
			t.Errorf("lost-lines-are-told: the last line is %q", last)
		}
	})
}

// TestQueueOutlivesItsReader: a write that fails costs its line alone.
func TestQueueOutlivesItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, q := newQueue()
		p.gone = syscall.EPIPE
		for _, l := range hundreds(0, 5) {
			addAll(q, []string{l})
			q.Flush(time.Second)
		}
		if err := q.Fault(); !errors.Is(err, syscall.EPIPE) || q.Lost() != 5 {
			t.Errorf("log-unread-is-told: %v, %d lines lost", err, q.Lost())
		}
		p.gone = nil
		addAll(q, hundreds(5, 7))
		q.Flush(time.Second)
		if want := append([]string{"lost 5\n"}, hundreds(5, 7)...); !slices.Equal(p.wrote, want) {
			t.Errorf("lost-lines-are-told: wrote %q", p.wrote)
		}
	})
}

// TestFlushWaitsForEarlierLines alone: a busy log may never be empty.
func TestFlushWaitsForEarlierLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, q := newQueue()
		p.full <- struct{}{}
		addAll(q, hundreds(0, 2))
		began, flushed := time.Now(), make(chan time.Duration, 1)
		go func() {
			q.Flush(time.Minute)
			flushed <- time.Since(began)
		}()
		synctest.Wait()
		p.then = func() { // each line takes a second, and another one comes
			if len(p.wrote) < 10 {
				addAll(q, hundreds(2, 3))
			}
			time.Sleep(time.Second) // in a bubble
		}
		<-p.full
		if took := <-flushed; took != 2*time.Second {
			t.Errorf("last-words-are-bounded: two lines took %v", took)
		}
		time.Sleep(time.Minute) // in a bubble
	})
}

// TestQueueTakesALongLine, which alone is longer than the bound.
func TestQueueTakesALongLine(t *testing.T) {
	p, q := newQueue()
	q.Add(make([]byte, 2*maxQueued))
	if q.Flush(time.Minute); len(p.wrote) != 1 || q.Lost() != 0 {
		t.Errorf("log-of-a-reader: %d lines, %d lost", len(p.wrote), q.Lost())
	}
}
