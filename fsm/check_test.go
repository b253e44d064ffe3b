package fsm

import (
	"maps"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/fencing"
)

// corruptions are the contradictions that a fault in Apply could leave.
type corruptions map[string]func(*data)

// Check must find every one.
func TestCheckFindsContradictions(t *testing.T) {
	v := busy(t).view()
	all := corruptPeers(v)
	maps.Copy(all, corruptFormer())
	maps.Copy(all, corruptNodes(t, v))
	maps.Copy(all, corruptLists(v))
	maps.Copy(all, corruptDoors())
	maps.Copy(all, corruptRules(v))
	maps.Copy(all, corruptRelays(v))
	maps.Copy(all, corruptKubeNodes(v))
	maps.Copy(all, corruptRemediations(v))
	for name, corrupt := range all {
		t.Run(name, func(t *testing.T) {
			bad := *v.d
			corrupt(&bad)
			if err := (View{&bad}).Check(); err == nil {
				t.Error("not found")
			}
		})
	}
	if err := v.Check(); err != nil {
		t.Errorf("the state itself was changed: %v", err)
	}
}

func corruptPeers(v View) corruptions {
	session, _ := v.SessionOf("a")
	lease, _ := v.Lease("held")
	value, _ := v.Value("k")
	instance := v.Group("web")[0]
	_, result, _ := v.d.requests.byID.first()
	return corruptions{
		"clock before zero":              func(d *data) { d.position.Now = -1 },
		"clock past a deadline":          func(d *data) { d.position.Now = session.Expires },
		"leadership above the floor":     func(d *data) { d.position.Floor = d.lead.Token - 1 },
		"floor from the future":          func(d *data) { d.position.Floor = d.granted() + 1 },
		"leadership not of its index":    func(d *data) { d.lead.Index++ },
		"leadership from the future":     func(d *data) { d.lead.Term = d.position.Term + 1 },
		"leadership of nobody":           func(d *data) { d.lead.Peer = "" },
		"leadership without token":       func(d *data) { d.lead.Token = 0 },
		"leadership that begins later":   func(d *data) { d.lead.At = d.position.Now + 1 },
		"incarnation zero":               func(d *data) { d.cluster.Incarnation = 0 },
		"turn before zero":               func(d *data) { d.throttle.Next = -1 },
		"no members":                     func(d *data) { d.peers = newPeers() },
		"cluster version":                func(d *data) { d.peers.version++ },
		"member under another name":      func(d *data) { d.peers.members.put([]byte("x"), member("a")) },
		"member against the rules":       func(d *data) { d.peers.members.put([]byte("x"), Member{ID: "x"}) },
		"removed peer under another key": func(d *data) { d.peers.removed.put([]byte("x"), RemovedPeer{ID: "y"}) },
		"removed peer that is a member":  func(d *data) { d.peers.removed.put([]byte("a"), RemovedPeer{ID: "a"}) },
		"removed peer of no entry":       func(d *data) { d.peers.removed.put([]byte("x"), RemovedPeer{ID: "x", At: 1 << 60}) },
		"session of no member":           func(d *data) { d.peers.members.drop([]byte("a")); d.peers.version = d.peers.leastVersion() },
		"session missing of its peer":    func(d *data) { d.peers.sessionOf.drop([]byte("a")) },
		"session of two peers":           func(d *data) { d.peers.sessionOf.put([]byte("c"), session.ID) },
		"session under another key":      func(d *data) { d.peers.sessions.put(tokenKey(1), session) },
		"session without deadline":       func(d *data) { d.disarm(session.Expires, dueSession, tokenKey(session.ID)) },
		"session that lasts too long": func(d *data) {
			s := session
			s.Expires = s.Expires.Add(time.Hour)
			d.peers.sessions.put(tokenKey(s.ID), s)
		},
		"deadline of nothing":         func(d *data) { d.arm(1<<60, dueLease, []byte("ghost")) },
		"join token without deadline": func(d *data) { d.joins.put([]byte("x"), JoinToken{ID: "x", Expires: 1 << 60}) },
		"setting under another key":   func(d *data) { d.settings.put([]byte("x"), Setting{Key: "k"}) },
		"setting from the future":     func(d *data) { d.settings.put([]byte("k"), Setting{Key: "k", Index: 1 << 40}) },
		"result of no session":        func(d *data) { o := result; o.Session = 1; d.requests.byID.put(o.ID[:], o) },
		"result missing of session":   func(d *data) { d.requests.bySession.drop(pairKey(result.Session, result.ID[:]...)) },
		"result missing of client":    func(d *data) { d.requests.byClient.drop([]byte("client")) },
		"client of no result":         func(d *data) { d.requests.byClient.put([]byte("x"), result.ID) },
		"result below the mark":       func(d *data) { s := session; s.Answered = RequestID{0xff}; d.peers.sessions.put(tokenKey(s.ID), s) },
		"result stored as a repeat":   func(d *data) { o := result; o.Result.Repeated = true; d.requests.byID.put(o.ID[:], o) },
		"result nobody waits for":     func(d *data) { o := result; o.Session, o.Client = 0, ""; d.requests.byID.put(o.ID[:], o) },
		"result too old": func(d *data) {
			d.requests.put(outcome{ID: MintRequestID(0, 0, [8]byte{}), Client: "old"})
			d.position.Now = Time(time.Hour)
		},
		"lease without deadline":    func(d *data) { d.disarm(lease.Expires, dueLease, []byte("held")) },
		"lease of no entry":         func(d *data) { l := lease; l.Token = 1 << 60; d.leases.put([]byte("held"), l) },
		"lease that lasts too long": func(d *data) { l := lease; l.TTL = time.Second; d.leases.put([]byte("held"), l) },
		"value under another key":   func(d *data) { d.values.byKey.put([]byte("x"), value) },
		"value of no entry":         func(d *data) { v := value; v.Version = 1 << 60; d.values.byKey.put([]byte("k"), v) },
		"value of a token alone":    func(d *data) { v := value; v.Lease = ""; d.values.byKey.put([]byte("k"), v) },
		"values counted wrong":      func(d *data) { d.values.bytes++ },
		"member of no lease":        func(d *data) { d.leases.drop([]byte("held")) },
		"member by another grant":   func(d *data) { m := instance; m.Token = 1; d.groups.put(m) },
		"member under another key":  func(d *data) { d.groups.members.put([]byte("x"), instance) },
		"member missing of lease":   func(d *data) { d.groups.byLease.drop(pathKey("held", "web", "i")) },
		"free lease with a ttl":     func(d *data) { d.leases.put([]byte("free"), Lease{Name: "free", Token: 3, TTL: 1}) },
	}
}

