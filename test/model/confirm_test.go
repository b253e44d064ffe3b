package model

import "math/bits"

// The proof of leadership (docs/design.md#proof): raftstore.Leadership.Confirm, which counts what raftguard.Acks
// has noted, raftstore's provingTransport, which stamps requests, and raftguard.TermGuard.
//
// Three voters, A, B and C, and D, which follows without a vote. A leads in term 1 and proves, again and again,
// that it does. Whoever votes may stand in each later term, A again, too. A vote, a request, its answer and each
// step of a process take as long as they like, or for ever: a process may stop anywhere, and messages are lost,
// delayed, repeated and reordered. There is no clock: t0 is a moment between two steps.
//
// Assumed: a vote is on the disk before it is given, and a term does not fall (TermGuard; the mistake "a term
// falls" shows why). One candidate a term stands; more would only split the votes.
//
// Not modelled: changes of the configuration, for which lease_test.go has no model either. They rest on raft's
// rule of one change at a time (docs/design.md#pxe-age).
const (
	confirmPeers = 4 // D, the last, has no vote
	confirmTerms = 4 // at most
)

// The mistakes.
const (
	countsFromArrival  = "answers count from their arrival and not from when their request was sent"
	countsNonVoters    = "the answer of a peer without a vote counts"
	countsAnyTerm      = "the proof is not bound to its term"
	countsWithoutAsked = "raft is not asked whether it leads still"
	termFalls          = "a term falls"
)

const confirmBroken = "a proof succeeds though a later leader had been elected before it began"

// Requests of A are told by when they were sent.
const (
	before = 0 // before the proof began
	since  = 1
)

type confirmState struct {
	term      [confirmPeers]uint8
	candidate [confirmTerms + 1]uint8 // by term: 1 + who stands
	votes     [confirmTerms + 1]uint8 // by term: who voted for them
	sent      [2]uint8                // the terms in which A sent requests
	answered  [2][confirmTerms + 1]uint8
	asking    bool // a proof has begun
	late      bool // a later leader had been elected then
	proven    bool // the newest proof has succeeded
	wrong     bool // though late
}

type confirm struct {
	mistake string
	terms   uint8
}

func confirmSubject() checked {
	return subject[confirmState]{
		name: "confirm",
		build: func(mistake string, large bool) Model[confirmState] {
			c := confirm{mistake, 3}
			if large {
				c.terms = confirmTerms
			}
			start := confirmState{term: [confirmPeers]uint8{1, 1, 1, 1}}
			start.candidate[1], start.votes[1] = 1, 0b111
			return Model[confirmState]{
				Start: start, Steps: c.steps, Limit: 20_000_000, Same: confirmState.swapped,
				Never:     []Rule[confirmState]{{confirmBroken, func(s confirmState) bool { return s.wrong }}},
				Sometimes: confirmSituations(),
			}
		},
		mistakes: []mistake{
			{countsFromArrival, confirmBroken}, {countsNonVoters, confirmBroken}, {countsAnyTerm, confirmBroken},
			{countsWithoutAsked, confirmBroken}, {termFalls, confirmBroken},
		},
	}
}

func confirmSituations() []Rule[confirmState] {
	return []Rule[confirmState]{
		{"a proof succeeds", func(s confirmState) bool { return s.proven }},
		{"a proof succeeds and a later candidate has a vote",
			func(s confirmState) bool { return s.proven && !s.late && s.votes[2] != 0 }},
		{"a proof begins that must not succeed, and A does not know yet that another leads",
			func(s confirmState) bool { return s.late && s.asking && s.term[0] == 1 && s.candidate[2] != 1 }},
		{"A leads again", func(s confirmState) bool { return s.leads(3) && s.elected(2) && s.candidate[2] != 1 }},
		{"D answers a request that B and C do not answer any more",
			func(s confirmState) bool { return s.asking && s.late && s.answered[since][1] == 0b1000 }},
	}
}

// swapped returns the state in which B and C have changed places, if that comes first.
func (s confirmState) swapped() confirmState {
	swap := func(peers uint8) uint8 { return peers&0b1001 | peers&2<<1 | peers&4>>1 }
	o := s
	o.term[1], o.term[2] = s.term[2], s.term[1]
	first := 0
	compare := func(swapped, was uint8) {
		if first == 0 {
			first = int(swapped) - int(was)
		}
	}
	compare(o.term[1], s.term[1])
	for term := range s.votes {
		if who := s.candidate[term]; who == 2 || who == 3 {
			o.candidate[term] = 5 - who
		}
		o.votes[term] = swap(s.votes[term])
		compare(o.candidate[term], s.candidate[term])
		compare(o.votes[term], s.votes[term])
		for class := range s.answered {
			o.answered[class][term] = swap(s.answered[class][term])
			compare(o.answered[class][term], s.answered[class][term])
		}
	}
	if first < 0 {
		return o
	}
	return s
}

