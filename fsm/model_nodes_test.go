package fsm

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
)

func (m *model) introspect(c Command) Code {
	switch c := c.(type) {
	case introspection.Start:
		state := introspection.NodeAbsent
		if n := m.nodes[c.Node]; n != nil {
			state = n.State
		}
		out := introspection.Transition(state, c.Event, introspection.FromAPI)
		if out.Verdict != introspection.Move {
			return IllegalTransition
		}
		var earlier blobs.Hash
		if n := m.nodes[c.Node]; n != nil && m.version() > 2 {
			if earlier = n.Unprocessed; earlier == (blobs.Hash{}) {
				earlier = n.Earlier
			}
		}
		m.nodes[c.Node] = &introspection.Record{Earlier: earlier, Node: c.Node, State: out.Next,
			Times: introspection.Times{Started: m.now, Deadline: m.now.Add(c.Timeout), StartedMillis: m.wall}, Begun: m.token(),
			Attributes: c.Attributes}
		if c.Event == introspection.EventStart {
			m.queue = append(m.queue, &modelRequest{seq: m.token(), node: c.Node, event: introspection.EventStart})
		}
	case introspection.Enqueue:
		return m.enqueue(c)
	case introspection.TakeCallback:
		return m.take(c)
	case introspection.ClaimRequests:
		return m.claim(c)
	case introspection.Advance:
		return m.advance(c)
	case introspection.Mark:
		return m.mark(c)
	case introspection.TakeTurn:
		r := m.claimed(c.Claim)
		if r == nil {
			return ClaimLost
		}
		at := max(m.turn, m.now)
		if at >= m.nodes[r.node].Deadline {
			return Refused
		}
		m.turn = at.Add(c.Gap)
	case introspection.Consume:
		r := m.claimed(c.Claim)
		if r == nil {
			return ClaimLost
		}
		m.remove(r)
	case introspection.Decline:
		r := m.claimed(c.Claim)
		if r == nil {
			return ClaimLost
		}
		m.lose(r)
	case introspection.Release:
		r := m.claimed(c.Claim)
		if r == nil {
			return ClaimLost
		}
		r.claim, r.session = 0, 0
		r.attempts--
	case introspection.DeleteNode:
		return m.deleteNode(c)
	case introspection.ImportRecord:
		return m.imports(c)
	}
	return OK
}

// imports makes a record, or gives it documents that it lacks.
func (m *model) imports(c introspection.ImportRecord) Code {
	made := introspection.Record{
		Node: c.Node, State: c.State, ManageBoot: c.ManageBoot, Error: c.Error, Begun: m.token(),
		Times: introspection.Times{
			Started: m.now, Finished: m.now,
			StartedMillis: c.StartedMicros / 1000, StartedBeyond: uint16(c.StartedMicros % 1000),
			FinishedMillis: c.FinishedMicros / 1000, FinishedBeyond: uint16(c.FinishedMicros % 1000),
		},
	}
	n := m.nodes[c.Node]
	if n != nil {
		other := *n
		other.Started, other.Finished, other.Begun, other.Unprocessed, other.Processed = made.Started, made.Finished,
			made.Begun, blobs.Hash{}, blobs.Hash{}
		other.Delivered, other.Deadline, other.Earlier = introspection.Delivery{}, 0, blobs.Hash{}
		lacks := func(has, brought blobs.Hash) bool {
			return has == (blobs.Hash{}) || brought == (blobs.Hash{}) || has == brought
		}
		if !reflect.DeepEqual(other, made) || !lacks(n.Unprocessed, c.Unprocessed.Hash) ||
			!lacks(n.Processed, c.Processed.Hash) {
			return Conflict
		}
	} else {
		n = &made
		m.nodes[c.Node] = n
	}
	m.save(n, c.Unprocessed.Hash, c.Processed)
	return OK
}

