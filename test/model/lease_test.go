package model

import (
	"math/bits"
	"slices"
)

// The PXE service as a lease that the kernel keeps, and the wait of the next leader for it, by age or in full
// (docs/design.md#pxe-lease, docs/design.md#pxe-age): firewall.Guard (takeTurn, mustWait, stopAndRecord), Arm,
// Open and Hold of firewall/nftables, fsm/doors.PassOpen and PassClosed, raftguard.Gate and raftguard.Ages.
//
// Three voters; A leads in term 1. Time is ticks, the same for all hosts; L is two. An element that is written
// between two ticks is gone after the second one, so that a lease that was proven at t0 is gone 2 L - 1 ticks
// after t0: D. A process takes any time between two steps: stopped anywhere, it goes on later. Requests and
// answers take any time as well; one that is lost is one that nobody takes. A killed process leaves its kernel
// as it is, and its new gate knows nothing of before. slack is for how many ticks in all a host's kernel timers
// may stand still while it lets machines boot afterwards: a host that a hypervisor froze, or whose clock runs
// slow. The wait has room for it, as firewall.freeze and slewShare have.
//
// Assumed: proofs as confirm_test.go has them; a vote is given in one step by all who give it, which is the
// moment from which the proof counts. What an age is late on its way makes the wait longer, and is left out.
//
// Not modelled: changes of members (Door.Index), the floating IP, whose guard is the same, former members
// (founding_test.go), the lists.
const (
	leasePeers = 3
	leaseTerms = 2
	leaseLong  = 2 // L
	never      = 255
)

// The mistakes.
const (
	armedLate     = "the element is armed after the proof began"
	swapsBlindly  = "the lease is written whether its element is there still or not"
	waitsForNone  = "the wait has no room for a host that was frozen"
	oneAnswers    = "one voter's answer is enough"
	asksForTime   = "an age counts from when the question was sent"
	lowGate       = "a voter that has told its age acknowledges earlier leaders still"
	youngGate     = "a new process says that it never acknowledged any leader"
	opensUnsaid   = "a leader opens before the log has it"
	closesUnsaid  = "a leader says that it has closed before it has"
	opensAgain    = "a leader that has said that it has closed opens again"
	oldestAnswers = "of a majority's ages the oldest counts"
)

const twoOpen = "two hosts let machines boot"

// Phases of a guard.
const (
	waiting = uint8(iota) // the log does not have it yet that this leadership opens
	shut
	armed
	opening // a proof has begun
	mayOpen // it has succeeded
	open
	holding // a proof has begun
	mayHold // it has succeeded
	yielding
	yielded
)

type leaseHost struct {
	term       uint8                 // on its disk: no acknowledgement of a lower one leaves
	passed     [leaseTerms + 1]uint8 // by term: age of the newest acknowledgement that left
	lease, arm uint8                 // of the kernel: ticks that are left of the elements

	// Of the process, while it leads:
	led     uint8 // the term; 0: it does not
	phase   uint8
	acks    uint8             // who acknowledged what was sent since the proof began
	handled uint8             // whose raft did, while the answer has not left; of one mistake alone
	began   uint8             // ticks since it was elected
	answers [leasePeers]uint8 // by voter: age of its newest acknowledgement of an earlier leader; never: not told yet
}

type leaseState struct {
	h     [leasePeers]leaseHost
	door  uint8 // the term of the leadership that the log says has it open, 0: none
	slack uint8 // ticks that kernels may still stand still
	kills uint8
	aged  bool // a door was opened before the full wait was over
}

type lease struct {
	mistake string
	wait    uint8
}

func leaseSubject() checked {
	return subject[leaseState]{
		name: "lease",
		build: func(mistake string, large bool) Model[leaseState] {
			m := lease{mistake: mistake}
			start := leaseState{slack: 1, kills: 1}
			switch {
			case large:
				start.slack, start.kills = 2, 2
			case mistake != "" && mistake != youngGate: // a smaller model will do to show it
				start.kills = 0
			}
			if mistake != "" && mistake != waitsForNone {
				start.slack = 0
			}
			m.wait = 2*leaseLong - 1 + start.slack
			if mistake == waitsForNone {
				m.wait = 2*leaseLong - 1
			}
			for p := range start.h {
				start.h[p] = leaseHost{term: 1, answers: untold()}
			}
			start.h[0].led = 1
			return Model[leaseState]{
				Start: m.settled(start), Steps: m.steps, Limit: 30_000_000, Same: leaseState.swapped,
				Sometimes: leaseSituations(),
				Never:     []Rule[leaseState]{{twoOpen, func(s leaseState) bool { return s.opened() > 1 }}},
			}
		},
		mistakes: []mistake{{armedLate, twoOpen}, {swapsBlindly, twoOpen}, {waitsForNone, twoOpen}, {oneAnswers, twoOpen},
			{asksForTime, twoOpen}, {lowGate, twoOpen}, {youngGate, twoOpen}, {opensUnsaid, twoOpen}, {closesUnsaid, twoOpen},
			{opensAgain, twoOpen}, {oldestAnswers, twoOpen}},
	}
}

