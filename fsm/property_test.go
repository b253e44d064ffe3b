package fsm

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/leases"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/settings"
)

// machine drives a state, its naive model, and a twin that goes through
// snapshots, and compares them after every entry.
type machine struct {
	state, twin *State
	model       *model
	now         Time
	last        RequestID
	history     []proposal
	docs        []blobs.Packed
	past        []View // of the state, before every entry
}

type proposal struct {
	header  Header
	command Command
}

func newMachine(t *rapid.T) *machine {
	m := &machine{model: newModel()}
	for _, s := range []**State{&m.state, &m.twin} {
		founded := founding()
		founded.Join = membership.AddJoinToken{}
		state, err := Founded(founded, time.UnixMilli(1000))
		if err != nil {
			t.Fatal(err)
		}
		*s = state
	}
	for i := range 3 {
		doc, err := blobs.Pack([]byte{byte(i)})
		if err != nil {
			t.Fatal(err)
		}
		m.docs = append(m.docs, doc)
	}
	// the same document as another peer packed it
	other := m.docs[0]
	other.Data = append(slices.Clone(other.Data), 0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0) // an empty skippable frame
	m.docs = append(m.docs, other)
	if rapid.Bool().Draw(t, "founded again") {
		m.beginsWithFormers(t)
	}
	return m
}

// commit applies one entry to all three.
func (m *machine) commit(t *rapid.T, h Header, c Command) {
	h.Time, h.WallMillis = m.now, 1000+m.now.Millis()
	data, err := Encode(h, c)
	if err != nil {
		t.Fatalf("encode %+v: %v", c, err)
	}
	m.history = append(m.history, proposal{h, c})
	before := m.state.View()
	m.past = append(m.past, before)
	if KindOf(c) == KindOf(Lead{}) && rapid.Bool().Draw(t, "elected") { // else the same leader begins again
		m.model.gated.term++
	}
	e := Entry{Index: before.Index() + 1, Term: m.model.gated.term, Data: data}
	res, twin := m.state.Apply(e), m.twin.Apply(e)
	code, repeated, token := m.model.apply(h, c)
	what := fmt.Sprintf("entry %d, %v %+v under %+v", e.Index, KindOf(c), c, h)
	if res.Code != code || res.Repeated != repeated {
		t.Fatalf("%s: %v (%s), repeated %v; want %v, repeated %v", what, res.Code, res.Message, res.Repeated, code, repeated)
	}
	if repeated && res.Token != token {
		t.Fatalf("%s: the repeat has token %v, the first %v", what, res.Token, token)
	}
	if res.Code != twin.Code || !bytes.Equal(res.Value, twin.Value) || res.Token != twin.Token ||
		res.Message != twin.Message {
		t.Fatalf("%s: %+v, its twin %+v", what, res, twin)
	}
	v := m.state.View()
	if err := v.Check(); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if v.Hash() != m.twin.View().Hash() {
		t.Fatalf("%s: the twin has another hash", what)
	}
	if v.Now() < before.Now() {
		t.Fatalf("%s: cluster time went back from %v to %v", what, before.Now(), v.Now())
	}
	if got, want := viewText(v), m.model.text(); got != want {
		t.Fatalf("%s:\nstate\n%s\nmodel\n%s", what, got, want)
	}
	m.checkFeeds(t, what)
}

// Draws prefer what exists, so that most commands find something to do.

func (m *machine) session(t *rapid.T) fencing.Token {
	ids := slices.Sorted(maps.Keys(m.model.sessions))
	return rapid.SampledFrom(append(ids, ids...)).Draw(t, "session") // never called without one
}

func (m *machine) anyToken(t *rapid.T, live []fencing.Token) fencing.Token {
	stale := fencing.Token(rapid.Uint64Range(1, m.model.index+2).Draw(t, "token"))
	return rapid.SampledFrom(append(append(live, live...), stale)).Draw(t, "which")
}

