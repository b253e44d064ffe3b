package introspection

import (
	"fmt"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/test/domaintest"
)

// Nodes of the busy state: one that is processed, one that is queued, one that has ended.
const (
	busyNode   = "6f2f1c9e-3f6b-4a52-9f0e-0a4c5d3b2a01"
	queuedNode = "6f2f1c9e-3f6b-4a52-9f0e-0a4c5d3b2a02"
	endedNode  = "6f2f1c9e-3f6b-4a52-9f0e-0a4c5d3b2a03"
)

// onePort is of busyNode.
type onePort struct{}

const portMAC = "52:54:00:00:00:09"

func (onePort) MACsByPort(node string) []string {
	if node != busyNode {
		return nil
	}
	return []string{portMAC}
}

func (onePort) OwnerByPort(mac string) (string, fencing.Token) {
	if mac != portMAC {
		return "", 0
	}
	return busyNode, 1 << 60
}

// busyNodes returns tables with a node in each of the states that Check tells apart.
func busyNodes(t *testing.T) (Txn, *entry.Txn) {
	t.Helper()
	tables, store := Tables{}, blobs.Store{}
	base := domaintest.NewTxn()
	all := Txn{Txn: base, Tables: &tables, Blobs: &store, Ports: onePort{}}
	commit := func(c entry.Command) fencing.Token {
		t.Helper()
		return domaintest.Commit(t, Domain, base, all, c)
	}
	for i, node := range []string{busyNode, queuedNode, endedNode} {
		commit(Start{Node: node, Event: EventAdopt, Timeout: time.Hour,
			Attributes: Attributes{MACs: []string{"52:54:00:00:00:0" + fmt.Sprint(i+1)}}})
	}
	for _, node := range []string{busyNode, endedNode} {
		document, err := blobs.Pack([]byte(node))
		if err != nil {
			t.Fatal(err)
		}
		commit(TakeCallback{Node: node, Document: document, Keep: true})
	}
	ended, _ := all.ClaimOf(endedNode)
	commit(Advance{Claim: ended.Hold(), Event: EventFinish, Answer: Answer{Status: 200}, Consume: true})
	commit(Enqueue{Node: queuedNode, Event: EventDelete})
	commit(PutInspected{Nodes: []Inspected{{Node: endedNode, MACs: []string{"52:54:00:00:00:07"}}}})
	commit(KeepInspected{For: time.Hour})
	return all, base
}

// Check finds the contradictions that a fault of a verb could leave.
func TestCheckFindsContradictions(t *testing.T) {
	all, base := busyNodes(t)
	at := func(base *entry.Txn, tables *Tables) Txn {
		store := *all.Blobs
		return Txn{Txn: base, Tables: tables, Blobs: &store, Ports: onePort{}}
	}
	domaintest.FindContradictions(t, Domain, base, *all.Tables, at, corruptNodes(all))
}