func leaseSituations() []Rule[leaseState] {
	leads := func(s leaseState, phases ...uint8) bool {
		return slices.ContainsFunc(s.h[:], func(h leaseHost) bool { return h.led > 1 && slices.Contains(phases, h.phase) })
	}
	return []Rule[leaseState]{
		{"the second leader opens", func(s leaseState) bool { return leads(s, open) }},
		{"the second leader opens before the full wait is over", func(s leaseState) bool { return s.aged && leads(s, open) }},
		{"the first leader is open still while the second waits",
			func(s leaseState) bool { return s.h[0].led == 1 && s.h[0].lease > 0 && leads(s, waiting) }},
		{"a killed leader's kernel is open still", func(s leaseState) bool { return s.h[0].led == 0 && s.h[0].lease > 0 }},
		{"a stopped leader has a proof that it may use no more",
			func(s leaseState) bool { return s.h[0].phase == mayHold && s.h[0].lease == 0 && leads(s, open) }},
		{"the second leader opens at once, since the first has said that it closed",
			func(s leaseState) bool { return s.h[0].phase == yielded && leads(s, shut) && s.door == 2 }},
		{"the first peer leads again", func(s leaseState) bool { return s.h[0].led > 1 && s.h[0].phase == open }},
	}
}

func untold() (ages [leasePeers]uint8) {
	for p := range ages {
		ages[p] = never
	}
	return ages
}

// swapped returns the state in which B and C have changed places, if that comes first.
func (s leaseState) swapped() leaseState {
	swap := func(peers uint8) uint8 { return peers&1 | peers&2<<1 | peers&4>>1 }
	o := s
	o.h[1], o.h[2] = s.h[2], s.h[1]
	for p := range o.h {
		h := &o.h[p]
		h.acks, h.handled = swap(h.acks), swap(h.handled)
		h.answers[1], h.answers[2] = h.answers[2], h.answers[1]
	}
	if slices.Compare(o.order(), s.order()) < 0 {
		return o
	}
	return s
}

// order is what tells B, and what is kept of it, from C.
func (s leaseState) order() []uint8 {
	b, c := s.h[1], s.h[2]
	return append(append([]uint8{b.term, b.lease, b.arm, b.led, b.phase, b.acks, b.handled, b.began, c.acks, c.handled,
		s.h[0].acks, s.h[0].handled, s.h[0].answers[1], s.h[0].answers[2]}, b.passed[:]...),
		append(b.answers[:], c.answers[:]...)...)
}

// opened is how many hosts let machines boot.
func (s leaseState) opened() (n int) {
	for _, h := range s.h {
		if h.lease > 0 {
			n++
		}
	}
	return n
}

// settled gives one value to what nobody will look at any more, so that fewer states differ.
func (m lease) settled(s leaseState) leaseState {
	last := uint8(0)
	for _, h := range s.h {
		last = max(last, h.term)
	}
	for p := range s.h {
		h := &s.h[p]
		if h.led == 0 || h.phase != waiting {
			h.began, h.answers = 0, untold()
		}
		if h.phase != opening && h.phase != holding {
			h.acks, h.handled = 0, 0
		}
		if h.led == 0 {
			h.phase = waiting
		}
		for term := range h.passed {
			asked := uint8(term) < leaseTerms && term > 0 && (last < leaseTerms || m.awaited(s, p))
			if !asked {
				h.passed[term] = 0
			}
		}
	}
	return s
}

// awaited reports whether the newest leader may still ask a voter.
func (m lease) awaited(s leaseState, p int) bool {
	return m.mistake == lowGate || slices.ContainsFunc(s.h[:], func(h leaseHost) bool {
		return h.led == leaseTerms && h.phase == waiting && h.answers[p] == never
	})
}

