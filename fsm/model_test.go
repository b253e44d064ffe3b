package fsm

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/doors"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/ironicports"
	"github.com/trivet-ha/trivet/fsm/kubestate"
	"github.com/trivet-ha/trivet/fsm/leases"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/operators"
	"github.com/trivet-ha/trivet/fsm/relays"
	"github.com/trivet-ha/trivet/fsm/ruleset"
	"github.com/trivet-ha/trivet/fsm/settings"
	"github.com/trivet-ha/trivet/fsm/zones"
)

// model is the state again, naively: maps and slices, no index, no sharing,
// every rule a scan. What it and State disagree on is a fault of one of them.
type model struct {
	index    uint64
	now      Time
	wall     int64 // of the entry at work
	header   Header
	lead     fencing.Token
	members  map[string]int
	removed  map[string]bool
	flags    modelFlags
	sessions map[fencing.Token]*modelSession
	settings map[string]string
	leases   map[string]*leases.Lease
	results  map[RequestID]*modelResult
	nodes    map[string]*introspection.Record
	queue    []*modelRequest
	turn     Time // the next one
	gated    modelGate
	rules    []ruleset.Create
	relays   []*relays.Relay
	failing  modelFailover
	keys     modelKeys
	zoned    modelZones
}

type modelSession struct {
	peer     string
	expires  Time
	answered RequestID
	refuses  bool
	removed  bool // its peer: it holds claims until its deadline, and nothing else
}

type modelResult struct {
	session fencing.Token // zero: let go
	client  string
	kind    Kind
	code    Code
	token   fencing.Token
}

type modelRequest struct {
	seq      fencing.Token
	node     string
	event    introspection.Event
	document blobs.Hash
	attempts int
	claim    fencing.Token
	session  fencing.Token
}

func (r *modelRequest) hold() introspection.Hold {
	return introspection.Hold{Request: r.seq, Token: r.claim}
}

func newModel() *model {
	return &model{
		index: 1, members: map[string]int{"a": Version}, removed: map[string]bool{},
		sessions: map[fencing.Token]*modelSession{}, settings: map[string]string{},
		leases: map[string]*leases.Lease{}, results: map[RequestID]*modelResult{}, nodes: map[string]*introspection.Record{},
		gated: newModelGate(), failing: newModelFailover(), flags: newModelFlags(), keys: newModelKeys(), zoned: modelZones{},
	}
}

func (m *model) token() fencing.Token { return fencing.Token(m.index) }

// apply takes one entry and says how it has to end.
func (m *model) apply(h Header, c Command) (code Code, repeated bool, token fencing.Token) {
	m.index++
	m.now, m.wall, m.header = max(m.now, h.Time), h.WallMillis, h
	m.expire()
	defer m.sweep()
	if h.Token != 0 && h.Token != m.lead {
		return StaleToken, false, 0
	}
	if h.Session != 0 {
		s := m.memberSession(h.Session)
		if s == nil {
			return SessionEnded, false, 0
		}
		if h.Request != (RequestID{}) {
			if code, repeated, token, over := m.join(s, KindOf(c)); over {
				return code, repeated, token
			}
		}
	}
	code = m.execute(c)
	if h.Request != (RequestID{}) {
		session := h.Session
		if m.sessions[session] == nil {
			session = 0 // it ended itself
		}
		m.results[h.Request] = &modelResult{session: session, client: h.Client, kind: KindOf(c), code: code, token: m.token()}
	}
	return code, false, m.token()
}

func (m *model) join(s *modelSession, kind Kind) (Code, bool, fencing.Token, bool) {
	h := m.header
	if s.answered.Less(h.Answered) {
		s.answered = h.Answered
	}
	for id, r := range m.results {
		if r.session == h.Session && id.Less(s.answered) {
			r.session = 0
		}
	}
	m.sweep()
	r := m.results[h.Request]
	if r == nil {
		if h.Request.Time()+Time(Retention) < m.now || h.Request.Less(s.answered) {
			return OutcomeUnknown, false, 0, true
		}
		if h.Request.Time() > m.now+Time(Retention) {
			return Invalid, false, 0, true
		}
		for _, other := range m.results {
			if h.Client != "" && other.client == h.Client {
				r = other
			}
		}
		if r == nil {
			return OK, false, 0, false
		}
		if r.kind == kind {
			m.results[h.Request] = &modelResult{session: h.Session, kind: kind, code: r.code, token: r.token}
		}
	}
	if r.kind != kind {
		return Conflict, false, 0, true
	}
	return r.code, true, r.token, true
}

// expire ends what is over; sweep drops results that nobody waits for.
func (m *model) expire() {
	for _, id := range slices.Sorted(maps.Keys(m.sessions)) {
		if m.sessions[id].expires <= m.now {
			m.endSession(id)
		}
	}
	for _, l := range m.leases {
		if l.Holder != "" && l.Expires <= m.now {
			*l = leases.Lease{Name: l.Name, Token: l.Token}
		}
	}
	m.expireFailover()
	m.sweep()
}

