package model

// Proof before remediation, across leaders (docs/design.md#failover): failover's remedy (prove, taint, batch,
// readPower, unproven, untaint, takePower), clusterController.write, Mark and DeletePod of failover/kube,
// fsm/kubestate.StepRemediation.
//
// A leads, then B, while a machine that was switched off loses its work: taint, then the pod. Each of the two
// may stop between any two steps and go on under the other's leadership, with what it has read and with a write
// in its hand. Somebody switches the machine on once. Time is ticks; a machine needs two of them to boot into
// its kubelet.
//
// Assumed: a kubelet that has booted writes Node and pod no later than it runs the pod, so that what was read of
// them before is old. A proof of leadership is as confirm_test.go has it. A power-off command comes in time (a
// late one is conceded in docs/design.md#promises).
//
// Not modelled: devices that lie, the signs of life besides the boot ID, guard rails; a leader that stops may
// stand for one that they hold.
const (
	bootTicks = 2
	batchLong = 1 // a proof's deletions begin this long after the power was read
	running   = bootTicks + 1
)

// The mistakes.
const (
	proofOfAnother = "a leader goes on with the proof of the one before"
	clearsTaints   = "a leader that reads power writes the Node only where the taint stands"
	anyVersion     = "a write does not name the version that was read"
	writesDeposed  = "a leader proves no leadership before it writes"
	anyBoot        = "the boot ID is not compared"
)

const (
	takenFromLiving = "work is taken from a machine whose kubelet runs"
	taintedAfterOn  = "the taint is put on a machine that a leader has read on since the proof"
)

// What the log says of the remediation.
const (
	logOff = uint8(iota)
	logTainted
	logDeleted
	logFencing
)

// Where a leader's turn is at.
const (
	atStart = uint8(iota)
	readOff
	hasProof // power, pod and Node were read
	inHand   // leadership was proven: a write may arrive
	wrote
	readOn
	hasNode // power and Node were read
	inClear // leadership was proven
	cleared
)

type controller struct {
	at            uint8
	age           uint8 // ticks since the power was read
	found         uint8 // what the log said at its start
	newest, asPod bool  // Node and pod are as it has read them
}

type failoverState struct {
	machine     uint8 // 0: off; then ticks since it is on; running: its kubelet runs
	switches    uint8 // how often somebody may still switch it on
	taint, gone bool  // gone: the pod was deleted
	log, lead   uint8
	l           [2]controller
	wasOn       bool // a leader has read power since it was switched off last, and has acted on it
	late        bool // a write of A was refused under B
	wrong       uint8
}

type failover struct{ mistake string }

func failoverSubject() checked {
	return subject[failoverState]{
		name: "failover",
		build: func(mistake string, large bool) Model[failoverState] {
			start := failoverState{switches: 1}
			if large {
				start.switches = 3
			}
			return Model[failoverState]{
				Start: start, Steps: failover{mistake}.steps, Limit: 20_000_000, Sometimes: failoverSituations(),
				Never: []Rule[failoverState]{
					{takenFromLiving, func(s failoverState) bool { return s.wrong == 1 }},
					{taintedAfterOn, func(s failoverState) bool { return s.wrong == 2 }},
				},
			}
		},
		mistakes: []mistake{{proofOfAnother, takenFromLiving}, {clearsTaints, taintedAfterOn}, {anyVersion, takenFromLiving},
			{writesDeposed, taintedAfterOn}, {anyBoot, takenFromLiving}},
	}
}

func failoverSituations() []Rule[failoverState] {
	return []Rule[failoverState]{
		{"B deletes the pod of a Node that A has tainted",
			func(s failoverState) bool { return s.lead == 1 && s.gone && s.taint && s.l[1].found == logTainted }},
		{"A is stopped with a write in its hand, and B goes on",
			func(s failoverState) bool { return s.lead == 1 && s.l[0].at == inHand && s.log > logOff }},
		{"a late write of A is refused", func(s failoverState) bool { return s.late }},
		{"B takes the taint from a machine that boots",
			func(s failoverState) bool {
				return s.lead == 1 && s.wasOn && !s.taint && s.machine != 0 && s.machine < running
			}},
		{"the kubelet runs while A has a deletion in its hand",
			func(s failoverState) bool {
				return s.machine == running && s.l[0].at == inHand && s.l[0].found == logTainted
			}},
		{"the machine is switched off again",
			func(s failoverState) bool { return s.machine == 0 && s.switches == 0 && s.log == logOff }},
	}
}

