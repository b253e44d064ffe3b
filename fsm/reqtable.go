package fsm

import (
	"time"

	"github.com/trivet-ha/trivet/fsm/fencing"
)

var requestDomain = domain{
	sections: []section{
		many('r', "requests", func(d *data) table[outcome] { return d.requests.byID }, func(d *data, o outcome) { d.requests.put(o) }).shown(shownRequests),
	},
	check: checkRequests,
}

// Bounds of the request table (docs/design.md#requests).
const (
	// MaxRequests is the greatest number of results that are kept.
	MaxRequests = 200_000
	// Retention is how long a result is kept at most, in cluster time, counted
	// from the time in the request's ID.
	Retention = 10 * time.Minute

	// crowdLook bounds the results that are looked at for one that a full table lets go
	// of: those that a session waits for are few, and soon collected.
	crowdLook = 100
)

// outcome is the kept result of one request.
type outcome struct {
	ID RequestID `cbor:"1,keyasint"`
	// Session is zero when only Client keeps the outcome: it was answered, or
	// its session is over.
	Session fencing.Token `cbor:"2,keyasint,omitempty"`
	Client  string        `cbor:"3,keyasint,omitempty"`
	Kind    Kind          `cbor:"4,keyasint"`
	Result  Result        `cbor:"5,keyasint"`
}

// requests is the request table: results by ID, whose order is that of age.
type requests struct {
	byID      table[outcome]
	bySession table[none]      // session, ID: for what a session lets go
	byClient  table[RequestID] // the first request of a client's ID
}

func newRequests() requests {
	return requests{byID: newTable[outcome](), bySession: newTable[none](), byClient: newTable[RequestID]()}
}

func (r *requests) put(o outcome) {
	r.byID.put(o.ID[:], o)
	if !o.Session.IsZero() {
		r.bySession.put(pairKey(o.Session, o.ID[:]...), none{})
	}
	if o.Client != "" {
		r.byClient.put([]byte(o.Client), o.ID)
	}
}

// releaseBelow lets go of a session's results below an ID. One that a
// client's ID names stays, without the session, until it is too old.
func (r *requests) releaseBelow(session fencing.Token, bound RequestID) {
	var ids, ofSession [][]byte
	var named []outcome
	for key := range r.bySession.under(tokenKey(session)) {
		id := key[8:]
		if !RequestID(id).Less(bound) {
			break
		}
		ofSession = append(ofSession, key)
		if o, _ := r.byID.get(id); o.Client != "" {
			o.Session = 0
			named = append(named, o)
		} else {
			ids = append(ids, id)
		}
	}
	if len(ofSession) == 0 {
		return
	}
	r.bySession.dropAll(ofSession)
	r.byID.dropAll(ids)
	for _, o := range named {
		r.byID.put(o.ID[:], o)
	}
}

// dropSession lets go of all results of a session that is over.
func (r *requests) dropSession(session fencing.Token) {
	var end RequestID
	for i := range end {
		end[i] = 0xff // above every valid ID, whose version is 7
	}
	r.releaseBelow(session, end)
}

// tooOld reports whether results of the ID's age are forgotten.
func tooOld(id RequestID, now Time) bool { return id.Time().Add(Retention) < now }

// forget drops what is too old. It looks at no more than one result besides.
func (t *txn) forget() {
	var ids, ofSession, ofClient [][]byte
	for id, o := range t.requests.byID.all() {
		if !tooOld(o.ID, t.now()) {
			break
		}
		ids = append(ids, id)
		ofSession = append(ofSession, pairKey(o.Session, id...))
		ofClient = append(ofClient, []byte(o.Client))
	}
	if len(ids) == 0 {
		return
	}
	t.requests.byID.dropAll(ids)
	t.requests.bySession.dropAll(ofSession)
	t.requests.byClient.dropAll(ofClient)
}

// crowdOut lets go of the oldest result that is kept for a client's ID alone.
// Programs that acquire leases, each under an ID of its own, would else keep every
// peer from doing anything until the oldest is ten minutes old. What a session waits
// for stays: no other peer can tell its outcome.
func (t *txn) crowdOut() bool {
	if !t.peers.version2() {
		return false
	}
	looked := 0
	for id, o := range t.requests.byID.all() {
		if o.Session.IsZero() {
			t.requests.byID.drop(id)
			t.requests.byClient.drop([]byte(o.Client))
			return true
		}
		if looked++; looked == crowdLook {
			break
		}
	}
	return false
}

// join decides, before anything is executed, whether a session's command may
// be: over means that res is the answer already (docs/design.md#requests).
func (t *txn) join(kind Kind) (res Result, over bool) {
	h := t.header
	s, live := t.peers.memberSession(h.Session)
	if !live {
		return refuse(SessionEnded, "session %v has ended", h.Session), true
	}
	if h.Request.IsZero() {
		return Result{}, false
	}
	if s.Answered.Less(h.Answered) {
		s.Answered = h.Answered
		t.peers.sessions.put(tokenKey(s.ID), s)
		t.requests.releaseBelow(s.ID, s.Answered)
	}
	if o, known := t.requests.byID.get(h.Request[:]); known {
		res = repeat(o, kind)
		res.Retried = res.Repeated && o.Client == h.Client // else it had joined another's
		return res, true
	}
	switch {
	case tooOld(h.Request, t.now()), h.Request.Less(s.Answered):
		return refuse(OutcomeUnknown, "the result of request %v is forgotten; read before you repeat it", h.Request), true
	case h.Request.Time().After(t.now().Add(Retention)):
		return refuse(Invalid, "request %v comes from the future", h.Request), true
	case t.requests.byID.size() >= MaxRequests && !t.crowdOut():
		return refuse(TableFull, "the table of requests is full: %d results wait to be collected; try again later, none is kept for more than %v", MaxRequests, Retention), true
	}
	return t.joinClient(kind)
}

// joinClient gives a request whose client repeats itself the first result. It
// is kept under the new ID as well: that request has its answer now, also when
// the first is forgotten.
func (t *txn) joinClient(kind Kind) (res Result, over bool) {
	first, known := t.requests.byClient.get([]byte(t.header.Client))
	if t.header.Client == "" || !known {
		return Result{}, false
	}
	o, _ := t.requests.byID.get(first[:])
	if o.Kind == kind {
		t.requests.put(outcome{ID: t.header.Request, Session: t.header.Session, Kind: kind, Result: o.Result})
	}
	return repeat(o, kind), true
}

// repeat is the first result again, unless the ID is used for something else.
func repeat(o outcome, kind Kind) Result {
	if o.Kind != kind {
		return refuse(Conflict, "the request ID was used before, for another command (%v)", o.Kind)
	}
	res := o.Result
	res.Repeated = true
	return res
}

// remember keeps the result of a request that was executed just now. One that ended
// its own session, by removing its peer, has no session left to collect it.
func (t *txn) remember(kind Kind, res Result) {
	h := t.header
	if h.Request.IsZero() {
		return
	}
	session := h.Session
	if !t.peers.sessions.has(tokenKey(session)) {
		session = 0
	}
	client := h.Client
	// When room was made, the same request is decided again. For the session it is
	// kept: under that request it happens at most once.
	if res.Code == TableFull && t.peers.version2() {
		client = ""
	}
	if session.IsZero() && client == "" {
		return
	}
	t.requests.put(outcome{ID: h.Request, Session: session, Client: client, Kind: kind, Result: res})
}