// claim draws a claim that is held, or one that is not.
func (m *machine) claim(t *rapid.T) introspection.Hold {
	var live []introspection.Hold
	for _, r := range m.model.queue {
		if r.claim != 0 {
			live = append(live, r.hold())
		}
	}
	stale := introspection.Hold{Request: m.sequence(t), Token: m.anyToken(t, []fencing.Token{m.model.token()})}
	return rapid.SampledFrom(append(append(live, live...), stale)).Draw(t, "hold")
}

// sequence draws a request that is queued, or one that is not.
func (m *machine) sequence(t *rapid.T) fencing.Token {
	var queued []fencing.Token
	for _, r := range m.model.queue {
		queued = append(queued, r.seq)
	}
	return m.anyToken(t, queued)
}

// claims names requests, sometimes one twice.
func (m *machine) claims(t *rapid.T) Command {
	var c introspection.ClaimRequests
	for range rapid.IntRange(1, 4).Draw(t, "claims") {
		c.Requests = append(c.Requests, m.sequence(t))
	}
	return c
}

func (m *machine) document(t *rapid.T) blobs.Packed {
	return rapid.SampledFrom(append(m.docs, blobs.Packed{})).Draw(t, "document")
}

func answerOf(t *rapid.T) introspection.Answer {
	return rapid.SampledFrom([]introspection.Answer{{}, {}, {Status: 200}, {Status: 500, Message: "x"}}).Draw(t, "answer")
}

func node(t *rapid.T) string { return rapid.SampledFrom([]string{nodeA, nodeB}).Draw(t, "node") }

func peer(t *rapid.T) string { return rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "peer") }

// command draws any command of the introspection, the leases or the settings.
func (m *machine) command(t *rapid.T) Command {
	event := func(events ...introspection.Event) introspection.Event {
		return rapid.SampledFrom(events).Draw(t, "event")
	}
	name := rapid.SampledFrom([]string{"l1", "l2"}).Draw(t, "name")
	holder := rapid.SampledFrom([]string{"h1", "h2"}).Draw(t, "holder")
	yes := rapid.Bool().Draw(t, "flag")
	switch rapid.IntRange(0, 19).Draw(t, "verb") {
	case 19:
		if yes {
			return m.accepts(t)
		}
		return ofRules(t)
	case 18:
		return m.ofGate(t)
	case 2:
		return introspection.TakeCallback{Node: node(t), Document: rapid.SampledFrom(m.docs).Draw(t, "document"), Keep: yes,
			Hook: "next"}
	case 0, 1:
		return introspection.Start{Node: node(t),
			Event: event(introspection.EventStart, introspection.EventStart, introspection.EventEnroll,
				introspection.EventAdopt), Timeout: modelTimeout, Attributes: attributes(t)}
	case 3:
		return m.enqueue(t, event(introspection.EventProcess, introspection.EventProcess, introspection.EventAbort,
			introspection.EventReapply, introspection.EventTimeout, introspection.EventDelete))
	case 4, 5:
		return m.claims(t)
	case 6, 7, 8:
		return m.advance(t)
	case 9:
		return introspection.Consume{Claim: m.claim(t)}
	case 10:
		if yes {
			return introspection.Decline{Claim: m.claim(t), Hook: "h"}
		}
		return introspection.Release{Claim: m.claim(t)}
	case 11:
		if yes {
			return introspection.DeleteNode{Node: node(t)}
		}
		if rapid.IntRange(0, 2).Draw(t, "import") > 0 {
			return m.imports(t)
		}
		return introspection.DeleteNode{Node: node(t), Claim: m.claim(t)}
	case 12:
		return introspection.Mark{Claim: m.claim(t), Hook: "h", Answer: answerOf(t), Processed: m.document(t),
			Unprocessed: m.document(t).Hash}
	case 13:
		return leases.Grant{Name: name, Holder: holder, TTL: 5 * time.Second, Takeover: yes}
	case 14:
		return m.ofLease(t, name, holder)
	case 15:
		return m.ofPeer(t)
	case 16:
		return introspection.TakeTurn{Claim: m.claim(t),
			Gap: rapid.SampledFrom([]time.Duration{1, 5 * time.Second}).Draw(t, "gap")}
	}
	if yes {
		return settings.PutSetting{Key: name, Value: holder}
	}
	return settings.DeleteSetting{Key: name}
}