func (m lease) steps(s leaseState, do Do[leaseState]) {
	tell := func(next leaseState, what string, p, q int) { do(m.settled(next), what, p, q) }
	m.time(s, tell)
	for p := range s.h {
		m.election(s, tell, p)
		m.lost(s, tell, p)
		if s.h[p].led > 0 {
			m.guard(s, tell, p)
			m.record(s, tell, p)
			m.questions(s, tell, p)
		}
	}
}

// time passes, for the kernel of a host that stands still without its knowledge.
func (m lease) time(s leaseState, do Do[leaseState]) {
	for still := range leasePeers + 1 { // the last: none stands still
		if still < leasePeers && (s.slack == 0 || s.h[still].lease+s.h[still].arm == 0) {
			continue
		}
		next := s
		for p := range next.h {
			h := &next.h[p]
			if p == still {
				next.slack--
			} else {
				h.lease, h.arm = h.lease-min(h.lease, 1), h.arm-min(h.arm, 1)
			}
			h.began = min(h.began+1, m.wait)
			for i, age := range h.answers {
				if age != never {
					h.answers[i] = min(age+1, m.wait)
				}
			}
			for term, age := range h.passed {
				h.passed[term] = min(age+1, m.wait)
			}
		}
		if still < leasePeers {
			do(next, "a tick passes, and {P}'s kernel does not know", still, 0)
		} else {
			do(next, "a tick passes", 0, 0)
		}
	}
}

// election makes a peer the leader of the next term, by its vote and one other.
func (m lease) election(s leaseState, do Do[leaseState], p int) {
	term := uint8(0)
	for _, h := range s.h {
		term = max(term, h.term)
	}
	if term++; term > leaseTerms || s.h[p].led > 0 {
		return // a peer ends one leadership before it begins another
	}
	for q := range s.h {
		if q == p {
			continue
		}
		next := s
		next.h[p].term, next.h[q].term = term, term
		next.h[p].led, next.h[p].phase, next.h[p].began, next.h[p].answers = term, waiting, 0, untold()
		do(next, "{P} is elected by {Q}", p, q)
	}
}

// lost is what ends a leadership: its process closes, or it is killed and starts anew.
func (m lease) lost(s leaseState, do Do[leaseState], p int) {
	if s.h[p].led > 0 {
		next := s
		next.h[p].led, next.h[p].lease, next.h[p].arm = 0, 0, 0
		do(next, "{P} closes and leads no more", p, 0)
	}
	if s.kills > 0 && (s.h[p].lease > 0 || s.h[p].arm > 0 || s.h[p].term < leaseTerms) {
		next := s
		next.kills--
		h := &next.h[p]
		h.led, h.passed = 0, [leaseTerms + 1]uint8{}
		if m.mistake == youngGate {
			for term := range h.passed {
				h.passed[term] = m.wait
			}
		}
		do(next, "{P}'s process is killed, and another one starts", p, 0)
	}
}

// guard is firewall's watch under one leadership.
func (m lease) guard(s leaseState, do Do[leaseState], p int) {
	h := s.h[p]
	to := func(phase uint8, what string, change func(h *leaseHost)) {
		next := s
		next.h[p].phase = phase
		change(&next.h[p])
		do(next, what, p, 0)
	}
	nothing := func(*leaseHost) {}
	arm := func(h *leaseHost) { h.arm = leaseLong }
	switch h.phase {
	case waiting:
		if m.mistake == opensUnsaid && m.mayOpen(s, p) {
			to(armed, "{P} arms", arm)
		}
	case shut:
		if m.mistake == armedLate {
			to(opening, "{P} begins a proof", nothing)
		} else {
			to(armed, "{P} arms", arm)
		}
	case armed:
		to(opening, "{P} begins a proof", nothing)
	case open:
		to(holding, "{P} begins a proof", nothing)
	case opening, holding:
		m.proof(s, do, p)
	case mayOpen:
		if m.mistake == armedLate && h.arm == 0 {
			to(mayOpen, "{P} arms", arm)
		}
		m.write(h.arm, to)
	case mayHold:
		m.write(h.lease, to)
	}
}

