package simtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/leases"
	"github.com/trivet-ha/trivet/lease"
)

// borrower is a client of leases somewhere on the network. It asks any peer, loses
// answers, and asks again under the same request ID.
type borrower struct {
	c      *Cluster
	h      *history
	id     int
	name   string
	n      int                      // of requests
	tokens map[string]fencing.Token // the newest that it knows it was granted
	open   []leaseCall              // what it has given up on, without an answer
}

const (
	// leaseLoss is how many of the messages between clients and peers are lost.
	leaseLoss = 0.04
	// leaseTry is how long a client waits for an answer.
	leaseTry = 1500 * time.Millisecond
	// leaseLimit bounds for how long it asks for one answer: the faults of a schedule
	// and the recovery from them take less.
	leaseLimit = 5 * time.Minute
)

func newBorrower(c *Cluster, h *history, id int) *borrower {
	b := &borrower{c: c, h: h, id: id, name: fmt.Sprintf("client-%d", id), tokens: make(map[string]fencing.Token)}
	for _, p := range c.Peers {
		q := Quality{MinDelay: time.Millisecond, MaxDelay: 20 * time.Millisecond, Drop: leaseLoss}
		c.Net.SetLink(b.name, p.Name, q)
		c.Net.SetLink(p.Name, b.name, q)
	}
	return b
}

func (b *borrower) run(ctx context.Context) {
	for ctx.Err() == nil {
		b.once()
		pause := time.Duration(20+b.c.rng.IntN(150)) * time.Millisecond
		if b.c.rng.IntN(20) == 0 {
			pause += leaseTTL // it was stopped, or collected garbage
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// once does something at random, under the newest token it knows, whether that is
// over or not.
func (b *borrower) once() {
	rng := b.c.rng
	in := leaseCall{lease: []string{"db", "disk"}[rng.IntN(2)], holder: b.name, called: time.Now().UnixNano()}
	in.token = b.tokens[in.lease]
	b.n++
	in.data = fmt.Sprintf("%d-%d", b.id, b.n)
	switch draw := rng.IntN(20); {
	case draw < 4, in.token.IsZero() && draw < 10:
		in.verb, in.takeover = verbAcquire, rng.IntN(4) == 0
	case draw < 8 && !in.token.IsZero():
		in.verb = verbRenew
	case draw < 10 && !in.token.IsZero():
		in.verb = verbRelease
	case draw < 15 && !in.token.IsZero():
		in.verb = verbWrite
	case draw < 18:
		in.verb = verbLook
	default:
		in.verb = verbRead
	}
	b.ask(in, rng.IntN(3) > 0)
}

// ask asks until there is an answer, or, if it is not patient, once.
func (b *borrower) ask(in leaseCall, patient bool) {
	for began := time.Now(); time.Since(began) < leaseLimit; { // in a bubble
		if in.verb != verbAcquire && in.verb != verbWrite {
			in.called = time.Now().UnixNano() // each try is one of its own: none is remembered
		}
		out, err := b.try(in)
		switch {
		case err == nil:
			b.note(in, out)
			return
		case in.verb == verbRelease:
			b.record(in, told{said: saidUnknown, returned: math.MaxInt64})
		case in.verb == verbAcquire, in.verb == verbWrite:
			if !patient {
				b.open = append(b.open, in)
			}
		}
		if !patient {
			return // a renewal that nobody knows of only makes a lease longer
		}
		time.Sleep(time.Duration(b.c.rng.IntN(200)) * time.Millisecond) // in a bubble
	}
	b.c.Oracle.broken("definite: %s has no answer to %+v", b.name, in)
}

// settleUp asks what became of what it has given up on. The same request gets the
// answer that it would have got.
func (b *borrower) settleUp() {
	open := b.open
	b.open = nil
	for _, in := range open {
		b.ask(in, true)
	}
}

// try asks a peer once. An error says that there is no answer.
func (b *borrower) try(in leaseCall) (told, error) {
	p := b.c.Peers[b.c.rng.IntN(len(b.c.Peers))]
	ctx, cancel := context.WithTimeout(context.Background(), leaseTry)
	defer cancel()
	out, err := Call(ctx, b.c.Net, b.name, p.Name, func(ctx context.Context) (told, error) {
		core := p.Core()
		if core == nil {
			return told{}, ErrRefused
		}
		return in.ask(ctx, core.Lending)
	})
	out.returned = time.Now().UnixNano()
	return out, err
}

// valueUnder is the key of the value that is written under a lease.
func valueUnder(lease string) string { return "under." + lease }

// ask is what the API does with a request.
func (in leaseCall) ask(ctx context.Context, s *lease.Service) (out told, err error) {
	switch in.verb {
	case verbAcquire:
		g, _, err := s.Acquire(ctx,
			lease.Acquisition{Name: in.lease, Holder: in.holder, TTL: leaseTTL, Takeover: in.takeover, Request: in.data})
		return answered(told{holder: g.Holder, token: g.Token}, err)
	case verbRenew:
		g, err := s.Renew(ctx, in.lease, in.holder, in.token)
		return answered(told{holder: g.Holder, token: g.Token}, err)
	case verbRelease:
		_, err := s.Release(ctx, in.lease, in.holder, in.token)
		return answered(told{}, err)
	case verbWrite:
		v, err := s.Put(ctx, valueUnder(in.lease), []byte(in.data), leases.Condition{Lease: in.lease, Token: in.token},
			in.data)
		return answered(told{token: v}, err)
	case verbRead:
		v, err := s.Value(ctx, valueUnder(in.lease), lease.Linearizable)
		return answered(told{token: v.Version, data: string(v.Data)}, err)
	}
	g, err := s.Get(ctx, in.lease, lease.Linearizable)
	out, err = answered(told{holder: g.Holder, token: g.Token}, err)
	if out.said == saidYes && g.Holder == "" {
		out.said = saidOver
	}
	return out, err
}

// answered sorts what a peer said. An error is left where it said nothing.
func answered(out told, err error) (told, error) {
	var held *lease.Held
	var said *fsm.Error
	switch {
	case err == nil:
		out.said = saidYes
	case errors.As(err, &held):
		out.said, out.holder, out.token = saidHeld, held.Holder, held.Token
	case !errors.As(err, &said):
		return out, err
	case said.Code == fsm.Expired:
		out.said = saidOver
		_, rest, _ := strings.Cut(said.Message, "under token ")
		number, _, _ := strings.Cut(rest, ",")
		out.token, _ = fencing.ParseToken(number) // of an acquisition; others do not say
	case said.Code == fsm.Fenced:
		out.said = saidFenced
	case said.Code == fsm.NotFound:
		out.said = saidNothing
	default:
		return out, err
	}
	return out, nil
}

// note puts an answer into the history. An acquisition that is told that its grant is
// over has seen two things: the grant, and its end.
func (b *borrower) note(in leaseCall, out told) {
	if in.verb == verbAcquire && out.said == saidOver {
		b.record(in, told{said: saidYes, holder: in.holder, token: out.token, returned: out.returned})
		in.verb = verbEnded
	}
	if in.verb == verbAcquire && out.said == saidYes {
		b.tokens[in.lease] = max(b.tokens[in.lease], out.token)
	}
	b.record(in, out)
}

func (b *borrower) record(in leaseCall, out told) {
	b.h.mu.Lock()
	defer b.h.mu.Unlock()
	b.h.ops = append(b.h.ops,
		porcupine.Operation{ClientId: b.id, Input: in, Call: in.called, Output: out, Return: out.returned})
}
