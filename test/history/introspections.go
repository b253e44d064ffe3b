package history

import (
	"fmt"
	"strings"

	"github.com/anishathalye/porcupine"
)

// NodeCall is one thing that a client asked of a node's introspection.
type NodeCall struct {
	Verb Verb
	Node string
}

// The verbs of introspections: Read is of the status.
const (
	Start    Verb = "start"
	Abort    Verb = "abort"
	ReadData Verb = "data"
)

// NodeTold is the answer: Yes, Refused (a state does not allow it), Held (the node is
// locked), Nothing (it was never introspected; there is no data), or Unknown.
type NodeTold struct {
	Said    Saying
	State   string // of a status, and by which a start was refused
	Started string // of a status: which introspection
}

// states are some states of an introspection: where the model does not know in which of
// them it is.
type states uint8

const (
	starting states = 1 << iota
	waiting
	processing
	finished
	failed
	aborting

	ended = finished | failed
)

// stateOf returns a state by its name in the API, 0 if the model has none of that name.
func stateOf(name string) states {
	return map[string]states{"starting": starting, "waiting": waiting, "processing": processing, "finished": finished,
		"error": failed, "aborting": aborting}[name]
}

// later returns the states and all to which they may lead without a client.
func (s states) later() states {
	if s&starting != 0 {
		s |= waiting
	}
	if s&waiting != 0 {
		s |= processing
	}
	if s&processing != 0 {
		s |= finished
	}
	if s&^ended != 0 {
		s |= failed
	}
	return s
}

// inspected is the state of a node.
type inspected struct {
	may states // 0: it was never introspected
	// newest is when the introspection started, "" if nobody read that; former are those
	// before, each with a "|" before it.
	newest, former string
	data           bool // there is data of it
}

// Introspections is what docs/contract.md#states and #starting promise of one node after
// the other. An introspection goes on by itself, and never back; a start that was
// acknowledged begins another one, which has no data yet.
func Introspections() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return inspected{} },
		Step: func(state, input, output any) (bool, any) {
			ok, next := state.(inspected).step(input.(NodeCall), output.(NodeTold))
			return ok, next
		},
		Partition:         partition(func(in any) string { return in.(NodeCall).Node }),
		DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v → %+v", in, out) },
	}
}

func (s inspected) step(in NodeCall, out NodeTold) (bool, inspected) {
	switch in.Verb {
	case Start:
		return s.start(out)
	case Abort:
		return s.abort(out)
	case ReadData:
		if out.Said == Nothing {
			s.may = (s.may &^ finished).later() // it was not then, and may be now
			return !s.data, s
		}
		ok := s.data || s.may&(processing|ended) != 0
		s.data = true
		return ok, s
	}
	return s.read(out)
}

func (s inspected) read(out NodeTold) (bool, inspected) {
	if out.Said == Nothing {
		return s.may == 0, s
	}
	is := stateOf(out.State)
	ok := s.may&is != 0 && (out.Started == s.newest || s.newest == "" && !s.begun(out.Started))
	s.newest, s.may = out.Started, is.later()
	s.data = s.data || is == finished
	return ok, s
}

// begun reports whether an introspection before the newest started then.
func (s inspected) begun(started string) bool { return strings.Contains(s.former+"|", "|"+started+"|") }

func (s inspected) start(out NodeTold) (bool, inspected) {
	is := s.may & (starting | processing | aborting) // in which no start is taken
	switch {
	case out.Said == Refused:
		if named := stateOf(out.State); named != 0 {
			is &= named
		}
		s.may = is.later()
		return is != 0, s
	case out.Said == Held:
		return s.may != 0, s
	}
	if s.may != 0 && s.may&^is == 0 {
		return out.Said == Unknown, s // in vain
	}
	if s.newest != "" {
		s.former += "|" + s.newest
	}
	return true, inspected{may: starting.later(), former: s.former}
}

func (s inspected) abort(out NodeTold) (bool, inspected) {
	active := s.may &^ ended
	switch out.Said {
	case Nothing:
		return s.may == 0, s
	case Held, Refused:
		return active != 0, s
	case Unknown:
		if active != 0 {
			s.may |= aborting.later()
		}
		return true, s
	}
	ok := s.may != 0
	s.may &= ended
	if active != 0 {
		s.may |= aborting.later()
	}
	return ok, s
}