func corruptNodes(t *testing.T, v View) corruptions {
	claim := v.Claims()[0]
	record, _ := v.Record(nodeA)
	head, _ := v.QueuedRequest(claim.Request)
	blob, _ := v.Blob(record.Unprocessed)
	ended, _ := v.Record(nodeN(9))
	return corruptions{
		"record missing of starts":       func(d *data) { d.nodes.byStart.drop(record.startKey()) },
		"record missing of deadlines":    func(d *data) { d.nodes.byDeadline.drop(record.deadlineKey()) },
		"record missing of ends":         func(d *data) { d.nodes.byEnd.drop(ended.endKey()) },
		"end of an active record":        func(d *data) { d.nodes.byEnd.put(record.endKey(), none{}) },
		"record missing of deliveries":   func(d *data) { d.nodes.byDelivery.drop(record.deliveryKey()) },
		"delivery to nobody":             func(d *data) { d.nodes.byDelivery.put(append(make([]byte, 32), nodeB...), none{}) },
		"record missing of a MAC":        func(d *data) { d.nodes.byAttribute.drop(record.attributeKeys()[1]) },
		"MAC of nobody":                  func(d *data) { d.nodes.byAttribute.put(attributeKey(attributeMAC, "x", nodeB), none{}) },
		"record in no state":             func(d *data) { changeRecord(d, record, func(r *Record) { r.State = 77 }) },
		"active record that is finished": func(d *data) { changeRecord(d, record, func(r *Record) { r.FinishedMillis = 1 }) },
		"finished record that is not":    func(d *data) { changeRecord(d, record, func(r *Record) { r.State = NodeFinished }) },
		"failed record without error":    func(d *data) { changeRecord(d, record, func(r *Record) { r.State, r.FinishedMillis = NodeError, 1 }) },
		"record that ends in the future": func(d *data) { changeRecord(d, ended, func(r *Record) { r.Finished = d.position.Now + 1 }) },
		"record that ends too early":     func(d *data) { changeRecord(d, ended, func(r *Record) { r.Finished = -1 }) },
		"end of what is not finished":    func(d *data) { changeRecord(d, record, func(r *Record) { r.Finished = 1 }) },
		"ended without an answer":        func(d *data) { changeRecord(d, ended, func(r *Record) { r.Delivered.Answer = Answer{} }) },
		"answer that nobody can get":     func(d *data) { changeRecord(d, ended, func(r *Record) { r.Delivered.Answer.Status = 201 }) },
		"answer to no callback":          func(d *data) { changeRecord(d, ended, func(r *Record) { r.Delivered.Document = Hash{} }) },
		"callback of no request":         func(d *data) { changeRecord(d, ended, func(r *Record) { r.Delivered.Request = 0 }) },
		"record begun by no entry":       func(d *data) { changeRecord(d, record, func(r *Record) { r.Begun = 1 << 60 }) },
		"requests of no record":          func(d *data) { d.dropRecord(nodeB) },
		"request missing of its node":    func(d *data) { d.queue.byNode.drop(nodeKey(nodeA, head.Sequence)) },
		"request held by nobody":         func(d *data) { d.queue.dropClaim(claim); d.queue.offer(nodeA) },
		"request free and claimed":       func(d *data) { q := head; q.Claim = 0; d.queue.requests.put(tokenKey(q.Sequence), q) },
		"request claimed too often":      func(d *data) { q := head; q.Attempts = 9; d.queue.requests.put(tokenKey(q.Sequence), q) },
		"request not ready":              func(d *data) { key, _, _ := d.queue.ready.first(); d.queue.ready.drop(key) },
		"request ready and claimed":      func(d *data) { d.queue.ready.put(tokenKey(head.Sequence), none{}) },
		"claim of no session":            func(d *data) { c := claim; c.Session = 1; d.queue.claims.put(tokenKey(c.Request), c) },
		"claim with another token":       func(d *data) { c := claim; c.Token++; d.queue.claims.put(tokenKey(c.Request), c) },
		"claim missing of its node":      func(d *data) { d.queue.claimOf.drop([]byte(nodeA)) },
		"document counted wrongly":       func(d *data) { d.ref(blob.Hash, Packed{}) },
		"document missing":               func(d *data) { d.blobs.drop(blob.Hash[:]) },
		"document of nobody":             func(d *data) { p := pack(t, "of nobody"); d.blobs.put(p.Hash[:], Blob{Hash: p.Hash, Data: p.Data}) },
		"document with another content":  func(d *data) { b := blob; b.Data = pack(t, "other").Data; d.blobs.put(b.Hash[:], b) },
		"document that is no zstd":       func(d *data) { b := blob; b.Data = []byte("x"); d.blobs.put(b.Hash[:], b) },
	}
}

// changeRecord changes a record and its indices alike.
func changeRecord(d *data, r Record, change func(*Record)) {
	change(&r)
	d.putRecord(r, Packed{})
}

func TestCheckNamesNoMoreThanAFew(t *testing.T) {
	r := busy(t)
	bad := *r.state.now
	for i := range 100 {
		bad.peers.sessions.put(tokenKey(fencing.Token(1000+i)), Session{})
	}
	p := &problems{}
	checkTables(&bad, p)
	if err := p.err(); err == nil || len(p.list) != maxProblems+1 {
		t.Errorf("%d problems are named", len(p.list))
	}
}