// imports draws a record of elsewhere; few, so that some are met again.
func (m *machine) imports(t *rapid.T) Command {
	c := introspection.ImportRecord{Node: node(t), State: introspection.NodeFinished, StartedMicros: 1_600_000_000_123_456,
		Unprocessed: m.document(t), Processed: m.document(t)}
	c.FinishedMicros = rapid.SampledFrom([]int64{1_600_000_001_000_000, 1_600_000_001_000_001}).Draw(t, "finished")
	if rapid.Bool().Draw(t, "failed") {
		c.State, c.Error = introspection.NodeError, "failed"
	}
	return c
}

func (m *machine) enqueue(t *rapid.T, event introspection.Event) Command {
	c := introspection.Enqueue{Node: node(t), Event: event}
	switch event {
	case introspection.EventProcess:
		c.Document = rapid.SampledFrom(m.docs).Draw(t, "document")
	case introspection.EventReapply:
		c.Timeout, c.Document = modelTimeout, m.document(t)
	}
	return c
}

// advance draws what a worker would do: mostly its own request's event.
func (m *machine) advance(t *rapid.T) Command {
	c := introspection.Advance{Claim: m.claim(t), Error: "failed", Answer: answerOf(t),
		Consume: rapid.Bool().Draw(t, "consume")}
	c.Event = rapid.SampledFrom(
		[]introspection.Event{introspection.EventStart, introspection.EventWait, introspection.EventProcess,
			introspection.EventFinish, introspection.EventError, introspection.EventAbort, introspection.EventAbortEnd,
			introspection.EventTimeout, introspection.EventReapply}).Draw(t, "event")
	for _, r := range m.model.queue {
		if r.hold() == c.Claim && rapid.Bool().Draw(t, "own") && r.event != introspection.EventDelete {
			c.Event = r.event
		}
	}
	if rapid.Bool().Draw(t, "save") {
		c.Unprocessed, c.Processed = m.document(t).Hash, m.document(t)
	}
	if rapid.IntRange(0, 3).Draw(t, "identify") == 0 {
		a := attributes(t)
		c.Attributes = &a
	}
	return c
}

// ofPeer draws what may end the session of the one that asks for it.
func (m *machine) ofPeer(t *rapid.T) Command {
	switch rapid.IntRange(0, 2).Draw(t, "act") {
	case 0:
		return membership.EndSession{Session: m.anyToken(t, slices.Sorted(maps.Keys(m.model.sessions)))}
	case 1:
		return membership.RemoveMember{ID: peer(t)}
	}
	return membership.OpenSession{Peer: peer(t), Boot: "b", Version: Version, Unfinished: m.unfinished(t)}
}

// unfinished draws what a killed process may have left.
func (m *machine) unfinished(t *rapid.T) (left []introspection.Unfinished) {
	for range rapid.IntRange(0, 2).Draw(t, "unfinished") {
		if request := m.sequence(t); !request.IsZero() {
			left = append(left, introspection.Unfinished{Request: request, Hook: "h"})
		}
	}
	return left
}

func (m *machine) ofLease(t *rapid.T, name, holder string) Command {
	var live []fencing.Token
	for _, n := range slices.Sorted(maps.Keys(m.model.leases)) {
		live = append(live, m.model.leases[n].Token)
	}
	token := m.anyToken(t, live)
	switch rapid.IntRange(0, 2).Draw(t, "act") {
	case 0:
		return leases.Renew{Name: name, Holder: holder, Token: token}
	case 1:
		return leases.Release{Name: name, Holder: holder, Token: token}
	}
	return leases.Delete{Name: name}
}

