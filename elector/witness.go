package elector

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fencing"
	"github.com/trivet-ha/trivet/fsm"
)

// Log is the replicated state.
type Log interface {
	// Read returns a view that holds whatever was acknowledged before, confirmed by
	// the leader's quorum after the call.
	Read(ctx context.Context) (fsm.View, error)
}

// Election is who leads something, as a state tells it.
type Election struct {
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
	Elections []Election
	// Bound is how old a proof may be: the election timeout.
	Bound  time.Duration
	Now    Clock
	Logger *slog.Logger
}

// Witness asks the log again and again, and keeps for each election what it may say.
type Witness struct {
	o     WitnessOptions
	seats []*Seat
}

// NewWitness returns a witness that knows nothing until Run.
func NewWitness(o WitnessOptions) *Witness {
	w := &Witness{o: o}
	for _, e := range o.Elections {
		w.seats = append(w.seats, &Seat{election: e, hold: o.Bound + o.Bound/clockRates})
	}
	return w
}

// Seats are the elections, in the order of the options.
func (w *Witness) Seats() []*Seat { return w.seats }

// Run asks until ctx ends. It is called once.
func (w *Witness) Run(ctx context.Context) {
	tick := time.NewTicker(w.o.Bound / asksPerBound)
	defer tick.Stop()
	knows := true
	for {
		err := w.ask(ctx)
		if ctx.Err() != nil {
			return
		}
		if knows != (err == nil) {
			knows = err == nil
			w.o.Logger.Debug("knowledge of the leader has changed", "known", knows, "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
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
	for _, s := range w.seats {
		s.keep(v, asked, seen, w.o.Bound)
	}
	return nil
}

// Seat is one election and what may be said of it.
type Seat struct {
	election Election
	hold     time.Duration // from seeing a new token until its name is said

	mu   sync.Mutex
	word Word
}

// Word implements Source.
func (s *Seat) Word() Word {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.word
}

// keep replaces the word by what a confirmed view says. A token that was not seen
// before is that of a leadership, or a grant, that began before now; what was said
// under another was confirmed before that, and is over a bound from now.
func (s *Seat) keep(v fsm.View, asked, now, bound time.Duration) {
	said := s.election.in(v)
	s.mu.Lock()
	defer s.mu.Unlock()
	from := s.word.From
	if said.token != s.word.Token {
		from = now + s.hold
	}
	s.word = Word{Name: said.name, Token: said.token, Term: said.term, Asked: asked, From: from, Until: asked + min(bound, said.remaining)}
}

// held is what a state says of an election.
type held struct {
	name      string
	token     fencing.Token
	term      uint64
	remaining time.Duration // of what is held; a leadership has no end
}

func (e Election) in(v fsm.View) held {
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
