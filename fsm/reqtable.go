package fsm

import (
	"time"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

var requestDomain = domain{
	Sections: []entry.Section[*txn]{
		entry.ManyShown('r', "requests", func(d *txn) table.Of[outcome] { return d.requests.byID },
			func(d *txn, o outcome) { d.requests.put(o) }, outcome.shown),
	},
	Checks: entry.Checks[*txn]{checkRequests},
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
	byID      table.Of[outcome]
	bySession table.Of[table.None] // session, ID: for what a session lets go
	byClient  table.Of[RequestID]  // the first request of a client's ID
}

func (r *requests) put(o outcome) {
	r.byID.Put(o.ID[:], o)
	if !o.Session.IsZero() {
		r.bySession.Put(table.PairKey(o.Session, o.ID[:]...), table.None{})
	}
	if o.Client != "" {
		r.byClient.Put([]byte(o.Client), o.ID)
	}
}

// releaseBelow lets go of a session's results below an ID. One that a
// client's ID names stays, without the session, until it is too old.
func (r *requests) releaseBelow(session fencing.Token, bound RequestID) {
	var ids, ofSession [][]byte
	var named []outcome
	for key := range r.bySession.Under(table.TokenKey(session)) {
		id := key[8:]
		if !RequestID(id).Less(bound) {
			break
		}
		ofSession = append(ofSession, key)
		if o, _ := r.byID.Get(id); o.Client != "" {
			o.Session = 0
			named = append(named, o)
		} else {
			ids = append(ids, id)
		}
	}
	if len(ofSession) == 0 {
		return
	}
	r.bySession.DropAll(ofSession)
	r.byID.DropAll(ids)
	for _, o := range named {
		r.byID.Put(o.ID[:], o)
	}
}

// DropSession lets go of all results of a session that is over.
func (r *requests) DropSession(session fencing.Token) {
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
	for id, o := range t.requests.byID.All() {
		if !tooOld(o.ID, t.Now()) {
			break
		}
		ids = append(ids, id)
		ofSession = append(ofSession, table.PairKey(o.Session, id...))
		ofClient = append(ofClient, []byte(o.Client))
	}
	if len(ids) == 0 {
		return
	}
	t.requests.byID.DropAll(ids)
	t.requests.bySession.DropAll(ofSession)
	t.requests.byClient.DropAll(ofClient)
}

// crowdOut lets go of the oldest result that is kept for a client's ID alone.
// Programs that acquire leases, each under an ID of its own, would else keep every
// peer from doing anything until the oldest is ten minutes old. What a session waits
// for stays: no other peer can tell its outcome.
func (t *txn) crowdOut() bool {
	if !t.Version2() {
		return false
	}
	looked := 0
	for id, o := range t.requests.byID.All() {
		if o.Session.IsZero() {
			t.requests.byID.Drop(id)
			t.requests.byClient.Drop([]byte(o.Client))
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
	h := t.Header
	s, _ := t.Session(h.Session)
	if !t.MemberSession(h.Session) {
		return entry.Refuse(SessionEnded, "session %v has ended", h.Session), true
	}
	if h.Request.IsZero() {
		return Result{}, false
	}
	if s.Answered.Less(h.Answered) {
		s.Answered = h.Answered
		membersOf(t).Answered(s, s.Answered)
		t.requests.releaseBelow(s.ID, s.Answered)
	}
	if o, known := t.requests.byID.Get(h.Request[:]); known {
		res = repeat(o, kind)
		res.Retried = res.Repeated && o.Client == h.Client // else it had joined another's
		return res, true
	}
	switch {
	case tooOld(h.Request, t.Now()), h.Request.Less(s.Answered):
		return entry.Refuse(OutcomeUnknown, "the result of request %v is forgotten; read before you repeat it", h.Request),
			true
	case h.Request.Time().After(t.Now().Add(Retention)):
		return entry.Refuse(Invalid, "request %v comes from the future", h.Request), true
	case t.requests.byID.Size() >= MaxRequests && !t.crowdOut():
		return entry.Refuse(TableFull,
			"the table of requests is full: %d results wait to be collected; try again later, none is kept for more than %v",
			MaxRequests, Retention), true
	}
	// A request whose client repeats itself gets the first result. It is kept under the new ID as well:
	// that request has its answer now, also when the first is forgotten.
	first, known := t.requests.byClient.Get([]byte(h.Client))
	if h.Client == "" || !known {
		return Result{}, false
	}
	o, _ := t.requests.byID.Get(first[:])
	if o.Kind == kind {
		t.requests.put(outcome{ID: h.Request, Session: h.Session, Kind: kind, Result: o.Result})
	}
	return repeat(o, kind), true
}

// repeat is the first result again, unless the ID is used for something else.
func repeat(o outcome, kind Kind) Result {
	if o.Kind != kind {
		return entry.Refuse(Conflict, "the request ID was used before, for another command (%v)", o.Kind)
	}
	res := o.Result
	res.Repeated = true
	return res
}

// remember keeps the result of a request that was executed just now. One that ended
// its own session, by removing its peer, has no session left to collect it.
func (t *txn) remember(kind Kind, res Result) {
	h := t.Header
	if h.Request.IsZero() {
		return
	}
	session := h.Session
	if _, live := t.Session(session); !live {
		session = 0
	}
	client := h.Client
	// When room was made, the same request is decided again. For the session it is
	// kept: under that request it happens at most once.
	if res.Code == TableFull && t.Version2() {
		client = ""
	}
	if session.IsZero() && client == "" {
		return
	}
	t.requests.put(outcome{ID: h.Request, Session: session, Client: client, Kind: kind, Result: res})
}

func checkRequests(d *txn, p *valid.Problems) {
	p.Want(d.requests.byID.Size() <= MaxRequests, "%d results are kept", d.requests.byID.Size())
	sessions, clients := 0, 0
	for key, o := range d.requests.byID.All() {
		p.Want(string(key) == string(o.ID[:]), "result %v is filed under %x", o.ID, key)
		p.Want(!tooOld(o.ID, d.shared.Position.Now), "result %v is too old at %v", o.ID, d.shared.Position.Now)
		p.Want(!o.Session.IsZero() || o.Client != "", "result %v is kept for no session and no client", o.ID)
		p.Want(!o.Result.Repeated && !o.Result.Retried, "result %v is stored as a repeat", o.ID)
		if !o.Session.IsZero() {
			sessions++
			s, live := d.Session(o.Session)
			p.Want(live && !o.ID.Less(s.Answered), "result %v is not wanted by session %v any more", o.ID, o.Session)
			p.Want(d.requests.bySession.Has(table.PairKey(o.Session, o.ID[:]...)), "result %v is missing from session %v", o.ID,
				o.Session)
		}
		if o.Client != "" {
			clients++
			first, _ := d.requests.byClient.Get([]byte(o.Client))
			p.Want(first == o.ID, "client ID %q names %v and %v", o.Client, first, o.ID)
		}
	}
	p.Want(sessions == d.requests.bySession.Size(), "%d results of sessions, %d in their index", sessions,
		d.requests.bySession.Size())
	p.Want(clients == d.requests.byClient.Size(), "%d results of clients, %d in their index", clients,
		d.requests.byClient.Size())
}

type dumpedRequest struct {
	ID      RequestID     `json:"id"`
	Session fencing.Token `json:"session"`
	Kind    Kind          `json:"kind"`
	Code    string        `json:"code"`
	Token   fencing.Token `json:"token"`
}

func (o outcome) shown() any {
	return dumpedRequest{ID: o.ID, Session: o.Session, Kind: o.Kind, Code: o.Result.Code.String(), Token: o.Result.Token}
}