// request draws the header of a request: a new ID, sometimes with an answered
// mark and a client's ID.
func (m *machine) request(t *rapid.T) Header {
	h := Header{Session: m.session(t)}
	if rapid.IntRange(0, 3).Draw(t, "plain") == 0 {
		return h
	}
	m.last = entry.NextRequestID(m.last, m.now, [8]byte{})
	h.Request = m.last
	if rapid.Bool().Draw(t, "answers") {
		h.Answered = h.Request
		if s := m.model.sessions[h.Session]; len(m.model.results) > 0 && rapid.Bool().Draw(t, "partly") {
			h.Answered = rapid.SampledFrom(m.model.requestIDs()).Draw(t, "mark")
			if h.Request.Less(h.Answered) || h.Answered.Less(s.answered) {
				h.Answered = s.answered
			}
		}
	}
	h.Client = rapid.SampledFrom([]string{"", "", "", "c1", "c2"}).Draw(t, "client")
	return h
}

func (m *machine) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"lead": func(t *rapid.T) { m.commit(t, Header{}, Lead{Peer: peer(t), Boot: "b"}) },
		"open": func(t *rapid.T) {
			m.commit(t, Header{}, membership.OpenSession{Peer: peer(t), Boot: "b", Version: Version})
		},
		"renew": func(t *rapid.T) { m.renew(t) },
		"end":   func(t *rapid.T) { m.commit(t, Header{}, membership.EndSession{Session: m.anyToken(t, nil)}) },
		"admit": func(t *rapid.T) { m.commit(t, Header{}, membership.PutMember{Member: member(peer(t))}) },
		"remove": func(t *rapid.T) {
			m.commit(t, Header{}, membership.RemoveMember{ID: peer(t), Force: rapid.IntRange(0, 3).Draw(t, "force") == 0})
		},
		"duty": func(t *rapid.T) {
			m.commit(t, Header{Token: m.anyToken(t, []fencing.Token{max(m.model.lead, 1)})}, m.command(t))
		},
		"gate":    func(t *rapid.T) { m.gate(t) },
		"act":     func(t *rapid.T) { m.act(t) },
		"act too": func(t *rapid.T) { m.act(t) },
		"act 3":   func(t *rapid.T) { m.act(t) },
		"work":    func(t *rapid.T) { m.work(t) },
		"work 2":  func(t *rapid.T) { m.work(t) },
		"call":    func(t *rapid.T) { m.call(t) },
		"again":   func(t *rapid.T) { m.again(t) },
		"former": func(t *rapid.T) {
			h, c := m.ofFormer(t)
			m.commit(t, h, c)
		},
		"keys":  func(t *rapid.T) { m.ofKeys(t) },
		"zones": func(t *rapid.T) { m.ofZones(t) },
		"stand": func(t *rapid.T) { m.commit(t, Header{}, ofMemberFlags(t)) },
		"pass": func(t *rapid.T) {
			m.now = m.now.Add(rapid.SampledFrom(
				[]time.Duration{1, time.Millisecond, time.Second, 4 * time.Second, 11 * time.Second}).Draw(t, "pass"))
		},
		"failover": func(t *rapid.T) { m.failover(t) },
		"fail on":  func(t *rapid.T) { m.failover(t) },
		"remedy":   func(t *rapid.T) { m.remedy(t) },
		"month":    func(t *rapid.T) { m.month(t) },
		"long":     func(t *rapid.T) { m.long(t) },
		"restore":  func(t *rapid.T) { m.restore(t) },
	}
}

func (m *machine) renew(t *rapid.T) {
	for _, id := range slices.Sorted(maps.Keys(m.model.sessions)) {
		m.commit(t, Header{}, membership.RenewSession{Session: id,
			Refuses: rapid.SampledFrom([]string{"", "", "its disk hangs"}).Draw(t, "refuses")})
	}
}

func (m *machine) act(t *rapid.T) {
	if len(m.model.sessions) == 0 {
		m.commit(t, Header{}, membership.OpenSession{Peer: "a", Boot: "b", Version: Version})
	}
	if len(m.model.sessions) > 0 {
		m.commit(t, m.request(t), m.command(t))
	}
}

