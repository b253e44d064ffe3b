package introspection

import (
	"slices"

	"github.com/trivet-ha/trivet/fsm/codec"
	"github.com/trivet-ha/trivet/fsm/entry"
)

// NodeState is where a node's introspection stands. The numbers are part of
// the log and never change.
type NodeState uint8

// The states: five of the HA specification and upstream's three extra ones
// (docs/design.md#introspection). NodeAbsent is that of a node without a record.
const (
	NodeAbsent     NodeState = 0
	NodeStarting   NodeState = 1 // accepted; power and boot work is running
	NodeWaiting    NodeState = 2 // the ramdisk is expected
	NodeProcessing NodeState = 3 // a callback is being processed
	NodeFinished   NodeState = 4
	NodeError      NodeState = 5
	NodeReapplying NodeState = 6 // stored data is being processed again
	NodeEnrolling  NodeState = 7 // discovery created the node
	NodeAborting   NodeState = 8 // an abort is under way
)

var stateNames = [...]string{"absent", "starting", "waiting", "processing", "finished", "error", "reapplying",
	"enrolling", "aborting"}

// String returns the state as the API names it.
func (s NodeState) String() string { return codec.NameOf(stateNames[:], "state", uint8(s)) }

// MarshalText implements encoding.TextMarshaler.
func (s NodeState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Active reports whether the introspection is under way: it has a deadline.
func (s NodeState) Active() bool {
	return s != NodeAbsent && s != NodeFinished && s != NodeError
}

// ParseNodeState reads the API's name of a state a record can have.
func ParseNodeState(name string) (NodeState, bool) {
	i := slices.Index(stateNames[1:], name)
	return NodeState(i + 1), i >= 0
}

// Event is what moves a node. The numbers are part of the log.
type Event uint8

// The events. Start, Process, Abort, Reapply, Timeout and Delete are what may
// be asked for; the others are the outcome of work.
const (
	EventStart    Event = 1  // the specification's Inspect
	EventWait     Event = 2  // S~: the node got the command to boot
	EventProcess  Event = 3  // Continue!: the ramdisk called back
	EventFinish   Event = 4  // F~: the data was processed
	EventError    Event = 5  // the work failed
	EventAbort    Event = 6  // an operator cancels
	EventAbortEnd Event = 7  // the abort's work is done
	EventTimeout  Event = 8  // the deadline passed
	EventReapply  Event = 9  // process stored data again
	EventEnroll   Event = 10 // discovery creates a record
	EventAdopt    Event = 11 // the callback of an active node creates a record
	EventGiveUp   Event = 12 // a request was claimed MaxAttempts times and never completed
	EventDelete   Event = 13 // the node is not Ironic's any more
)

var eventNames = [...]string{"", "start", "wait", "process", "finish", "error", "abort", "abort_end", "timeout",
	"reapply", "enroll", "adopt", "give_up", "delete"}

// String returns the event as the API names it.
func (e Event) String() string { return codec.NameOf(eventNames[:], "event", uint8(e)) }

// MarshalText implements encoding.TextMarshaler.
func (e Event) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// Origin says which column of the table decides.
type Origin uint8

const (
	// FromAPI is a new request: the wire contract decides.
	FromAPI Origin = iota
	// FromQueue is a request met in the queue, maybe again, and the outcome of
	// its work: the HA specification decides.
	FromQueue
)

// Verdict says what becomes of an event.
type Verdict uint8

const (
	// Refuse means that there is no such transition: 400 to a caller, and a
	// request met in the queue is jammed and will be consumed.
	Refuse Verdict = iota
	// Move means that the node goes to the Outcome's next state.
	Move
	// Defer means accepted: the request waits in the queue, which decides.
	Defer
	// Ignore means accepted, and nothing changes.
	Ignore
	// Locked means that the node is busy by the nature of its state: 409.
	Locked
)

// Outcome is one cell of the transition table.
type Outcome struct {
	Verdict Verdict
	Next    NodeState // of Move
}

// Transition returns what an event does to a node in a state. It is total.
func Transition(state NodeState, event Event, origin Origin) Outcome {
	for i := range transitions {
		if row := &transitions[i]; row.state == state && row.event == event {
			if origin == FromAPI {
				return row.api
			}
			return row.queue
		}
	}
	return no
}

// illegal is the contract's sentence for a refused event.
func illegal(state NodeState, event Event) entry.Result {
	return entry.Refuse(entry.IllegalTransition,
		"Can not transition from state '%v' on event '%v' (no defined transition)", state, event)
}

// Cells of the table.
var (
	no     = Outcome{Verdict: Refuse}
	later  = Outcome{Verdict: Defer}
	ignore = Outcome{Verdict: Ignore}
	locked = Outcome{Verdict: Locked}
)

func to(next NodeState) Outcome { return Outcome{Verdict: Move, Next: next} }

// transitions is the union of the HA specification's table and upstream's. A
// pair that is not here is refused in both columns. Two kinds of rows are
// Trivet's own: waiting+error, which upstream lacks so that a failed look-up
// leaves a node waiting for an hour, and give_up, which keeps a request that
// kills its workers from doing so for ever (promise 4).
var transitions = [...]struct {
	state NodeState
	event Event
	api   Outcome // new requests
	queue Outcome // requests met in the queue, and outcomes of work
}{
	{NodeAbsent, EventStart, to(NodeStarting), no},
	{NodeAbsent, EventEnroll, to(NodeEnrolling), no},
	{NodeAbsent, EventAdopt, to(NodeWaiting), no},

	{NodeStarting, EventStart, no, to(NodeStarting)}, // resumed
	{NodeStarting, EventWait, no, to(NodeWaiting)},
	{NodeStarting, EventProcess, later, no}, // waits for the lock, then succeeds
	{NodeStarting, EventError, no, to(NodeError)},
	{NodeStarting, EventTimeout, later, to(NodeError)},
	{NodeStarting, EventAbort, locked, no},
	{NodeStarting, EventReapply, locked, no},
	{NodeStarting, EventGiveUp, no, to(NodeError)},
	{NodeStarting, EventDelete, later, to(NodeAbsent)},

	// A start met again in waiting was carried out: to do it again would reset
	// a node that boots. The specification knows no such transition either.
	{NodeWaiting, EventStart, to(NodeStarting), no},
	{NodeWaiting, EventWait, no, to(NodeWaiting)},
	{NodeWaiting, EventProcess, later, to(NodeProcessing)},
	{NodeWaiting, EventError, no, to(NodeError)},
	{NodeWaiting, EventTimeout, later, to(NodeError)},
	{NodeWaiting, EventAbort, to(NodeAborting), to(NodeError)},
	{NodeWaiting, EventReapply, ignore, no}, // upstream drops it silently after its 202
	{NodeWaiting, EventGiveUp, no, to(NodeError)},
	{NodeWaiting, EventDelete, later, to(NodeAbsent)},

	{NodeProcessing, EventProcess, later, to(NodeError)}, // queue: déjà vu
	{NodeProcessing, EventFinish, no, to(NodeFinished)},
	{NodeProcessing, EventError, no, to(NodeError)},
	{NodeProcessing, EventTimeout, later, to(NodeError)},
	{NodeProcessing, EventAbort, locked, no},
	{NodeProcessing, EventReapply, locked, no},
	{NodeProcessing, EventGiveUp, no, to(NodeError)},
	{NodeProcessing, EventDelete, later, to(NodeAbsent)},

	// A reapply met again here is done: its acceptance had moved the node.
	{NodeFinished, EventStart, to(NodeStarting), to(NodeStarting)},
	{NodeFinished, EventFinish, no, to(NodeFinished)},
	{NodeFinished, EventAbort, ignore, to(NodeError)},
	{NodeFinished, EventReapply, to(NodeReapplying), no},
	{NodeFinished, EventDelete, later, to(NodeAbsent)},

	{NodeError, EventStart, to(NodeStarting), to(NodeStarting)},
	{NodeError, EventError, no, to(NodeError)},
	{NodeError, EventAbort, ignore, to(NodeError)},
	{NodeError, EventReapply, to(NodeReapplying), no},
	{NodeError, EventDelete, later, to(NodeAbsent)},

	{NodeReapplying, EventReapply, to(NodeReapplying), to(NodeReapplying)},
	{NodeReapplying, EventFinish, no, to(NodeFinished)},
	{NodeReapplying, EventError, no, to(NodeError)},
	{NodeReapplying, EventTimeout, later, to(NodeError)},
	{NodeReapplying, EventAbort, locked, no},
	{NodeReapplying, EventGiveUp, no, to(NodeError)},
	{NodeReapplying, EventDelete, later, to(NodeAbsent)},

	{NodeEnrolling, EventProcess, later, to(NodeProcessing)},
	{NodeEnrolling, EventError, no, to(NodeError)},
	{NodeEnrolling, EventTimeout, later, to(NodeError)},
	{NodeEnrolling, EventAbort, locked, no},
	{NodeEnrolling, EventReapply, locked, no},
	{NodeEnrolling, EventGiveUp, no, to(NodeError)},
	{NodeEnrolling, EventDelete, later, to(NodeAbsent)},

	{NodeAborting, EventAbort, locked, to(NodeAborting)}, // resumed
	{NodeAborting, EventAbortEnd, no, to(NodeError)},
	{NodeAborting, EventTimeout, later, to(NodeError)},
	{NodeAborting, EventReapply, locked, no},
	{NodeAborting, EventGiveUp, no, to(NodeError)},
	{NodeAborting, EventDelete, later, to(NodeAbsent)},
}
