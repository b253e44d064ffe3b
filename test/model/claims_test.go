package model

import "slices"

// Sessions and the claims of workers (docs/design.md#workers, docs/design.md#guard, docs/design.md#sessions):
// cluster.Session (open, renewOnce, Deadline, DoIn), OpenSession and RenewSession of fsm/membership,
// ClaimRequests, Consume, Release and the loss of claims in fsm/introspection, the check before every effect in
// inspector/work (allowed, current).
//
// B's worker and others want the same request; A's log takes one entry after another, whoever leads. C is any
// other worker: it claims what is free and ends as it likes, so that what holds for B holds for each. Time is
// ticks; a session lasts three, and a worker relies on it for two after it asked for it. Cluster time may stand
// still while no peer leads. A message may be lost, or its answer. One that opens a session, and a write, may
// also arrive late: when its sender has given up, asked again, or been replaced by a new process. A worker may
// stop anywhere.
//
// Assumed: a worker is not stopped for longer than the margin between its check and its system call (conceded in
// docs/design.md#guard). B never sees in its own state that it lost a claim: that state may be old.
const (
	claimsTTL      = 3
	claimsMargin   = 1
	claimsAttempts = 3
)

// The mistakes.
const (
	fromTheAnswer  = "a session counts from the answer and not from when it was asked for"
	noMargin       = "a worker relies on its session to the end"
	requestAlone   = "a write names the request, and neither its claim nor its session"
	suspected      = "a session ends when its peer is suspected"
	opensOver      = "an opening ends whichever session its peer has"
	claimIsForever = "a worker does not ask for its session before it acts"
)

const (
	actsUnheld   = "a worker acts on a request that it does not hold"
	writesUnheld = "a write is taken of a worker that does not hold the request"
)

// call is what a process asks the log for its session.
type call uint8

const (
	idle call = iota
	opens
	opened // the log has taken it, and the answer is on its way
	refused
	renews
	renewed
)

// byC is the claim of any other worker.
const byC = 15

type claimsState struct {
	// What B's process knows.
	session uint8 // 0: none
	age     uint8 // ticks since its newest renewal that succeeded was asked for
	claim   uint8 // that it works on; 0: none
	in      uint8 // the session that it claimed in
	checked uint8 // 1 + ticks since it was allowed to act; 0: it was not
	call    call
	calling uint8 // ticks since call was sent
	answer  uint8 // of the log to call: the session that it opened
	names   uint8 // the session that the log has of B, as far as its process knows

	// Messages of B for which nobody waits any more.
	late         bool // an opening
	lateNames    uint8
	write, wrote uint8 // a write under a claim, and its session; 0: none

	// The log.
	live, left uint8 // the session of B, and the ticks that it has left
	holder     uint8 // the claim that holds the request, 0: none
	attempts   uint8
	over       bool // it was done, or given up

	restarts               uint8 // that may still be
	givenUp, spared, acted bool  // for the situations: spared, an opening was refused that named another session
	wrong                  uint8 // 1: actsUnheld, 2: writesUnheld
}

type claims struct{ mistake string }

func claimsSubject() checked {
	return subject[claimsState]{
		name: "claims",
		build: func(mistake string, large bool) Model[claimsState] {
			m := claims{mistake}
			start := claimsState{restarts: 1}
			if large {
				start.restarts = 4
			}
			return Model[claimsState]{
				Start: start, Steps: m.steps, Limit: 30_000_000, Sometimes: claimsSituations(),
				Never: []Rule[claimsState]{
					{actsUnheld, func(s claimsState) bool { return s.wrong == 1 }},
					{writesUnheld, func(s claimsState) bool { return s.wrong == 2 }},
				},
			}
		},
		mistakes: []mistake{{fromTheAnswer, actsUnheld}, {noMargin, actsUnheld}, {requestAlone, writesUnheld},
			{suspected, actsUnheld}, {opensOver, actsUnheld}, {claimIsForever, actsUnheld}},
	}
}