// corruptNodes are the contradictions of records, requests, claims and the whitelist.
func corruptNodes(all Txn) map[string]func(Txn) {
	claim := all.Claims()[0]
	record, _ := all.Tables.Record(busyNode)
	head, _ := all.QueuedRequest(claim.Request)
	ended, _ := all.Tables.Record(endedNode)
	mac := record.Attributes.MACs[0]
	return map[string]func(Txn){
		"record missing of starts":           func(s Txn) { s.nodes.byStart.Drop(record.startKey()) },
		"record missing of deadlines":        func(s Txn) { s.nodes.byDeadline.Drop(record.deadlineKey()) },
		"record missing of ends":             func(s Txn) { s.nodes.byEnd.Drop(ended.endKey()) },
		"end of an active record":            func(s Txn) { s.nodes.byEnd.Put(record.endKey(), table.None{}) },
		"record missing of deliveries":       func(s Txn) { s.nodes.byDelivery.Drop(record.deliveryKey()) },
		"what Ironic inspects kept for ever": func(s Txn) { s.Disarm(s.kept.Until, dueInspected, nil) },
		"delivery to no record": func(s Txn) {
			s.nodes.byDelivery.Put(append(make([]byte, 32), queuedNode...), table.None{})
		},
		"record missing of a MAC": func(s Txn) { s.nodes.byAttribute.Drop(record.attributeKeys()[0]) },
		"MAC of no record": func(s Txn) {
			s.nodes.byAttribute.Put(attributeKey(attributeMAC, "x", queuedNode), table.None{})
		},
		"record in no state":             func(s Txn) { changeRecord(s, record, func(r *Record) { r.State = 77 }) },
		"active record that is finished": func(s Txn) { changeRecord(s, record, func(r *Record) { r.FinishedMillis = 1 }) },
		"finished record that is not":    func(s Txn) { changeRecord(s, record, func(r *Record) { r.State = NodeFinished }) },
		"failed record without error": func(s Txn) {
			changeRecord(s, record, func(r *Record) { r.State, r.FinishedMillis = NodeError, 1 })
		},
		"record that ends in the future": func(s Txn) {
			changeRecord(s, ended, func(r *Record) { r.Finished = s.Position.Now + 1 })
		},
		"record that ends too early":  func(s Txn) { changeRecord(s, ended, func(r *Record) { r.Finished = -1 }) },
		"end of what is not finished": func(s Txn) { changeRecord(s, record, func(r *Record) { r.Finished = 1 }) },
		"ended without an answer": func(s Txn) {
			changeRecord(s, ended, func(r *Record) { r.Delivered.Answer = Answer{} })
		},
		"answer that no client can get": func(s Txn) {
			changeRecord(s, ended, func(r *Record) { r.Delivered.Answer.Status = 201 })
		},
		"answer to no callback": func(s Txn) {
			changeRecord(s, ended, func(r *Record) { r.Delivered.Document = blobs.Hash{} })
		},
		"callback of no request":   func(s Txn) { changeRecord(s, ended, func(r *Record) { r.Delivered.Request = 0 }) },
		"record begun by no entry": func(s Txn) { changeRecord(s, record, func(r *Record) { r.Begun = 1 << 60 }) },
		"requests of no record": func(s Txn) {
			queued, _ := s.Record(queuedNode)
			s.nodes.records.Drop([]byte(queuedNode))
			s.replaced(queued, Record{}, blobs.Packed{})
		},
		"request missing of its node": func(s Txn) { s.queue.byNode.Drop(table.NameKey(busyNode, head.Sequence)) },
		"request without its claim":   func(s Txn) { s.queue.dropClaim(claim); s.queue.offer(busyNode) },
		"request free and claimed": func(s Txn) {
			q := head
			q.Claim = 0
			s.queue.requests.Put(table.TokenKey(q.Sequence), q)
		},
		"request claimed too often": func(s Txn) {
			q := head
			q.Attempts = 9
			s.queue.requests.Put(table.TokenKey(q.Sequence), q)
		},
		"request not ready":         func(s Txn) { key, _, _ := s.queue.ready.First(); s.queue.ready.Drop(key) },
		"request ready and claimed": func(s Txn) { s.queue.ready.Put(table.TokenKey(head.Sequence), table.None{}) },
		"claim of no session": func(s Txn) {
			c := claim
			c.Session = 1
			s.queue.claims.Put(table.TokenKey(c.Request), c)
		},
		"claim with another token": func(s Txn) {
			c := claim
			c.Token++
			s.queue.claims.Put(table.TokenKey(c.Request), c)
		},
		"claim missing of its node":   func(s Txn) { s.queue.claimOf.Drop([]byte(busyNode)) },
		"record missing of whitelist": func(s Txn) { s.nodes.whitelist.Remove(mac, busyNode, 0) },
		"port missing of whitelist":   func(s Txn) { s.nodes.whitelist.Remove(portMAC, byPort(busyNode), 0) },
		"allowed by no port":          func(s Txn) { s.nodes.whitelist.Add("52:54:00:00:00:08", byPort(busyNode), 0) },
		"allowed for no node":         func(s Txn) { s.nodes.whitelist.Add("52:54:00:00:00:08", queuedNode, 0) },
		"allowed after the end":       func(s Txn) { s.nodes.whitelist.Add("52:54:00:00:00:08", endedNode, 0) },
		"inspected missing of whitelist": func(s Txn) {
			s.nodes.inspected.Put([]byte(busyNode), Inspected{Node: busyNode, MACs: []string{"52:54:00:00:00:08"}})
		},
		"inspected under another name": func(s Txn) { s.nodes.inspected.Put([]byte(busyNode), Inspected{Node: queuedNode}) },
		"booting are counted wrongly":  func(s Txn) { s.nodes.booting = 0 },
		"turn before zero":             func(s Txn) { s.throttle.Next = -1 },
	}
}

// changeRecord changes a record and its indices alike.
func changeRecord(s Txn, r Record, change func(*Record)) {
	change(&r)
	s.putRecord(r, blobs.Packed{})
}
