package fsm

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/table"
)

// corruptions are the contradictions that a fault in Apply could leave.
type corruptions map[string]func(*data)

// Check must find every one.
func TestCheckFindsContradictions(t *testing.T) {
	v := busy(t).view()
	all := corruptPeers(v)
	maps.Copy(all, corruptDocuments(t, v))
	for name, corrupt := range all {
		t.Run(name, func(t *testing.T) {
			bad := *v.data
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
	_, result, _ := v.data.requests.byID.First()
	return corruptions{
		"clock before zero":            func(d *data) { d.shared.Position.Now = -1 },
		"clock past a deadline":        func(d *data) { d.shared.Position.Now = session.Expires },
		"leadership above the floor":   func(d *data) { d.shared.Position.Floor = d.shared.Lead.Token - 1 },
		"floor from the future":        func(d *data) { d.shared.Position.Floor = d.shared.Granted() + 1 },
		"leadership not of its index":  func(d *data) { d.shared.Lead.Index++ },
		"leadership from the future":   func(d *data) { d.shared.Lead.Term = d.shared.Position.Term + 1 },
		"leadership of no peer":        func(d *data) { d.shared.Lead.Peer = "" },
		"leadership without token":     func(d *data) { d.shared.Lead.Token = 0 },
		"leadership that begins later": func(d *data) { d.shared.Lead.At = d.shared.Position.Now + 1 },
		"incarnation zero":             func(d *data) { d.shared.Cluster.Incarnation = 0 },
		"no members":                   func(d *data) { d.memberTables = membership.Tables{} },
		"cluster version":              func(d *data) { d.shared.Version++ },
		"deadline of nothing":          func(d *data) { d.shared.Arm(1<<60, 'l', []byte("ghost")) },
		"result of no session":         func(d *data) { o := result; o.Session = 1; d.requests.byID.Put(o.ID[:], o) },
		"result missing of session": func(d *data) {
			d.requests.bySession.Drop(table.PairKey(result.Session, result.ID[:]...))
		},
		"result missing of client": func(d *data) { d.requests.byClient.Drop([]byte("client")) },
		"client of no result":      func(d *data) { d.requests.byClient.Put([]byte("x"), result.ID) },
		"result below the mark": func(d *data) {
			membersOf(d.txn()).Answered(session, RequestID{0xff})
		},
		"result stored as a repeat": func(d *data) { o := result; o.Result.Repeated = true; d.requests.byID.Put(o.ID[:], o) },
		"result without a session": func(d *data) {
			o := result
			o.Session, o.Client = 0, ""
			d.requests.byID.Put(o.ID[:], o)
		},
		"result too old": func(d *data) {
			d.requests.put(outcome{ID: entry.MintRequestID(0, 0, [8]byte{}), Client: "old"})
			d.shared.Position.Now = Time(time.Hour)
		},
		"lease without deadline": func(d *data) { d.shared.Disarm(lease.Expires, 'l', []byte("held")) },
	}
}

func corruptDocuments(t *testing.T, v View) corruptions {
	record, _ := v.Record(nodeA)
	blob, _ := v.Blob(record.Unprocessed)
	relayed := slices.Collect(v.Relays())[0]
	return corruptions{
		"document counted wrongly":    func(d *data) { d.blobs.Ref(blob.Hash, blobs.Packed{}) },
		"document of a relay missing": func(d *data) { d.blobs.Unref(relayed.Document) },
		"document missing":            func(d *data) { d.blobs.Unref(blob.Hash) },
		"document of no record": func(d *data) {
			p := pack(t, "of nobody")
			d.blobs.Load(blobs.Blob{Hash: p.Hash, Data: p.Data})
		},
		"document with another content": func(d *data) { b := blob; b.Data = pack(t, "other").Data; d.blobs.Load(b) },
		"document that is no zstd":      func(d *data) { b := blob; b.Data = []byte("x"); d.blobs.Load(b) },
	}
}

func TestCheckNamesNoMoreThanAFew(t *testing.T) {
	r := busy(t)
	bad := *r.state.now
	for i := range 100 {
		bad.requests.byID.Put(table.TokenKey(fencing.Token(1000+i)), outcome{})
	}
	err := View{&bad}.Check()
	if all, ok := err.(interface{ Unwrap() []error }); !ok || len(all.Unwrap()) != 21 { // 20, and how many more
		t.Errorf("too many or too few problems are named: %v", err)
	}
}
