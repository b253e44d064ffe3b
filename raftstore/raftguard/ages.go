package raftguard

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Bounds of asking voters for ages.
const (
	agesLimit = 10 * time.Second      // all questions; after it the full wait is over as well
	askLimit  = time.Second           // one question
	askPause  = 50 * time.Millisecond // before a voter is asked again
)

// Question asks one voter for the age of its newest acknowledgement of a term below this
// one: Gate.Age.
type Question func(ctx context.Context, term uint64) (time.Duration, error)

// Ages are what the voters of one configuration answer to one leadership. Each proof of an
// earlier leader rests on a majority; where a majority has answered, one voter belongs to
// both. It acknowledged after the proof had begun, and before it answered. It may be used
// concurrently.
type Ages struct {
	term   uint64
	voters []Question
	life   context.Context
	end    context.CancelFunc

	mu   sync.Mutex
	last []time.Time // by voter that has answered: nothing older left it afterwards
}

// NewAges returns the ages for a leadership of a term, before any voter is asked.
func NewAges(ctx context.Context, term uint64, voters []Question) *Ages {
	a := &Ages{term: term, voters: voters}
	a.life, a.end = context.WithTimeout(ctx, agesLimit)
	return a
}

// Ask asks all voters at once, each until it has answered. It returns when all have, or
// after End or the limit.
func (a *Ages) Ask() {
	defer a.end()
	var asking sync.WaitGroup
	for _, voter := range a.voters { // a handful
		asking.Go(func() { a.ask(voter) })
	}
	asking.Wait()
}

// End ends the questions. What was answered stays.
func (a *Ages) End() { a.end() }

// ask asks one voter. One that is in a newer term is asked again like one that does not
// answer: this leadership ends soon.
func (a *Ages) ask(voter Question) {
	for a.life.Err() == nil {
		ctx, cancel := context.WithTimeout(a.life, askLimit)
		age, err := voter(ctx, a.term)
		arrived := time.Now() // not before the voter has answered
		cancel()
		if err == nil {
			a.mu.Lock()
			a.last = append(a.last, arrived.Add(-age))
			a.mu.Unlock()
			return
		}
		select {
		case <-time.After(askPause):
		case <-a.life.Done():
		}
	}
}

// Until returns a time at which or before which every proof of a leader of a term below
// this one had begun; ok is false while no majority of the voters has answered to this term.
// It is what the majority with the greatest ages says, of which the smallest counts.
func (a *Ages) Until(term uint64) (until time.Time, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	need := len(a.voters)/2 + 1
	if term != a.term || len(a.last) < need {
		return time.Time{}, false
	}
	return slices.SortedFunc(slices.Values(a.last), time.Time.Compare)[need-1], true
}
