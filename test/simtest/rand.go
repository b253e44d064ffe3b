package simtest

import (
	"math/rand/v2"
	"sync"
)

// NewRand returns a generator that the parts of one simulation may share
// between goroutines: its source is locked, and a rand/v2 generator has no
// other state.
func NewRand(seed uint64) *rand.Rand {
	return rand.New(&lockedSource{src: rand.NewPCG(seed, seed^0x9e3779b97f4a7c15)})
}

type lockedSource struct {
	mu  sync.Mutex
	src rand.Source
}

// Uint64 implements rand.Source.
func (s *lockedSource) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.src.Uint64()
}