func claimsSituations() []Rule[claimsState] {
	return []Rule[claimsState]{
		{"a worker acts", func(s claimsState) bool { return s.acted }},
		{"B thinks that it holds what C holds",
			func(s claimsState) bool { return s.holder == byC && s.claim != 0 && s.session == s.in }},
		{"the request is done by B", func(s claimsState) bool { return s.acted && s.over && !s.givenUp }},
		{"the request is given up", func(s claimsState) bool { return s.givenUp }},
		{"an opening comes late and is refused, while B works",
			func(s claimsState) bool { return s.spared && s.claim != 0 && s.holder == s.claim }},
		{"a write of a lost claim is on its way",
			func(s claimsState) bool { return s.write != 0 && s.holder != 0 && s.holder != s.write }},
		{"B holds the request again, and its former write is on its way",
			func(s claimsState) bool { return s.write != 0 && s.claim != 0 && s.holder == s.claim }},
	}
}

// Tokens are only ever compared with those of the same kind. So a new one is any that nobody has, and two states in
// which they are other numbers are one.

func (s *claimsState) sessions() [7]*uint8 {
	return [...]*uint8{&s.live, &s.session, &s.in, &s.answer, &s.names, &s.lateNames, &s.wrote}
}

func (s *claimsState) tokens() [3]*uint8 { return [...]*uint8{&s.holder, &s.claim, &s.write} }

func fresh(tokens ...*uint8) (unused uint8) {
	for _, token := range tokens {
		if *token != byC {
			unused = max(unused, *token)
		}
	}
	return unused + 1
}

// renumber numbers tokens by where they stand first. Zero is none.
func renumber(tokens ...*uint8) {
	var before [7]uint8
	for i, token := range tokens {
		before[i] = *token
	}
	for _, token := range tokens {
		if *token != 0 && *token != byC {
			*token = 1 + uint8(slices.Index(before[:], *token))
		}
	}
}

// settled numbers the tokens by where they stand, and gives one value to what nobody will look at.
func (s claimsState) settled() claimsState {
	if s.session != 0 {
		s.names = 0
	} else {
		s.age = 0
	}
	sessions, tokens := s.sessions(), s.tokens()
	renumber(sessions[:]...)
	renumber(tokens[:]...)
	return s
}

func (m claims) steps(s claimsState, do Do[claimsState]) {
	tell := func(next claimsState, what string, p, q int) { do(next.settled(), what, p, q) }
	tick(s, tell, true)
	tick(s, tell, false)
	m.calls(s, tell)
	m.log(s, tell)
	m.late(s, tell)
	m.work(s, tell)
	m.others(s, tell)
	m.failures(s, tell)
}

// tick is time that passes. Cluster time stands still where no peer leads.
func tick(s claimsState, do Do[claimsState], led bool) {
	s.age = min(s.age+1, claimsTTL)
	if s.call != idle {
		s.calling = min(s.calling+1, claimsTTL)
	}
	if s.checked > 0 {
		if s.checked++; s.checked > claimsMargin+1 {
			s.checked = 0 // conceded: a longer stop between the check and the call
		}
	}
	if !led {
		do(s, "a tick passes in which no peer leads", 0, 0)
		return
	}
	if s.live != 0 {
		if s.left--; s.left == 0 {
			s.end()
		}
	}
	do(s, "a tick passes", 0, 0)
}

// end is the end of B's session in the log: a claim that it held is lost.
func (s *claimsState) end() {
	s.live, s.left = 0, 0
	if s.holder != 0 && s.holder != byC {
		s.lose()
	}
}

func (s *claimsState) lose() {
	s.holder = 0
	if s.attempts >= claimsAttempts && !s.over {
		s.over, s.givenUp = true, true
	}
}

// calls are what B's process asks of the log for its session, and hears.
func (m claims) calls(s claimsState, do Do[claimsState]) {
	next := s
	next.call, next.calling, next.answer = idle, 0, 0
	since := s.calling
	if m.mistake == fromTheAnswer {
		since = 0
	}
	switch s.call {
	case idle:
		if next.call = renews; s.session == 0 {
			next.call = opens
			do(next, "B asks for a session", 0, 0)
			return
		}
		do(next, "B asks for its session to be renewed", 0, 0)
		return
	case opened:
		next.session, next.age = s.answer, since
		do(next, "B hears that it has a session", 0, 0)
	case renewed:
		next.age = since
		do(next, "B hears that its session is renewed", 0, 0)
	case refused:
		next.session, next.names = 0, s.live
		do(next, "B hears that it is refused, and which session the log has", 0, 0)
	}
	next = s
	next.call, next.calling, next.answer = idle, 0, 0
	if s.call == opens {
		next.late, next.lateNames = true, s.names
	}
	do(next, "B waits no longer for the log's answer", 0, 0)
}