func (m *model) sweep() {
	for id, r := range m.results {
		if id.Time()+Time(Retention) < m.now || r.session == 0 && r.client == "" {
			delete(m.results, id)
		}
	}
}

// documents are those that something refers to: no others are stored.
func (m *model) documents() map[blobs.Hash]bool {
	refs := map[blobs.Hash]bool{}
	for _, n := range m.nodes {
		refs[n.Unprocessed], refs[n.Processed], refs[n.Earlier] = true, true, true
	}
	for _, r := range m.queue {
		refs[r.document] = true
	}
	for _, r := range m.kept() {
		refs[r.Document] = true
	}
	delete(refs, blobs.Hash{})
	return refs
}

func (m *model) endSession(id fencing.Token) {
	delete(m.sessions, id)
	m.dropVotesOf(id)
	for _, r := range m.results {
		if r.session == id {
			r.session = 0
		}
	}
	for _, r := range slices.Clone(m.queue) {
		if r.session != id || r.claim == 0 {
			continue
		}
		m.lose(r)
	}
}

func (m *model) dropVotesOf(session fencing.Token) {
	m.failing.votes = slices.DeleteFunc(m.failing.votes, func(b kubestate.Ballot) bool { return b.Session == session })
}

// lose frees a request that its worker was lost with.
func (m *model) lose(r *modelRequest) {
	r.claim, r.session = 0, 0
	if r.attempts == introspection.MaxAttempts {
		n := m.nodes[r.node]
		if n.State.Active() && r.seq >= n.Begun {
			m.end(n, introspection.NodeError, introspection.Answer{Status: 400, Message: "gave up"})
		}
		m.remove(r)
	}
}

func (m *model) remove(r *modelRequest) {
	m.queue = slices.DeleteFunc(m.queue, func(other *modelRequest) bool { return other == r })
}

// claimed finds the request of a claim that is live and, if the header names a
// session, its own.
func (m *model) claimed(h introspection.Hold) *modelRequest {
	for _, r := range m.queue {
		if h.Token != 0 && r.hold() == h && (m.header.Session == 0 || m.header.Session == r.session) {
			return r
		}
	}
	return nil
}

func (m *model) locked(node string) bool {
	return slices.ContainsFunc(m.queue, func(r *modelRequest) bool { return r.node == node && r.claim != 0 })
}

// ready finds the oldest request of every node that nobody holds.
func (m *model) ready() []*modelRequest {
	var ready []*modelRequest
	seen := map[string]bool{}
	for _, r := range m.queue {
		if !m.locked(r.node) && !seen[r.node] {
			ready = append(ready, r)
		}
		seen[r.node] = true
	}
	return ready
}

func (m *model) execute(c Command) Code {
	switch c := c.(type) {
	case Lead:
		m.lead = m.token()
		m.gated.since, m.gated.peer, m.gated.led = m.now, c.Peer, m.gated.term
		for _, f := range m.gated.former {
			m.unhears(f)
		}
	case Probe:
	case settings.PutSetting:
		m.settings[c.Key] = c.Value
	case settings.DeleteSetting:
		if _, ok := m.settings[c.Key]; !ok {
			return NotFound
		}
		delete(m.settings, c.Key)
	case membership.PutMember:
		if m.removed[c.Member.ID] {
			return Conflict
		}
		m.members[c.Member.ID] = c.Member.Version
		m.flags.address[c.Member.ID] = c.Member.Address
	case membership.Exclude, membership.MoveMember:
		return m.stands(c)
	case membership.RotateGossipKey, membership.ConfirmGossipKeys, membership.AdvanceGossipKeys:
		return m.rotates(c)
	case zones.Choose:
		return m.zones(c)
	case membership.FormerHeard, membership.Rejoin:
		return m.former(c)
	case operators.NoteOperator, operators.RevokeOperator:
		return m.operates(c)
	case membership.OpenSession, membership.RenewSession, membership.EndSession, membership.RemoveMember:
		return m.peer(c)
	case leases.Grant, leases.Renew, leases.Release, leases.Delete:
		return m.lease(c)
	case ruleset.Create, ruleset.Delete, ruleset.DeleteAll:
		return m.rule(c)
	case relays.Accept, relays.Introduced, relays.Try, relays.Settle:
		return m.relay(c)
	case ironicports.PutPorts, introspection.PutInspected, doors.PassOpen, doors.PassClosed, doors.AddressTaken,
		doors.AddressReleased:
		return m.gate(c)
	case kubestate.PutNodes, kubestate.VoteNodes, kubestate.BeginRemediation, kubestate.StepRemediation,
		kubestate.PauseFailover, kubestate.ReleaseRemediation, kubestate.HoldFailover:
		return m.fails(c)
	default:
		return m.introspect(c)
	}
	return OK
}

