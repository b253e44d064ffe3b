package work

import (
	"context"
	"slices"
	"sync"
	"time"
)

// turnWait is for how long a request is left to the peer whose turn it is.
const turnWait = 100 * time.Millisecond

// slots are the places of this peer's workers: as many tasks run at once. All methods may be
// called concurrently.
type slots struct {
	freed chan struct{} // capacity 1: a worker became free

	mu       sync.Mutex
	size     int // workers there may be
	busy     int
	claiming bool // a claim is being committed
	paused   bool // claims nothing
	open     bool // tasks are taken on
	waiting  []*waitingTask
	admitted int // workers that waiting tasks got since the queue had its turn

	running sync.WaitGroup
}

// maxAdmitted is how many workers that become free go to callbacks that wait, one
// after the other, before the queue has its turn.
const maxAdmitted = 3

// waitingTask is work that waits for a worker.
type waitingTask struct {
	run     func()
	started chan struct{} // closed when it has one
}

// submit runs a task on a worker, unless the pool is paused or stops. If all are
// busy it waits for one, for as long as a queued request is left to the peer
// whose turn it is: in the queue it would wait as well, and take two more
// entries of the log and a second reading of the data. No more wait than there
// are workers.
func (s *slots) submit(ctx context.Context, work func()) bool {
	e := &waitingTask{run: work, started: make(chan struct{})}
	if !s.enqueue(e) {
		return false
	}
	timer := time.NewTimer(turnWait)
	defer timer.Stop()
	select {
	case <-e.started:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return !s.withdraw(e)
}

// enqueue begins a task or lets it wait.
func (s *slots) enqueue(e *waitingTask) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open || s.paused || len(s.waiting) >= s.size {
		return false
	}
	s.waiting = append(s.waiting, e)
	if len(s.waiting) == 1 { // else the free worker is the queue's
		s.startWaiting()
	}
	return true
}

// withdraw ends a task's waiting; it is false for one that was begun.
func (s *slots) withdraw(e *waitingTask) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := slices.Index(s.waiting, e)
	if n < 0 {
		return false
	}
	s.waiting = slices.Delete(s.waiting, n, n+1)
	return true
}

// startWaiting gives free workers to waiting tasks. The caller holds the lock, and
// does not wait for the workers to end.
func (s *slots) startWaiting() {
	for s.open && !s.paused && s.busy < s.size && len(s.waiting) > 0 {
		e := s.waiting[0]
		s.waiting = slices.Delete(s.waiting, 0, 1)
		s.busy++
		s.running.Go(func() {
			defer s.release()
			e.run()
		})
		close(e.started)
	}
}

// setOpen accepts or refuses work that does not come through the queue.
func (s *slots) setOpen(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = on
}

// admitWaiting leaves the workers that the queue does not need to waiting tasks.
func (s *slots) admitWaiting() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.admitted = 0
	s.startWaiting()
}

// resize sets the number of workers and returns how many more tasks may run. A surplus worker
// finishes its task and exits.
func (s *slots) resize(size int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.size = size
	return max(s.size-s.busy, 0)
}

// Pause makes the pool begin nothing more, or go on. What is under way goes on:
// see Idle.
func (s *slots) Pause(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = on
}

// Idle reports whether nothing is under way. Tasks that wait for their turn are
// not counted: the claims of this peer's session tell.
func (s *slots) Idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy == 0 && !s.claiming
}

// beginClaim begins a claim unless the pool is paused; endClaim ends it.
func (s *slots) beginClaim() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claiming = !s.paused
	return s.claiming
}

func (s *slots) endClaim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claiming = false
}

func (s *slots) acquire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy++
}

func (s *slots) release() {
	s.mu.Lock()
	s.busy--
	if s.admitted++; s.admitted <= maxAdmitted {
		s.startWaiting()
	}
	s.mu.Unlock()
	select {
	case s.freed <- struct{}{}:
	default: // already told
	}
}

// Busy returns how many tasks are under way.
func (s *slots) Busy() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy
}