// take is what three commands did before log version 2.
func (m *model) take(c introspection.TakeCallback) Code {
	if m.sessions[m.header.Session] == nil {
		return SessionEnded
	}
	alone := !slices.ContainsFunc(m.queue, func(r *modelRequest) bool { return r.node == c.Node })
	if code := m.enqueue(introspection.Enqueue{Node: c.Node, Event: introspection.EventProcess,
		Document: c.Document}); code != OK {
		return code
	}
	n := m.nodes[c.Node]
	last := len(m.queue) - 1
	if !alone || last < 0 || m.queue[last].seq != m.token() ||
		n.State != introspection.NodeWaiting && n.State != introspection.NodeEnrolling || n.Deadline <= m.now {
		return OK
	}
	m.claim(introspection.ClaimRequests{Requests: []fencing.Token{m.token()}})
	begin := introspection.Advance{Claim: m.queue[last].hold(), Event: introspection.EventProcess}
	if c.Keep {
		begin.Unprocessed = c.Document.Hash
	}
	return m.advance(begin)
}

func (m *model) claim(c introspection.ClaimRequests) Code {
	if m.sessions[m.header.Session] == nil {
		return SessionEnded
	}
	code := NotFound
	for _, seq := range c.Requests {
		for _, r := range m.ready() {
			if r.seq == seq {
				r.claim, r.session = m.token(), m.header.Session
				r.attempts++
				code = OK
			}
		}
	}
	return code
}

func (m *model) mark(c introspection.Mark) Code {
	r := m.claimed(c.Claim)
	if r == nil {
		return ClaimLost
	}
	if c.Answer == (introspection.Answer{}) && c.Processed.Hash == (blobs.Hash{}) && c.Unprocessed == (blobs.Hash{}) {
		return OK
	}
	n := m.nodes[r.node]
	switch {
	case n.State == introspection.NodeFinished || n.State == introspection.NodeError || r.seq < n.Begun:
		return IllegalTransition
	case c.Answer != (introspection.Answer{}) && n.Delivered.Request != r.seq:
		return Refused
	case c.Unprocessed != (blobs.Hash{}) && !m.documents()[c.Unprocessed]:
		return NotFound
	}
	m.save(n, c.Unprocessed, c.Processed)
	if n.Delivered.Answer.Status == 0 {
		n.Delivered.Answer = c.Answer
	}
	return OK
}

func (m *model) save(n *introspection.Record, unprocessed blobs.Hash, processed blobs.Packed) {
	if unprocessed != (blobs.Hash{}) {
		n.Unprocessed = unprocessed
	}
	if processed.Hash != (blobs.Hash{}) {
		n.Processed = processed.Hash
	}
}

func (m *model) enqueue(c introspection.Enqueue) Code {
	n := m.nodes[c.Node]
	if n == nil {
		return NotFound
	}
	if c.Event != introspection.EventAbort && c.Event != introspection.EventReapply {
		if c.Event == introspection.EventProcess && n.Delivered.Document == c.Document.Hash {
			return OK
		}
		// Only the first of those that ask for the same counts.
		for _, r := range m.queue {
			if r.node == c.Node && r.event == c.Event && r.document == c.Document.Hash {
				if r.seq >= n.Begun {
					return OK
				}
				break
			}
		}
	}
	out := introspection.Transition(n.State, c.Event, introspection.FromAPI)
	switch {
	case out.Verdict == introspection.Locked,
		m.locked(c.Node) && (c.Event == introspection.EventAbort || c.Event == introspection.EventReapply),
		m.version() > 2 && c.Event == introspection.EventReapply && m.asked(c) > 0:
		return Conflict
	case out.Verdict == introspection.Refuse:
		return IllegalTransition
	case out.Verdict == introspection.Ignore:
		return OK
	case c.Event == introspection.EventTimeout && n.Deadline > m.now:
		return Refused
	case m.version() > 2 && c.Event == introspection.EventProcess && m.asked(c) >= introspection.MaxOfNode:
		return QueueFull
	}
	if out.Verdict == introspection.Move {
		n.State = out.Next
	}
	if n.State == introspection.NodeReapplying && c.Event == introspection.EventReapply {
		n.Started, n.Deadline, n.StartedMillis, n.StartedBeyond = m.now, m.now.Add(c.Timeout), m.wall, 0
	}
	m.queue = append(m.queue, &modelRequest{seq: m.token(), node: c.Node, event: c.Event, document: c.Document.Hash})
	return OK
}

// asked counts the requests of a node for the same event.
func (m *model) asked(c introspection.Enqueue) (n int) {
	for _, r := range m.queue {
		if r.node == c.Node && r.event == c.Event {
			n++
		}
	}
	return n
}

