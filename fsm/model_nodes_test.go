package fsm

import "slices"

func (m *model) introspect(c Command) Code {
	switch c := c.(type) {
	case StartIntrospection:
		state := NodeAbsent
		if n := m.nodes[c.Node]; n != nil {
			state = n.State
		}
		out := Transition(state, c.Event, FromAPI)
		if out.Verdict != Move {
			return IllegalTransition
		}
		m.nodes[c.Node] = &Record{Node: c.Node, State: out.Next, Started: m.now, Deadline: m.now.Add(c.Timeout), Begun: m.token(), Attributes: c.Attributes, StartedMillis: m.wall}
		if c.Event == EventStart {
			m.queue = append(m.queue, &modelRequest{seq: m.token(), node: c.Node, event: EventStart})
		}
	case Enqueue:
		return m.enqueue(c)
	case ClaimNext:
		r := m.next()
		if m.sessions[m.header.Session] == nil {
			return SessionEnded
		}
		if r == nil {
			return NotFound
		}
		r.claim, r.session = m.token(), m.header.Session
		r.attempts++
	case Advance:
		return m.advance(c)
	case Mark:
		if m.claimed(c.Claim) == nil {
			return ClaimLost
		}
	case Consume:
		r := m.claimed(c.Claim)
		if r == nil {
			return ClaimLost
		}
		m.remove(r)
	case Release:
		r := m.claimed(c.Claim)
		if r == nil {
			return ClaimLost
		}
		r.claim, r.session = 0, 0
		r.attempts--
	case DeleteNode:
		return m.deleteNode(c)
	}
	return OK
}

func (m *model) enqueue(c Enqueue) Code {
	n := m.nodes[c.Node]
	if n == nil {
		return NotFound
	}
	if c.Event != EventAbort && c.Event != EventReapply {
		if c.Event == EventProcess && n.Delivered.Document == c.Document {
			return OK
		}
		// Only the first of those that ask for the same counts.
		for _, r := range m.queue {
			if r.node == c.Node && r.event == c.Event && r.document == c.Document {
				if r.seq >= n.Begun {
					return OK
				}
				break
			}
		}
	}
	out := Transition(n.State, c.Event, FromAPI)
	switch {
	case out.Verdict == Locked, m.locked(c.Node) && (c.Event == EventAbort || c.Event == EventReapply):
		return Conflict
	case out.Verdict == Refuse:
		return IllegalTransition
	case out.Verdict == Ignore:
		return OK
	case c.Event == EventTimeout && n.Deadline > m.now:
		return Refused
	case c.Document != (Hash{}) && m.blobs[c.Document] == nil:
		return NotFound
	}
	if out.Verdict == Move {
		n.State = out.Next
	}
	if n.State == NodeReapplying && c.Event == EventReapply {
		n.Started, n.Deadline, n.StartedMillis = m.now, m.now.Add(c.Timeout), m.wall
	}
	m.queue = append(m.queue, &modelRequest{seq: m.token(), node: c.Node, event: c.Event, document: c.Document})
	return OK
}

func (m *model) advance(c Advance) Code {
	r := m.claimed(c.Claim)
	if r == nil {
		return ClaimLost
	}
	n := m.nodes[r.node]
	out := Transition(n.State, c.Event, FromQueue)
	asked := slices.Contains([]Event{EventStart, EventProcess, EventAbort, EventReapply, EventTimeout}, c.Event)
	switch {
	case out.Verdict != Move || r.seq < n.Begun || c.Event == EventTimeout && n.Deadline > m.now:
		return IllegalTransition
	case asked && r.event != c.Event:
		return Refused
	case c.Unprocessed != (Hash{}) && m.blobs[c.Unprocessed] == nil, c.Processed != (Hash{}) && m.blobs[c.Processed] == nil:
		return NotFound
	}
	if c.Unprocessed != (Hash{}) {
		n.Unprocessed = c.Unprocessed
	}
	if c.Processed != (Hash{}) {
		n.Processed = c.Processed
	}
	m.settle(n, r, c, out.Next)
	if c.Consume {
		m.remove(r)
	}
	return OK
}

// settle gives a record its next state.
func (m *model) settle(n *Record, r *modelRequest, c Advance, next NodeState) {
	from := n.State
	n.State = next
	if c.Event == EventProcess && next == NodeProcessing {
		n.Delivered = Delivery{Document: r.document, Request: r.seq}
	}
	if next == NodeStarting && (from == NodeError || from == NodeFinished) {
		timeout := n.Deadline.Sub(n.Started)
		n.Started, n.Deadline, n.FinishedMillis, n.Error, n.StartedMillis = m.now, m.now.Add(timeout), 0, "", m.wall
	}
	switch {
	case next == NodeError && from == NodeError && c.Event != EventError:
	case next == NodeError:
		n.Error, n.FinishedMillis, n.Attributes = "failed", max(m.wall, 1), Attributes{}
	case next == NodeFinished:
		n.Error, n.FinishedMillis, n.Attributes = "", max(m.wall, 1), Attributes{}
	}
}

func (m *model) deleteNode(c DeleteNode) Code {
	r := m.claimed(c.Claim)
	n := m.nodes[c.Node]
	switch {
	case c.Claim != 0 && (r == nil || r.node != c.Node):
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