// work is a worker that does the right thing, a few steps far: without it the
// far ends of the table are hardly ever reached.
func (m *machine) work(t *rapid.T) {
	m.act(t)
	for range rapid.IntRange(1, 5).Draw(t, "steps") {
		i := slices.IndexFunc(m.model.queue, func(r *modelRequest) bool { return r.claim != 0 })
		if i < 0 {
			if len(m.model.sessions) == 0 {
				return
			}
			c := introspection.ClaimRequests{Requests: []fencing.Token{1}} // never a request
			for _, r := range m.model.ready() {
				c.Requests = append(c.Requests, r.seq)
			}
			m.commit(t, Header{Session: m.session(t)}, c)
			continue
		}
		r := m.model.queue[i]
		m.commit(t, Header{}, m.step(t, r))
	}
}

// step is what comes next for a claimed request.
func (m *machine) step(t *rapid.T, r *modelRequest) Command {
	rec := m.model.nodes[r.node]
	save := rapid.SampledFrom([]blobs.Hash{{}, r.document}).Draw(t, "save")
	hold := r.hold()
	switch {
	case r.event == introspection.EventDelete:
		return introspection.DeleteNode{Node: r.node, Claim: hold}
	case rec.State == introspection.NodeStarting && r.event == introspection.EventStart:
		return introspection.Advance{Claim: hold, Event: introspection.EventWait, Consume: true}
	case rec.State == introspection.NodeProcessing && r.attempts == 1:
		if rec.Delivered.Answer.IsZero() && rapid.Bool().Draw(t, "answer first") {
			return introspection.Mark{Claim: hold, Hook: "power off", Answer: introspection.Answer{Status: 200},
				Processed: m.document(t)}
		}
		return introspection.Advance{Claim: hold, Event: introspection.EventFinish, Processed: m.document(t), Consume: true}
	case rec.State == introspection.NodeReapplying:
		return introspection.Advance{Claim: hold, Event: introspection.EventFinish, Processed: m.document(t)}
	case rec.State == introspection.NodeAborting:
		return introspection.Advance{Claim: hold, Event: introspection.EventAbortEnd, Consume: true}
	case r.event == lastEvent(rec):
		return introspection.Consume{Claim: hold}
	}
	return introspection.Advance{Claim: hold, Event: r.event, Unprocessed: save, Hook: "next"}
}

// lastEvent is the request that is done with when a record is in its state.
func lastEvent(r *introspection.Record) introspection.Event {
	switch r.State {
	case introspection.NodeWaiting:
		return introspection.EventStart
	case introspection.NodeFinished:
		return introspection.EventProcess
	}
	return 0
}

// call is a ramdisk that calls back.
func (m *machine) call(t *rapid.T) {
	doc := rapid.SampledFrom(m.docs).Draw(t, "document")
	if len(m.model.sessions) > 0 && rapid.Bool().Draw(t, "taken") {
		m.commit(t, Header{Session: m.session(t)},
			introspection.TakeCallback{Node: node(t), Document: doc, Keep: rapid.Bool().Draw(t, "keep"), Hook: "next"})
		return
	}
	m.commit(t, Header{}, introspection.Enqueue{Node: node(t), Event: introspection.EventProcess, Document: doc})
}

// again commits an earlier proposal once more: a repeat after a lost answer.
func (m *machine) again(t *rapid.T) {
	if len(m.history) == 0 {
		return
	}
	recent := m.history[max(0, len(m.history)-20):]
	p := rapid.SampledFrom(recent).Draw(t, "proposal")
	m.commit(t, p.header, p.command)
}

// long lets minutes pass, sometimes with the sessions kept alive.
func (m *machine) long(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "rarely") > 0 {
		return
	}
	for range 10 {
		m.now = m.now.Add(time.Minute)
		m.commit(t, Header{}, Probe{})
	}
}

// restore takes the twin through a snapshot.
func (m *machine) restore(t *rapid.T) {
	var buf bytes.Buffer
	if _, err := m.twin.View().WriteTo(&buf); err != nil {
		t.Fatal(err)
	}
	back, err := Read(&buf)
	if err != nil {
		t.Fatal(err)
	}
	m.twin = back
}

func TestStateBehavesAsItsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		t.Repeat(m.actions())
	})
}
