package elector

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/internal/pace"
)

// Log is the replicated state.
type Log interface {
	// Read returns a view that holds all writes acknowledged before, confirmed by
	// the leader's quorum after the call.
	Read(ctx context.Context) (fsm.View, error)
}

// ElectionSource says where the state records who leads.
type ElectionSource struct {
	// Lease is the lease whose holder is named; "" names the peer that leads.
	Lease string
	// Identities are what peers are called here, by their names, where that is not
	// their name.
	Identities map[string]string
}

// asksPerBound is how often a witness asks within the bound: a name outlives three
// questions that went wrong.
const asksPerBound = 4

// clockRates is the part of the bound by which a wait is longer than what it waits
// for: clocks of two hosts do not run at one rate, by less than a thousandth.
const clockRates = 50

// WitnessOptions are the parts of a Witness.
type WitnessOptions struct {
	Log       Log
	Elections []ElectionSource
	// Bound is how old a proof may be. It is the same at every peer.
	Bound  time.Duration
	Now    Clock
	Logger *slog.Logger
}

// Witness asks the log again and again, and keeps for each election what it may say.
type Witness struct {
	o         WitnessOptions
	elections []*Election
}

// NewWitness returns a witness that knows nothing until Run.
func NewWitness(o WitnessOptions) *Witness {
	w := &Witness{o: o}
	for _, e := range o.Elections {
		w.elections = append(w.elections, &Election{source: e, wait: o.Bound + o.Bound/clockRates})
	}
	return w
}

// Elections are the elections, in the order of the options.
func (w *Witness) Elections() []*Election { return w.elections }

// Run asks until ctx ends. It is called once.
func (w *Witness) Run(ctx context.Context) {
	knows := true
	for range pace.Every(ctx, w.o.Bound/asksPerBound) {
		err := w.ask(ctx)
		if ctx.Err() != nil {
			return
		}
		if knows != (err == nil) {
			knows = err == nil
			w.o.Logger.Debug("knowledge of the leader has changed", "known", knows, "err", err)
		}
	}
}

// ask puts one question for all elections. What it learns counts from before it asked.
func (w *Witness) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.o.Bound)
	defer cancel()
	asked := w.o.Now()
	v, err := w.o.Log.Read(ctx)
	if err != nil {
		return err
	}
	seen := w.o.Now()
	for _, e := range w.elections {
		e.keepClaim(v, asked, seen, w.o.Bound)
	}
	return nil
}

// Election is one election and its newest claim.
type Election struct {
	source ElectionSource
	wait   time.Duration // from seeing a new token until its name is said

	mu    sync.Mutex
	claim Claim
}

// Claim implements Source.
func (e *Election) Claim() Claim {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.claim
}

// keepClaim replaces the claim by what a confirmed view says. A token that was not seen
// before is that of a leadership, or a grant, that began before now; what was said
// under another was confirmed before that, and is over a bound from now.
func (e *Election) keepClaim(v fsm.View, asked, now, bound time.Duration) {
	said := e.source.in(v)
	e.mu.Lock()
	defer e.mu.Unlock()
	from := e.claim.From
	if said.token != e.claim.Token {
		from = now + e.wait
	}
	e.claim = Claim{Name: said.name, Token: said.token, Term: said.term, Asked: asked, From: from,
		Until: asked + min(bound, said.remaining)}
}

// held is what a state says of an election.
type held struct {
	name      string
	token     fencing.Token
	term      uint64
	remaining time.Duration // of what is held; a leadership has no end
}

func (e ElectionSource) in(v fsm.View) held {
	if e.Lease != "" {
		l, _ := v.Lease(e.Lease)
		return held{name: l.Holder, token: l.Token, remaining: l.Remaining(v.Now())}
	}
	lead := v.Leadership()
	m, _ := v.Member(lead.Peer)
	name := m.Name
	if called, ok := e.Identities[m.Name]; ok {
		name = called
	}
	return held{name: name, token: lead.Token, term: lead.Term, remaining: 1<<63 - 1}
}