// log is what the log does with what B waits for.
func (m claims) log(s claimsState, do Do[claimsState]) {
	next := s
	next.call = refused
	switch s.call {
	case opens:
		if m.open(&next, s.names) {
			next.call, next.answer = opened, next.live
		}
		do(next, "the log opens a session for B, or refuses it", 0, 0)
	case renews:
		if s.live == s.session {
			next.call, next.left = renewed, claimsTTL
		}
		do(next, "the log renews the session of B, or refuses it", 0, 0)
	}
}

// late are messages that arrive when nobody waits for them any more.
func (m claims) late(s claimsState, do Do[claimsState]) {
	if s.late {
		next := s
		next.late, next.lateNames = false, 0
		m.open(&next, s.lateNames)
		do(next, "an opening that B has given up arrives", 0, 0)
	}
	if s.write == 0 {
		return
	}
	next := s
	next.write, next.wrote = 0, 0
	held := s.holder == s.write && s.live == s.wrote
	if m.mistake == requestAlone {
		held = s.holder != 0
	}
	if held {
		if s.holder != s.write {
			next.wrong = 2
		}
		next.over, next.holder = true, 0
	}
	do(next, "B's write arrives", 0, 0)
}

// open is OpenSession: it names the session that it takes the place of.
func (m claims) open(s *claimsState, names uint8) bool {
	if m.mistake != opensOver && s.live != names {
		s.spared = true
		return false
	}
	s.end()
	sessions := s.sessions()
	s.live, s.left = fresh(sessions[:]...), claimsTTL
	return true
}

// work is what B does for the request.
func (m claims) work(s claimsState, do Do[claimsState]) {
	next := s
	rely := uint8(claimsTTL - claimsMargin)
	switch m.mistake {
	case noMargin:
		rely = claimsTTL
	case claimIsForever:
		rely = never
	}
	if s.claim == 0 {
		if s.session != 0 && s.live == s.session && s.holder == 0 && !s.over {
			tokens := s.tokens()
			next.holder, next.attempts = fresh(tokens[:]...), s.attempts+1
			next.claim, next.in = next.holder, s.session
			do(next, "B claims the request", 0, 0)
		}
		return
	}
	if s.checked == 0 && s.session == s.in && s.age < rely {
		next.checked = 1
		do(next, "B may act", 0, 0)
	}
	if s.checked > 0 {
		next = s
		next.checked, next.acted = 0, true
		if s.holder != s.claim {
			next.wrong = 1
		}
		do(next, "B sends a command to Ironic", 0, 0)
	}
	next = s
	next.claim, next.in, next.checked = 0, 0, 0
	if s.write == 0 {
		next.write, next.wrote = s.claim, s.in
		do(next, "B writes that the request is done", 0, 0)
	}
	next.write, next.wrote = s.write, s.wrote
	if s.holder == s.claim && s.live == s.in {
		next.holder = 0
		next.attempts--
		do(next, "B gives the request back", 0, 0)
	}
}

// others are what C does: it claims the request, and ends it or loses it.
func (m claims) others(s claimsState, do Do[claimsState]) {
	next := s
	switch {
	case s.over:
	case s.holder == 0:
		next.holder, next.attempts = byC, s.attempts+1
		do(next, "C claims the request", 0, 0)
	case s.holder == byC:
		next.lose()
		do(next, "C's session ends", 0, 0)
		next = s
		next.holder, next.over = 0, true
		do(next, "C's write arrives", 0, 0)
	}
}

// failures are a process that is killed and started again, and a suspicion.
func (m claims) failures(s claimsState, do Do[claimsState]) {
	if s.restarts > 0 {
		next := claimsState{
			late: s.late, lateNames: s.lateNames, write: s.write, wrote: s.wrote, names: s.live,
			live: s.live, left: s.left, holder: s.holder, attempts: s.attempts, over: s.over,
			restarts: s.restarts - 1, givenUp: s.givenUp, spared: s.spared, acted: s.acted,
		}
		if s.call == opens {
			next.late, next.lateNames = true, s.names
		}
		do(next, "B's process is killed, and another one starts", 0, 0)
	}
	if m.mistake == suspected && s.live != 0 {
		next := s
		next.end()
		do(next, "B is suspected", 0, 0)
	}
}
