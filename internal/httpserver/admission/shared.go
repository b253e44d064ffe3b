package admission

import (
	"errors"
	"sync"
	"time"
)

// Shared computes what many ask for once in a while and gives all of them the result.
type Shared[K comparable, V any] struct {
	every time.Duration // a result is given for so long
	most  int           // results that are kept

	mu   sync.Mutex
	kept map[K]*result[V]
}

type result[V any] struct {
	done  chan struct{} // closed when the rest is set
	value V
	err   error
	until time.Time // it is not given any more then
}

// NewShared returns a store of results, each of which is given for a while. At most so
// many are kept; when there are more, those of other keys are computed again.
func NewShared[K comparable, V any](every time.Duration, most int) *Shared[K, V] {
	return &Shared[K, V]{every: every, most: most, kept: make(map[K]*result[V])}
}

// errUnfinished is the result of a computation that panicked.
var errUnfinished = errors.New("the computation for all who asked failed")

// Get returns the result for a key. One caller computes it; the others wait for that
// one. An error is shared like a result.
func (s *Shared[K, V]) Get(key K, compute func() (V, error)) (V, error) {
	r, mine := s.find(key)
	if mine {
		r.err = errUnfinished
		defer close(r.done)
		r.value, r.err = compute()
		return r.value, r.err
	}
	<-r.done // one caller computes
	return r.value, r.err
}

// find returns the result for a key. mine says that the caller has to compute it.
func (s *Shared[K, V]) find(key K) (r *result[V], mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if r, ok := s.kept[key]; ok && now.Before(r.until) {
		return r, false
	}
	if len(s.kept) >= s.most {
		clear(s.kept)
	}
	r = &result[V]{until: now.Add(s.every), done: make(chan struct{})}
	s.kept[key] = r
	return r, true
}