// version is that of the cluster.
func (m *model) version() (least int) {
	for _, v := range m.members {
		if least == 0 || v < least {
			least = v
		}
	}
	return least
}

func (m *model) peer(c Command) Code {
	switch c := c.(type) {
	case membership.OpenSession:
		if m.members[c.Peer] == 0 {
			return Refused
		}
		if at := m.version(); c.Version < at {
			return Outdated
		}
		m.endSessionOf(c.Peer)
		m.sessions[m.token()] = &modelSession{peer: c.Peer, expires: m.now.Add(membership.SessionTTL)}
		m.members[c.Peer] = c.Version
		m.dropsWhatBecame(c.Peer)
	case membership.RenewSession:
		s := m.memberSession(c.Session)
		if s == nil {
			return SessionEnded
		}
		s.expires, s.refuses = m.now.Add(membership.SessionTTL), c.Refuses != ""
	case membership.EndSession:
		if m.sessions[c.Session] != nil {
			m.endSession(c.Session)
		}
	case membership.RemoveMember:
		if m.drops(c.ID) {
			return OK
		}
		if m.members[c.ID] == 0 {
			return NotFound
		}
		voters, live, _ := m.votersWithout(c.ID)
		if voters == 0 || !c.Force && !m.flags.observer[c.ID] && 2*live <= voters {
			return Refused
		}
		m.endSessionOfRemoved(c.ID)
		delete(m.members, c.ID)
		if slices.Min(slices.Collect(maps.Values(m.members))) >= 2 {
			m.removed[c.ID] = true
		}
		m.flags.forget(c.ID)
		m.dropsWhatBecame(c.ID)
	}
	return OK
}

// endSessionOfRemoved leaves a session that holds claims to its deadline, where
// removals are recorded.
func (m *model) endSessionOfRemoved(peer string) {
	records := slices.Min(slices.Collect(maps.Values(m.members))) >= 2
	for id, s := range m.sessions {
		if s.peer != peer {
			continue
		}
		if !records || !slices.ContainsFunc(m.queue, func(r *modelRequest) bool { return r.claim != 0 && r.session == id }) {
			m.endSession(id)
			return
		}
		m.dropVotesOf(id)
		s.removed = true
		return
	}
}

// memberSession returns the session of a member, nil if it is over or its peer was
// removed.
func (m *model) memberSession(id fencing.Token) *modelSession {
	if s := m.sessions[id]; s != nil && !s.removed {
		return s
	}
	return nil
}

func (m *model) endSessionOf(peer string) {
	for id, s := range m.sessions {
		if s.peer == peer {
			m.endSession(id)
			return
		}
	}
}

func (m *model) lease(c Command) Code {
	switch c := c.(type) {
	case leases.Grant:
		old := m.leases[c.Name]
		switch {
		case old == nil || old.Holder == "",
			old.Holder == c.Holder && c.Takeover && (old.Client == "" || old.Client != m.header.Client):
			m.leases[c.Name] = &leases.Lease{Name: c.Name, Holder: c.Holder, Token: m.token(), TTL: c.TTL,
				Expires: m.now.Add(c.TTL), Client: m.header.Client}
		case old.Holder == c.Holder && old.Client != "" && old.Client == m.header.Client:
		default:
			return Conflict
		}
	case leases.Renew:
		l, code := m.own(c.Name, c.Holder, c.Token)
		if code == OK {
			l.Expires = m.now.Add(l.TTL)
		}
		return code
	case leases.Release:
		l, code := m.own(c.Name, c.Holder, c.Token)
		if code == Expired && l.Token == c.Token {
			return OK
		}
		if code == OK {
			*l = leases.Lease{Name: l.Name, Token: l.Token}
		}
		return code
	case leases.Delete:
		if m.leases[c.Name] == nil {
			return NotFound
		}
		if m.leases[c.Name].Holder != "" {
			return Conflict
		}
		delete(m.leases, c.Name)
	}
	return OK
}

func (m *model) own(name, holder string, token fencing.Token) (*leases.Lease, Code) {
	l := m.leases[name]
	switch {
	case l == nil:
		return nil, NotFound
	case l.Holder == holder && l.Token == token:
		return l, OK
	case l.Holder == "" && token <= l.Token:
		return l, Expired
	}
	return l, Conflict
}

// requestIDs returns the IDs whose results are kept, in order.
func (m *model) requestIDs() []RequestID {
	return slices.SortedFunc(maps.Keys(m.results), func(a, b RequestID) int { return bytes.Compare(a[:], b[:]) })
}

const modelTimeout = 30 * time.Second
