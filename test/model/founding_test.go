package model

// Founding again with former members (docs/design.md#founding, docs/design.md#former): fsm.Refound (tokens,
// Revoke), fsm/membership (FormerHeard, UnhearAll, Rejoin's heirs), fsm/doors (Doubt, FormerHeard, the wait of
// an unknown door), cluster.Access.AskFormer and Formers, datadir.Refounding.Judge, pki's comparison of
// incarnations.
//
// A was founded again from a state that may lack what the old history granted since. The old peers on B and C
// were stopped then, or named lost. They may be started again, killed, cut off from A; a host may join the new
// history. Two old peers are a majority of the old history: they elect one of them, which opens the PXE service,
// and grant tokens. A leads the new history, asks the hosts of former members, waits and opens; its process may
// restart, which is another leadership. Time is ticks: a kernel keeps open for one what its process does not
// close, and A waits for two. Leaders of the old history do not wait: their log may say that all have closed.
//
// Assumed: an old peer that is started and reaches A learns of the higher incarnation before it does anything. A
// name that an operator calls lost is not running.
//
// Conceded (docs/design.md#former), and so no state that must not be: a majority of old peers each of which was
// started, cut off from A, after the present leadership of A had heard its host as stopped, or after it was
// named lost, or while A's kernel had PXE open.
//
// Not modelled: two foundings that know nothing of each other, which only clocks order; joined peers that lead.
const (
	foundingWait  = 2
	foundingUnits = 4 // fsm's unseenEntries: more than the old history can grant
)

// The mistakes.
const (
	heardForGood   = "what an earlier leadership heard counts"
	silenceStops   = "a host that does not answer counts as stopped"
	heardAndOpened = "nothing is waited for after the last former member was heard"
	formerVotes    = "a peer that has joined the new history still votes in the old one"
	baseStays      = "tokens are not raised above what the founder did not see"
)

const (
	twoHistories = "PXE is open in both histories"
	tokenTwice   = "a token of the new history is not above all of the old one"
)

type foundingHost struct {
	old    bool  // its peer of the old history runs
	joined bool  // it has a peer of the new history
	lost   bool  // it was named lost
	heard  bool  // as A's log says
	sure   bool  // it was, under A's present leadership
	after  bool  // its old peer was started after that, or after it was named lost, or while A had PXE open
	open   uint8 // ticks for which the kernel keeps PXE open
}

type foundingState struct {
	h        [3]foundingHost
	cut      bool
	leader   uint8 // of the old history: 0: none, else its host
	conceded bool
	// A's present leadership.
	wait   uint8
	opened bool
	token  uint8 // that it got; 0: it has none yet
	// The highest token of the old history, and the highest that A's state knew.
	granted              uint8
	starts, cuts, leaves uint8 // how often it may still happen: an old peer starts, the net is cut, A restarts
	everOpen, oldOpen    bool
}

type founding struct{ mistake string }

func foundingSubject() checked {
	return subject[foundingState]{
		name: "founding",
		build: func(mistake string, large bool) Model[foundingState] {
			start := foundingState{wait: foundingWait, starts: 3, cuts: 1, leaves: 1, granted: 1}
			if large {
				start.starts, start.cuts, start.leaves = 5, 2, 3
			}
			return Model[foundingState]{
				Start: start, Steps: founding{mistake}.steps, Limit: 20_000_000, Sometimes: foundingSituations(),
				Never: []Rule[foundingState]{
					{twoHistories, func(s foundingState) bool { return !s.conceded && s.both() }},
					{tokenTwice, func(s foundingState) bool { return s.token != 0 && s.token <= s.granted }},
				},
			}
		},
		mistakes: []mistake{{heardForGood, twoHistories}, {silenceStops, twoHistories}, {heardAndOpened, twoHistories},
			{formerVotes, twoHistories}, {baseStays, tokenTwice}},
	}
}

func foundingSituations() []Rule[foundingState] {
	return []Rule[foundingState]{
		{"A opens", func(s foundingState) bool { return s.opened }},
		{"the old history has PXE open while A waits",
			func(s foundingState) bool { return s.leader != 0 && s.h[s.leader].open > 0 && !s.opened && !s.conceded }},
		{"A opens after the old history had it open, and nothing was conceded",
			func(s foundingState) bool { return s.opened && s.oldOpen && !s.conceded }},
		{"an old peer is killed, and its kernel keeps open what it had",
			func(s foundingState) bool { return !s.h[1].old && s.h[1].open > 0 }},
		{"A has been restarted, and the old history has it open", func(s foundingState) bool {
			return s.everOpen && !s.opened && !s.conceded && s.leader != 0 && s.h[s.leader].open > 0
		}},
		{"a host has joined, and A is open", func(s foundingState) bool { return s.h[1].joined && s.opened }},
		{"what is conceded happens", func(s foundingState) bool { return s.conceded && s.both() }},
	}
}

// both reports whether PXE is open in both histories. Two hosts of one history are lease_test.go's.
func (s foundingState) both() bool { return s.h[0].open > 0 && s.h[1].open+s.h[2].open > 0 }

