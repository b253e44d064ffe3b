package history

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/trivet-ha/trivet/fsm/fencing"
)

// askLimit bounds for how long a borrower asks for one answer: faults and the recovery
// from them take less.
const askLimit = 5 * time.Minute

// Borrower is a client of leases, and of the values that are written under them. It asks
// any peer, loses answers, and asks again under the same request ID.
type Borrower struct {
	ID      int
	Name    string
	TTL     time.Duration // as short as the cluster's timing allows: leases end under their holders again and again
	Leases  []string
	History *History
	Rand    *rand.Rand
	// Try asks a peer once. An error says that there is no answer.
	Try func(LeaseCall) (Told, error)
	// Rest waits, and reports whether ctx let it.
	Rest func(context.Context, time.Duration) bool
	// Broken is told that there was no answer for askLimit.
	Broken func(format string, args ...any)

	n      int                      // of requests
	tokens map[string]fencing.Token // the newest that it knows it was granted
	open   []LeaseCall              // what it has given up on, without an answer
}

// Run asks until ctx ends, and returns when it has the answer to the last question.
func (b *Borrower) Run(ctx context.Context) {
	b.tokens = make(map[string]fencing.Token)
	for ctx.Err() == nil {
		b.once()
		pause := time.Duration(20+b.Rand.IntN(150)) * time.Millisecond
		if b.Rand.IntN(20) == 0 {
			pause += b.TTL // it was stopped, or collected garbage
		}
		b.Rest(ctx, pause)
	}
}

// once does something at random, under the newest token it knows, whether that is
// over or not.
func (b *Borrower) once() {
	rng := b.Rand
	in := LeaseCall{Lease: b.Leases[rng.IntN(len(b.Leases))], Holder: b.Name, TTL: b.TTL, Called: time.Now().UnixNano()}
	in.Token = b.tokens[in.Lease]
	b.n++
	in.Data = fmt.Sprintf("%d-%d", b.ID, b.n)
	switch draw := rng.IntN(20); {
	case draw < 4, in.Token.IsZero() && draw < 10:
		in.Verb, in.Takeover = Acquire, rng.IntN(4) == 0
	case draw < 8 && !in.Token.IsZero():
		in.Verb = Renew
	case draw < 10 && !in.Token.IsZero():
		in.Verb = Release
	case draw < 15 && !in.Token.IsZero():
		in.Verb = Write
	case draw < 18:
		in.Verb = Look
	default:
		in.Verb = Read
	}
	b.ask(in, rng.IntN(3) > 0)
}

// ask asks until there is an answer, or, if it is not patient, once.
func (b *Borrower) ask(in LeaseCall, patient bool) {
	limited, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	for limited.Err() == nil {
		if in.Verb != Acquire && in.Verb != Write {
			in.Called = time.Now().UnixNano() // each try is one of its own: none is remembered
		}
		out, err := b.Try(in)
		switch {
		case err == nil:
			b.note(in, out)
			return
		case in.Verb == Release:
			b.record(in, Told{Said: Unknown, Returned: math.MaxInt64})
		case in.Verb == Acquire, in.Verb == Write:
			if !patient {
				b.open = append(b.open, in)
			}
		}
		if !patient {
			return // a renewal that nobody knows of only makes a lease longer
		}
		b.Rest(limited, time.Duration(b.Rand.IntN(200))*time.Millisecond)
	}
	b.Broken("definite: %s has no answer to %+v", b.Name, in)
}

// SettleUp asks what became of what it has given up on. The same request gets the
// answer that it would have got.
func (b *Borrower) SettleUp() {
	open := b.open
	b.open = nil
	for _, in := range open {
		b.ask(in, true)
	}
}

// note puts an answer into the history. An acquisition that is told that its grant is
// over has seen two things: the grant, and its end.
func (b *Borrower) note(in LeaseCall, out Told) {
	if in.Verb == Acquire && out.Said == Over {
		b.record(in, Told{Said: Yes, Holder: in.Holder, Token: out.Token, Returned: out.Returned})
		in.Verb = Ended
	}
	if in.Verb == Acquire && out.Said == Yes {
		b.tokens[in.Lease] = max(b.tokens[in.Lease], out.Token)
	}
	b.record(in, out)
}

func (b *Borrower) record(in LeaseCall, out Told) {
	b.History.Add(b.ID, in, out, in.Called, out.Returned)
}
