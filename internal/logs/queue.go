package logs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// Bounds of a Queue.
const (
	maxQueued  = 1 << 20          // of the lines that wait, in bytes, with lineCost for each
	stuckAfter = 10 * time.Second // a write that lasts longer is a fault
	lossHold   = time.Minute      // for how long a lost line is one
)

// errSlow is the fault of a stream that takes lines, but not all.
var errSlow = errors.New("it takes fewer lines than are logged")

// Queue writes lines, in the order in which they came, to a stream that may block or fail: no
// caller waits for its reader. Lines that find no room, or fail, are lost; they are counted, and
// a line in their place says so once the stream takes lines again. Methods may be called
// concurrently; of a nil Queue Lost and Fault know nothing.
type Queue struct {
	to   io.Writer
	tell func(lost uint64) []byte // the line that tells of them

	mu      sync.Mutex
	waiting []queuedLine
	size    int       // of waiting and of the line that is being written, in bytes
	gap     uint64    // lines that were lost after the newest of waiting
	untold  uint64    // lines that were lost before the oldest
	writing bool      // a goroutine does
	began   time.Time // when the present write began; zero: there is none
	inVain  bool      // Flush has waited for the present write for as long as it may
	fault   error     // of the newest write
	lost    uint64
	lostAt  time.Time // the newest of them
}

// queuedLine is one that waits, or the end of those that Flush waits for.
type queuedLine struct {
	text []byte
	gap  uint64        // lines that were lost just before it
	end  chan struct{} // closed by the goroutine that writes; nil: it is a line
}

// NewQueue returns a queue to a stream, which nothing else may write to.
func NewQueue(to io.Writer, tell func(lost uint64) []byte) *Queue { return &Queue{to: to, tell: tell} }

// Add appends a line, which the caller may change afterwards. It never blocks.
func (q *Queue) Add(text []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	cost := len(text) + lineCost
	if q.size+cost > maxQueued && len(q.waiting) > 0 {
		q.gap++
		q.lose()
		return
	}
	q.waiting = append(q.waiting, queuedLine{text: bytes.Clone(text), gap: q.gap})
	q.size += cost
	q.gap = 0
	if !q.writing {
		q.writing = true
		go q.drain() // Flush waits for it, within bounds: the stream may never take its line
	}
}

func (q *Queue) lose() {
	q.lost++
	q.lostAt = time.Now()
}

// drain writes until nothing waits.
func (q *Queue) drain() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		for len(q.waiting) > 0 {
			line := q.waiting[0]
			q.waiting[0] = queuedLine{} // else the slice below holds it
			q.waiting = q.waiting[1:]
			q.untold += line.gap
			knows := q.tellLost()
			if line.end != nil {
				close(line.end)
				continue
			}
			if knows {
				q.write(line.text)
			}
			q.size -= len(line.text) + lineCost
			if q.fault != nil {
				q.untold++
				q.lose()
			}
		}
		q.untold, q.gap = q.untold+q.gap, 0
		if q.untold == 0 || q.fault != nil {
			break
		}
		q.tellLost() // while the lock is given back there, lines may come
	}
	q.waiting, q.writing = nil, false
}

// tellLost tells of the lines that are missing at this point. It reports whether the stream knows.
func (q *Queue) tellLost() bool {
	if n := q.untold; n > 0 {
		if q.write(q.tell(n)); q.fault != nil {
			return false
		}
		q.untold -= n
	}
	return true
}

// write gives the lock back for as long as the stream takes.
func (q *Queue) write(text []byte) {
	q.began = time.Now()
	q.mu.Unlock()
	_, err := q.to.Write(text)
	q.mu.Lock()
	q.began, q.inVain, q.fault = time.Time{}, false, err
}

// Flush waits until the stream has what was added before, for at most limit. For a write that
// one call has waited for in vain no other waits: a process that ends says several things.
func (q *Queue) Flush(limit time.Duration) {
	q.mu.Lock()
	if !q.writing || q.inVain {
		q.mu.Unlock()
		return
	}
	end := make(chan struct{})
	q.waiting, q.gap = append(q.waiting, queuedLine{gap: q.gap, end: end}), 0
	q.mu.Unlock()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-end:
	case <-late.C:
		q.mu.Lock()
		q.inVain = !q.began.IsZero()
		q.mu.Unlock()
	}
}

// Lost is how many lines the stream did not take, since the start.
func (q *Queue) Lost() uint64 {
	if q == nil {
		return 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lost
}

// Fault says why lines do not reach the stream now; nil: they do.
func (q *Queue) Fault() error {
	if q == nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	lasts := time.Since(q.began)
	switch {
	case !q.began.IsZero() && lasts >= stuckAfter:
		return fmt.Errorf("a write has been under way for %v", lasts.Round(time.Second))
	case q.fault == nil && q.lost > 0 && time.Since(q.lostAt) < lossHold:
		return errSlow
	}
	return q.fault
}