func (m failover) steps(s failoverState, do Do[failoverState]) {
	next := s
	for i := range next.l {
		if at := s.l[i].at; at == readOff || at == hasProof || at == inHand || at == wrote {
			next.l[i].age = min(s.l[i].age+1, batchLong+1)
		}
	}
	if s.machine > 0 && s.machine < running {
		if next.machine++; next.machine == running {
			for i := range next.l { // the kubelet writes Node and pod
				next.l[i].newest, next.l[i].asPod = false, false
			}
		}
	}
	do(next, "a tick passes", 0, 0)
	if s.machine == 0 && s.switches > 0 {
		next := s
		next.machine, next.switches = 1, s.switches-1
		do(next, "somebody switches the machine on", 0, 0)
	}
	if s.lead == 0 {
		next := s
		next.lead = 1
		do(next, "B is elected", 0, 0)
	}
	for i := 0; i <= int(s.lead); i++ {
		m.reads(s, do, i)
		m.proves(s, do, i)
		m.writes(s, do, i)
		m.records(s, do, i)
	}
}

// reads are what a turn reads: power, then pod and Node.
func (m failover) reads(s failoverState, do Do[failoverState], i int) {
	next := s
	l := &next.l[i]
	switch s.l[i].at {
	case atStart:
		if s.log == logDeleted || s.log == logFencing {
			return
		}
		*l = controller{at: readOn, found: s.log}
		if m.mistake == proofOfAnother && i == 1 {
			l.at = readOff
			do(next, "{P} takes the machine to be off, as the log says", i, 0)
			return
		}
		if s.machine == 0 {
			l.at = readOff
			do(next, "{P} reads the power: off", i, 0)
			return
		}
		do(next, "{P} reads the power: on", i, 0)
	case readOff, readOn:
		boots := s.machine == running && m.mistake != anyBoot && (m.mistake != proofOfAnother || i == 0)
		l.newest, l.asPod, l.at = true, true, hasProof
		if s.l[i].at == readOn || boots {
			l.at = hasNode
		}
		do(next, "{P} reads pod and Node", i, 0)
	}
}

// proves is what stands before each write: leader.Confirmed.
func (m failover) proves(s failoverState, do Do[failoverState], i int) {
	next := s
	l := &next.l[i]
	leads := int(s.lead) == i || m.mistake == writesDeposed
	switch at := s.l[i].at; {
	case at != hasProof && at != hasNode:
	case !leads || at == hasProof && l.found == logTainted && l.age > batchLong:
		*l = controller{}
		do(next, "{P} may not write, and begins its turn again", i, 0)
	case at == hasProof:
		l.at = inHand
		do(next, "{P} proves that it leads, and is about to "+[...]string{"taint the Node", "delete the pod"}[l.found], i, 0)
	default:
		l.at = inClear
		do(next, "{P} proves that it leads, and is about to take the taint away", i, 0)
	}
}

// writes are requests that arrive.
func (m failover) writes(s failoverState, do Do[failoverState], i int) {
	l := s.l[i]
	if l.at != inHand && l.at != inClear {
		return
	}
	next := s
	current := l.newest
	if l.at == inHand && l.found == logTainted {
		current = l.asPod
	}
	if !current && m.mistake != anyVersion {
		next.l[i] = controller{}
		next.late = s.late || i == 0 && s.lead == 1
		do(next, "{P}'s write is refused: it was written to since", i, 0)
		return
	}
	wrote := func() { // what others have read of the Node is old
		next.l[1-i].newest = false
	}
	next.l[i].at = afterWrite(l.at)
	switch {
	case l.at == inClear:
		if s.taint || m.mistake != clearsTaints {
			wrote()
		}
		next.taint, next.wasOn = false, true
		do(next, "{P} takes the taint away, if it stands", i, 0)
	case l.found == logTainted:
		if s.machine == running && !s.gone {
			next.wrong = 1
		}
		next.gone, next.l[1-i].asPod = true, false
		do(next, "{P} deletes the pod", i, 0)
	default:
		wrote()
		next.taint = true
		switch {
		case s.machine == running:
			next.wrong = 1
		case s.wasOn:
			next.wrong = 2
		}
		do(next, "{P} taints the Node", i, 0)
	}
}

// afterWrite is where a turn is at after its write.
func afterWrite(at uint8) uint8 {
	if at == inClear {
		return cleared
	}
	return wrote
}

// records are steps in the log: of the leader alone, and from the state that it found.
func (m failover) records(s failoverState, do Do[failoverState], i int) {
	leads := int(s.lead) == i
	next := s
	switch at := s.l[i].at; {
	case at == wrote || at == cleared:
		next.l[i] = controller{}
		if !leads || s.log != s.l[i].found {
			do(next, "{P}'s step is refused by the log", i, 0)
			return
		}
		next.log = s.log + 1
		if at == cleared {
			next.log = logFencing
		}
		do(next, "{P} records its step", i, 0)
		if at == wrote && next.log == logTainted && s.l[i].age <= batchLong {
			next.l[i] = controller{at: readOff, found: logTainted, age: s.l[i].age}
			do(next, "{P} records its step, and goes on with the same reading", i, 0)
		}
	case at == atStart && leads && s.log == logFencing:
		next.machine, next.log, next.wasOn = 0, logOff, false
		do(next, "{P} switches the machine off, and reads it off twice", i, 0)
		next.l[i] = controller{at: readOff, found: logOff}
		do(next, "{P} switches the machine off, reads it off twice, and goes on with that reading", i, 0)
	}
}