// elected reports whether the candidate of a term has the votes of a majority.
func (s confirmState) elected(term uint8) bool { return bits.OnesCount8(s.votes[term]) >= 2 }

// leads reports whether A's raft leads in a term.
func (s confirmState) leads(term uint8) bool {
	return s.term[0] == term && s.candidate[term] == 1 && s.elected(term)
}

func (c confirm) steps(s confirmState, do Do[confirmState]) {
	c.elections(s, do)
	c.requests(s, do)
	c.proofs(s, do)
	for p := range confirmPeers - 1 {
		if c.mistake == termFalls && s.term[p] > 1 {
			next := s
			next.term[p]--
			do(next, "{P} handles a heartbeat of its earlier term, and its term falls", p, 0)
		}
	}
}

// elections are candidates that stand and votes that they are given. D hears of a term only
// with requests of its leader.
func (c confirm) elections(s confirmState, do Do[confirmState]) {
	for term := uint8(2); term <= c.terms; term++ {
		for p := range confirmPeers - 1 {
			next := s
			switch {
			case s.term[p] >= term:
			case s.candidate[term] == 0 && s.candidate[term-1] != 0:
				next.term[p], next.candidate[term], next.votes[term] = term, uint8(p+1), 1<<p
				do(next, "{P} stands in the next term", p, 0)
			case s.candidate[term] != 0:
				next.term[p] = term
				next.votes[term] |= 1 << p
				do(next, "{P} votes for {Q}", p, int(s.candidate[term]-1))
			}
		}
	}
}

// requests are sent by A to all others, and answered by each that is in no newer term. A thread of A
// that replicates does not notice at once that A leads no more.
func (c confirm) requests(s confirmState, do Do[confirmState]) {
	for term := uint8(1); term <= c.terms; term++ {
		bit := uint8(1) << term
		if s.candidate[term] == 1 && s.elected(term) && s.sent[since]&bit == 0 {
			next := s
			next.sent[since] |= bit
			do(next, "A sends heartbeats", 0, 0)
		}
		for class := range s.sent {
			for p := 1; p < confirmPeers; p++ {
				if s.sent[class]&bit == 0 || s.term[p] > term || s.answered[class][term]&(1<<p) != 0 {
					continue
				}
				next := s
				next.term[p] = term
				next.answered[class][term] |= 1 << p
				do(next, [...]string{"{P} acknowledges a heartbeat of A that was sent before the proof began",
					"{P} acknowledges a heartbeat of A"}[class], p, 0)
			}
		}
	}
}

// proofs are what the handle of A's leadership of term 1 does.
func (c confirm) proofs(s confirmState, do Do[confirmState]) {
	if !s.asking {
		next := s
		next.asking, next.proven, next.late = true, false, false
		for term := uint8(2); term <= c.terms; term++ {
			next.late = next.late || s.elected(term)
		}
		if c.mistake == countsFromArrival { // else nobody looks at them any more
			next.sent[before] |= s.sent[since]
			for term := range s.answered[since] {
				next.answered[before][term] |= s.answered[since][term]
			}
		}
		next.sent[since], next.answered[since] = 0, [confirmTerms + 1]uint8{}
		do(next, "A begins a proof", 0, 0)
		return
	}
	if c.leads(s) && bits.OnesCount8(c.counted(s)) >= 1 { // with A a majority of three
		next := s
		next.asking, next.proven, next.wrong = false, true, s.late
		do(next, "A's proof succeeds", 0, 0)
	}
	next := s
	next.asking = false
	do(next, "A gives the proof up", 0, 0)
}

// leads is the question to raft, Leadership.leads.
func (c confirm) leads(s confirmState) bool {
	switch c.mistake {
	case countsWithoutAsked:
		return true
	case countsAnyTerm:
		return s.leads(s.term[0])
	}
	return s.leads(1)
}

// counted returns the peers whose answers count, Acks.Count.
func (c confirm) counted(s confirmState) (peers uint8) {
	peers = s.answered[since][1]
	switch c.mistake {
	case countsFromArrival:
		peers |= s.answered[before][1]
	case countsAnyTerm:
		for _, of := range s.answered[since] {
			peers |= of
		}
	}
	if c.mistake != countsNonVoters {
		peers &= 0b111
	}
	return peers
}