func (m founding) steps(s foundingState, do Do[foundingState]) {
	if s.conceded && s.both() {
		do(s, "what follows is conceded", 0, 0)
		return
	}
	tell := func(next foundingState, what string, p, q int) {
		b, c := next.h[1], next.h[2]
		next.conceded = next.conceded || b.old && b.after && c.old && c.after
		do(next, what, p, q)
	}
	m.world(s, tell)
	for p := 1; p < len(s.h); p++ {
		m.oldPeer(s, tell, p)
		m.ask(s, tell, p)
	}
	m.oldHistory(s, tell)
	m.founder(s, tell)
}

// world is time, the net, and what operators do.
func (m founding) world(s foundingState, do Do[foundingState]) {
	next := s
	for p := range next.h {
		next.h[p].open -= min(next.h[p].open, 1)
	}
	next.wait -= min(s.wait, 1)
	next.after()
	do(next, "a tick passes", 0, 0)
	if !s.cut && s.cuts > 0 {
		next := s
		next.cut, next.cuts = true, s.cuts-1
		do(next, "B and C are cut off from A", 0, 0)
	}
	if s.cut {
		next := s
		next.cut = false
		do(next, "the cut ends", 0, 0)
	}
	if s.leaves > 0 {
		next := s
		next.leaves--
		next.wait, next.opened, next.token = foundingWait, false, 0
		for p := range next.h {
			next.h[p].heard = next.h[p].heard && m.mistake == heardForGood
			next.h[p].sure = false
		}
		next.after()
		do(next, "A restarts", 0, 0)
	}
}

// after notes of what runs that the leadership which A has by now did not rely on its being stopped.
func (s *foundingState) after() {
	for p := range s.h {
		h := &s.h[p]
		h.after = h.after && (h.sure || h.lost || s.opened || s.h[0].open > 0)
	}
}

// oldPeer is the peer of the old history on a host.
func (m founding) oldPeer(s foundingState, do Do[foundingState], p int) {
	h := s.h[p]
	stopped := func(what string, closes bool) {
		next := s
		next.h[p].old, next.h[p].after = false, false
		if closes {
			next.h[p].open = 0
		}
		next.leader = 0 // no majority is left
		do(next, what, p, 0)
	}
	switch {
	case h.old:
		stopped("the old peer on {P} is killed", false)
		if !s.cut {
			stopped("the old peer on {P} learns of the new history, and stops", true)
		}
	case h.joined:
	default:
		if s.starts > 0 && s.cut { // else it learns of the new history at once
			next := s
			next.starts--
			next.h[p].old, next.h[p].after = true, h.sure || h.lost || s.opened || s.h[0].open > 0
			do(next, "the old peer on {P} is started", p, 0)
		}
		if !s.cut {
			next := s
			next.h[p].joined = true
			do(next, "{P} joins the new history", p, 0)
		}
		if !h.lost && !h.heard {
			next := s
			next.h[p].lost = true
			m.heard(&next)
			do(next, "an operator names {P} lost", p, 0)
		}
	}
}

// majority reports whether the old history has one.
func (m founding) majority(s foundingState) bool {
	votes := 0
	for _, h := range s.h[1:] {
		if h.old || m.mistake == formerVotes && h.joined {
			votes++
		}
	}
	return votes == 2
}

// oldHistory is a leader of the old history.
func (m founding) oldHistory(s foundingState, do Do[foundingState]) {
	if !m.majority(s) {
		return
	}
	if s.leader == 0 {
		for p := 1; p < len(s.h); p++ {
			if !s.h[p].old || s.granted >= foundingUnits {
				continue
			}
			next := s
			next.leader, next.granted = uint8(p), s.granted+1
			do(next, "{P} leads the old history, under a token of it", p, 0)
		}
		return
	}
	next := s
	next.h[s.leader].open, next.oldOpen = 1, true
	do(next, "{P} has PXE open in the old history", int(s.leader), 0)
}

// ask is what A asks the host of a former member.
func (m founding) ask(s foundingState, do Do[foundingState], p int) {
	h := s.h[p]
	if h.lost || h.heard && !h.old {
		return
	}
	next := s
	switch {
	case s.cut && m.mistake != silenceStops:
		return
	case h.old && !s.cut:
		next.h[p].heard, next.h[p].sure = false, false
		do(next, "A asks {P}, whose old peer runs", p, 0)
	default:
		next.h[p].heard, next.h[p].sure = true, true
		m.heard(&next)
		do(next, "A hears {P} as stopped, or as of the new history", p, 0)
	}
}

// heard begins the wait again: what a killed peer has open its kernel may keep open until now.
func (m founding) heard(s *foundingState) {
	if m.mistake != heardAndOpened {
		s.wait = foundingWait
	}
}

// founder is A's leadership.
func (m founding) founder(s foundingState, do Do[foundingState]) {
	if s.token == 0 {
		next := s
		next.token = 1 + foundingUnits
		if m.mistake == baseStays {
			next.token = 2 // its state knew token 1
		}
		do(next, "A leads the new history, under a token of it", 0, 0)
		return
	}
	ready := s.wait == 0
	for _, h := range s.h[1:] {
		ready = ready && (h.heard || h.lost)
	}
	if s.opened || ready {
		next := s
		next.opened, next.everOpen, next.h[0].open = true, true, 1
		do(next, "A has PXE open", 0, 0)
	}
}