// write is the transaction that writes the lease if the element is there that was written before the proof.
func (m lease) write(element uint8, to func(uint8, string, func(*leaseHost))) {
	if element == 0 && m.mistake != swapsBlindly {
		to(shut, "{P}'s element has ended, so that it writes none", func(*leaseHost) {})
		return
	}
	to(open, "{P} writes the lease", func(h *leaseHost) { h.lease, h.arm = leaseLong, 0 })
}

// proof is Confirm: each voter that is in no newer term acknowledges, and with a majority the leader itself does.
func (m lease) proof(s leaseState, do Do[leaseState], p int) {
	led := s.h[p].led
	for q := range s.h {
		handled := s.h[p].handled&(1<<q) != 0
		if q == p || s.h[p].acks&(1<<q) != 0 || s.h[q].term > led && !handled {
			continue
		}
		next := s
		if m.mistake == lowGate && !handled {
			next.h[p].handled |= 1 << q
			next.h[q].term = led
			do(next, "{P}'s raft acknowledges a heartbeat of {Q}, and the answer has not left yet", q, p)
			continue
		}
		next.h[p].acks |= 1 << q
		next.h[q].term, next.h[q].passed[led] = max(led, s.h[q].term), 0
		do(next, "{P} acknowledges a heartbeat of {Q}", q, p)
	}
	if bits.OnesCount8(s.h[p].acks) >= 1 && s.h[p].term == led {
		next := s
		next.h[p].phase++ // mayOpen or mayHold
		next.h[p].passed[led] = 0
		do(next, "{P}'s proof succeeds", p, 0)
	}
}

// questions are those of a new leader for ages. Who answers is in its term, and acknowledges no earlier
// leader afterwards.
func (m lease) questions(s leaseState, do Do[leaseState], p int) {
	h := s.h[p]
	if h.phase != waiting || h.led == 1 {
		return
	}
	for q := range s.h {
		switch {
		case s.h[q].term < h.led:
			next := s
			next.h[q].term = h.led
			do(next, "{P} hears of the term of {Q}", q, p)
		case s.h[q].term == h.led && h.answers[q] == never:
			age := m.wait
			for term := uint8(1); term < h.led; term++ {
				age = min(age, s.h[q].passed[term])
			}
			if m.mistake == asksForTime {
				age = min(age+h.began, m.wait)
			}
			next := s
			next.h[p].answers[q] = age
			do(next, "{P} tells {Q} how long ago it acknowledged an earlier leader", q, p)
		}
	}
}

// mayOpen is mustWait, and what fsm/doors asks.
func (m lease) mayOpen(s leaseState, p int) bool {
	h := s.h[p]
	return s.door == 0 || s.door == h.led || h.began >= m.wait || m.aged(h)
}

// aged is Ages.Until: a majority of the voters acknowledged no earlier leader for long enough.
func (m lease) aged(h leaseHost) bool {
	ages := slices.DeleteFunc(slices.Clone(h.answers[:]), func(age uint8) bool { return age == never })
	slices.Sort(ages)
	slices.Reverse(ages) // the greatest first
	switch {
	case m.mistake == oneAnswers:
		return len(ages) > 0 && ages[0] >= m.wait
	case len(ages) < 2:
		return false
	case m.mistake == oldestAnswers:
		return ages[0] >= m.wait
	}
	return ages[1] >= m.wait
}

// record commits what a leader does: that it opens, and that it has closed. A majority takes the entry.
func (m lease) record(s leaseState, do Do[leaseState], p int) {
	h := s.h[p]
	if h.phase == shut || h.phase == open {
		next := s
		next.h[p].phase = yielding
		if m.mistake != closesUnsaid {
			next.h[p].lease, next.h[p].arm = 0, 0
		}
		do(next, "{P} closes to hand leadership on", p, 0)
	}
	for q := range s.h {
		if q == p || s.h[q].term > h.led || h.term != h.led {
			continue
		}
		next := s
		next.h[q].term, next.h[q].passed[h.led], next.h[p].passed[h.led] = h.led, 0, 0
		switch {
		case h.phase == waiting && m.mayOpen(s, p):
			next.aged = s.aged || s.door != 0 && h.began < m.wait
			next.h[p].phase, next.door = shut, h.led
			do(next, "{P} commits with {Q} that it opens", p, q)
		case h.phase == yielding:
			next.h[p].phase, next.door = yielded, 0
			if m.mistake == opensAgain {
				next.h[p].phase = shut
			}
			do(next, "{P} commits with {Q} that it has closed", p, q)
		}
	}
}
