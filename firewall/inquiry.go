package firewall

import (
	"context"
	"sync"
	"time"
)

const (
	// foundFor is for how long an answer of the neighbours counts.
	foundFor = time.Second
	// askAhead is how long before an earlier holder of the address has surely lost it the
	// neighbours are asked: mostly it has by then, and they have been silent for long enough
	// when this leadership may take it.
	askAhead = 150 * time.Millisecond
)

// inquiry asks the neighbours for the floating IP next to the guard's turns: they are
// given a tenth of a second, and PXE must not wait for that. Its methods are for the
// guard's goroutine; its zero value has asked nothing.
type inquiry struct {
	answer chan found // of the question that is under way; nil: there is none
	last   *found     // not taken yet
	since  time.Time  // when the conflict that still lasts was found; zero: there is none
	why    string     // the address is not free, as far as is known
	work   sync.WaitGroup
}

// found is what the neighbours said: the MAC of another host that has the address, ""
// if none has it.
type found struct {
	mac string
	err error
	at  time.Time
}

// begin asks, unless a question is under way. It does not wait for the answer.
func (i *inquiry) begin(ctx context.Context, n Neighbours) {
	if i.answer != nil {
		return
	}
	if i.since.IsZero() {
		i.why = "the neighbours are asked whether it is free"
	}
	answer := make(chan found, 1)
	i.answer = answer
	i.work.Go(func() {
		mac, err := n.Conflict(ctx)
		answer <- found{mac, err, time.Now()}
	})
}

// beginAhead is begin while an earlier leader's host may still have the address, and answer:
// that is no conflict, and the neighbours are asked again.
func (i *inquiry) beginAhead(ctx context.Context, n Neighbours) {
	if i.last != nil && (i.last.err != nil || i.last.mac != "") {
		i.last, i.since = nil, time.Time{}
	}
	if i.last == nil {
		i.begin(ctx, n)
	}
}

// keepAnswer keeps an answer, which came on i.answer, until it is taken.
func (i *inquiry) keepAnswer(f found) {
	i.answer, i.last = nil, &f
	switch {
	case f.err != nil:
	case f.mac == "":
		i.since = time.Time{}
	default:
		i.why = "it is in use by " + f.mac
		if i.since.IsZero() {
			i.since = f.at
		}
	}
}

// takeAnswer returns the answer that has come, once, unless it is old.
func (i *inquiry) takeAnswer() (f found, ok bool) {
	select {
	case f := <-i.answer:
		i.keepAnswer(f)
	default:
	}
	if i.last == nil {
		return found{}, false
	}
	f, i.last = *i.last, nil
	return f, time.Since(f.at) < foundFor
}