func (m *model) advance(c introspection.Advance) Code {
	r := m.claimed(c.Claim)
	if r == nil {
		return ClaimLost
	}
	n := m.nodes[r.node]
	out := introspection.Transition(n.State, c.Event, introspection.FromQueue)
	asked := slices.Contains(
		[]introspection.Event{introspection.EventStart, introspection.EventProcess, introspection.EventAbort,
			introspection.EventReapply, introspection.EventTimeout}, c.Event)
	switch {
	case out.Verdict != introspection.Move || r.seq < n.Begun ||
		c.Event == introspection.EventTimeout && n.Deadline > m.now:
		return IllegalTransition
	case asked && r.event != c.Event:
		return Refused
	case c.Answer != (introspection.Answer{}) && r.event != introspection.EventProcess:
		return Refused
	case c.Unprocessed != (blobs.Hash{}) && !m.documents()[c.Unprocessed]:
		return NotFound
	}
	m.save(n, c.Unprocessed, c.Processed)
	m.settle(n, r, c, out.Next)
	if c.Consume {
		m.remove(r)
	}
	return OK
}

// settle gives a record its next state.
func (m *model) settle(n *introspection.Record, r *modelRequest, c introspection.Advance,
	next introspection.NodeState) {
	from := n.State
	n.State = next
	if c.Attributes != nil && next != introspection.NodeError && next != introspection.NodeFinished {
		n.Attributes = *c.Attributes
	}
	if c.Answer != (introspection.Answer{}) ||
		c.Event == introspection.EventProcess && next == introspection.NodeProcessing {
		if n.Delivered.Request != r.seq {
			n.Delivered = introspection.Delivery{Document: r.document, Request: r.seq}
		}
		if n.Delivered.Answer.Status == 0 {
			n.Delivered.Answer = c.Answer
		}
	}
	if next == introspection.NodeStarting && (from == introspection.NodeError || from == introspection.NodeFinished) {
		timeout := n.Deadline.Sub(n.Started)
		n.Started, n.Deadline, n.StartedMillis, n.StartedBeyond = m.now, m.now.Add(timeout), m.wall, 0
		n.Finished, n.FinishedMillis, n.FinishedBeyond, n.Error = 0, 0, 0, ""
	}
	switch {
	case next == introspection.NodeError && from == introspection.NodeError && c.Event != introspection.EventError:
	case next == introspection.NodeError:
		m.end(n, next, introspection.Answer{Status: 400, Message: "failed"})
	case next == introspection.NodeFinished:
		m.end(n, next, introspection.Answer{Status: 200})
	}
}

// end finishes a record; a callback that was not answered yet is answered.
func (m *model) end(n *introspection.Record, state introspection.NodeState, a introspection.Answer) {
	n.State, n.Error, n.Finished, n.FinishedMillis, n.FinishedBeyond, n.Attributes = state, a.Message, m.now,
		max(m.wall, 1), 0, introspection.Attributes{}
	if n.Delivered.Document != (blobs.Hash{}) && n.Delivered.Answer.Status == 0 {
		n.Delivered.Answer = a
	}
}

// ended lists the records that are not active, the longest ended first.
func (m *model) ended() []*introspection.Record {
	var out []*introspection.Record
	for _, n := range m.nodes {
		if n.State == introspection.NodeFinished || n.State == introspection.NodeError {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, func(a, b *introspection.Record) int {
		return cmp.Or(cmp.Compare(a.Finished, b.Finished), strings.Compare(a.Node, b.Node))
	})
	return out
}

func (m *model) deliveredTo(document blobs.Hash) []string {
	var out []string
	for _, n := range m.nodes {
		if n.Delivered.Document == document {
			out = append(out, n.Node)
		}
	}
	slices.Sort(out)
	return out
}

func (m *model) deleteNode(c introspection.DeleteNode) Code {
	r := m.claimed(c.Claim)
	n := m.nodes[c.Node]
	switch {
	case c.Claim != (introspection.Hold{}) && (r == nil || r.node != c.Node):
		return ClaimLost
	case n == nil:
		return NotFound
	case r != nil && r.seq < n.Begun:
		return IllegalTransition
	case r == nil && (n.State.Active() || m.locked(c.Node)):
		return Conflict
	}
	delete(m.nodes, c.Node)
	m.queue = slices.DeleteFunc(m.queue, func(r *modelRequest) bool { return r.node == c.Node })
	return OK
}
