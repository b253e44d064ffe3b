package introspection

import (
	"slices"

	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

func checkNodes(t Txn, p *valid.Problems) {
	active, attributes, delivered := 0, 0, 0
	for key, r := range t.nodes.records.All() {
		p.Want(string(key) == r.Node, "node %s is filed under %q", r.Node, key)
		checkRecord(t, p, r)
		if r.State.Active() {
			active++
		}
		attributes += len(r.attributeKeys())
		if r.deliveryKey() != nil {
			delivered++
		}
	}
	n := t.nodes
	p.Want(n.records.Size() <= MaxNodes, "%d records", n.records.Size())
	p.Want(n.byStart.Size() == n.records.Size(), "%d records, %d in the order of starts", n.records.Size(),
		n.byStart.Size())
	p.Want(n.byDeadline.Size() == active, "%d active records, %d in the order of deadlines", active, n.byDeadline.Size())
	p.Want(n.byEnd.Size() == n.records.Size()-active, "%d ended records, %d in the order of ends", n.records.Size()-active,
		n.byEnd.Size())
	p.Want(n.byDelivery.Size() == delivered, "%d deliveries, %d in the index", delivered, n.byDelivery.Size())
	p.Want(n.byAttribute.Size() == attributes, "%d attributes, %d in the index", attributes, n.byAttribute.Size())
}

func checkRecord(t Txn, p *valid.Problems, r Record) {
	node := r.Node
	p.Want(valid.Node(node) == nil, "%q is not a node", node)
	p.Want(r.State > NodeAbsent && r.State <= NodeAborting, "node %s is in state %v", node, r.State)
	p.Want(!r.Begun.IsZero() && r.Begun <= t.Granted(), "node %s was begun by no entry: %v", node, r.Begun)
	if r.State.Active() {
		p.Want(t.nodes.byDeadline.Has(r.deadlineKey()), "node %s is missing from the deadlines", node)
		p.Want(r.FinishedMillis == 0 || r.State == NodeReapplying, "node %s is %v and finished", node, r.State)
	} else {
		p.Want(r.FinishedMillis != 0, "node %s is %v and not finished", node, r.State)
		p.Want(t.nodes.byEnd.Has(r.endKey()), "node %s is missing from the ends", node)
		p.Want(len(r.attributeKeys()) == 0, "node %s is %v and can be looked up", node, r.State)
	}
	p.Want((r.State == NodeError) == (r.Error != "") || r.State == NodeReapplying, "node %s is %v with error %q", node,
		r.State, r.Error)
	p.Want(r.Finding.IsZero() || r.Finding.Validate() == nil && r.Error == textTimeout,
		"node %s is %v with error %q and finding %+v", node, r.State, r.Error, r.Finding)
	p.Want(r.StartedBeyond < microsInMilli && r.FinishedBeyond < microsInMilli,
		"node %s has %d and %d microseconds in a millisecond", node, r.StartedBeyond, r.FinishedBeyond)
	p.Want(r.Attributes.validate() == nil, "node %s has attributes %v", node, r.Attributes)
	p.Want(r.Finished >= 0 && r.Finished <= t.Position.Now && (r.FinishedMillis != 0 || r.Finished == 0),
		"node %s ended at %v, in Unix ms %d", node, r.Finished, r.FinishedMillis)
	got, key := r.Delivered, r.deliveryKey()
	p.Want(key != nil || got == Delivery{}, "node %s has a delivery of no document: %+v", node, got)
	p.Want(got.Answer.validate() == nil, "node %s has the answer %+v", node, got.Answer)
	if key != nil { // when the introspection has ended, the answer to its callback is known (promise 5)
		p.Want(t.nodes.byDelivery.Has(key), "node %s is missing from the deliveries", node)
		p.Want(!got.Request.IsZero() && got.Request <= t.Granted(), "node %s was delivered to by no request: %v", node,
			got.Request)
		p.Want(!got.Answer.IsZero() || r.FinishedMillis == 0, "node %s is %v and its callback has no answer", node, r.State)
	}
	p.Want(t.nodes.byStart.Has(r.startKey()), "node %s is missing from the starts", node)
	for _, key := range r.attributeKeys() {
		p.Want(t.nodes.byAttribute.Has(key), "node %s is missing from the attribute %q", node, key)
	}
}

func checkQueue(t Txn, p *valid.Problems) {
	q := t.queue
	for key, c := range q.claims.All() {
		p.Want(string(key) == string(table.TokenKey(c.Request)) && c.Token <= t.Granted(),
			"claim %v of request %v is filed under %x", c.Token, c.Request, key)
		of, _ := q.claimOf.Get([]byte(c.Node))
		p.Want(of == c.Request, "node %s is claimed for %v and %v", c.Node, c.Request, of)
		server, live := t.Peers.PeerOf(c.Session)
		p.Want(live && server == c.Peer, "claim %v of %s lives in session %v of %s", c.Token, c.Peer, c.Session, server)
		r, ok := q.requests.Get(table.TokenKey(c.Request))
		p.Want(ok && r.Claim == c.Token && r.Node == c.Node && slices.Contains(r.Peers, c.Peer),
			"claim %v holds request %v, which says %v", c.Token, c.Request, r.Claim)
		p.Want(q.head(c.Node) == c.Request, "claim %v holds %v, not the first request of its node", c.Token, c.Request)
	}
	p.Want(q.claimOf.Size() == q.claims.Size(), "%d claims, %d of nodes", q.claims.Size(), q.claimOf.Size())
	ready, bytes := 0, 0
	for key, r := range q.requests.All() {
		p.Want(string(key) == string(table.TokenKey(r.Sequence)), "request %v is filed under %x", r.Sequence, key)
		p.Want(r.Sequence <= t.Granted(), "request %v was queued by no entry", r.Sequence)
		p.Want(t.nodes.records.Has([]byte(r.Node)), "request %v is for %s, which has no record", r.Sequence, r.Node)
		p.Want(q.byNode.Has(table.NameKey(r.Node, r.Sequence)), "request %v is missing from node %s", r.Sequence, r.Node)
		p.Want(r.Attempts == len(r.Peers) && r.Attempts >= 0, "request %v was claimed %d times by %v", r.Sequence, r.Attempts,
			r.Peers)
		if r.Claim.IsZero() {
			p.Want(r.Attempts < MaxAttempts, "request %v is free after %d attempts", r.Sequence, r.Attempts)
		} else {
			c, ok := q.claims.Get(key)
			p.Want(ok && c.Token == r.Claim, "request %v is held by claim %v, its claim is %v", r.Sequence, r.Claim, c.Token)
		}
		first := q.head(r.Node) == r.Sequence && !q.claimOf.Has([]byte(r.Node))
		p.Want(first == q.ready.Has(key), "request %v: first of a free node %v, ready %v", r.Sequence, first, !first)
		if first {
			ready++
		}
		bytes += r.Bytes
	}
	p.Want(q.bytes == bytes, "documents of %d bytes are queued, counted are %d", bytes, q.bytes)
	p.Want(q.requests.Size() <= MaxQueue, "%d requests are queued", q.requests.Size())
	p.Want(q.byNode.Size() == q.requests.Size(), "%d requests, %d of nodes", q.requests.Size(), q.byNode.Size())
	p.Want(q.ready.Size() == ready, "%d requests are ready, %d in the index", ready, q.ready.Size())
}

// checkWhitelist compares the whitelist with the records, their ports and what Ironic inspects.
func checkWhitelist(t Txn, p *valid.Problems) {
	booting, macs := 0, 0
	for _, r := range t.nodes.records.All() {
		if r.boots() {
			booting++
		}
		named := slices.Sorted(slices.Values(slices.Concat(r.Attributes.MACs, t.Ports.MACsByPort(r.Node))))
		for _, mac := range slices.Compact(named) {
			for _, owner := range ownersOf(t, mac) {
				if owner == r.Node || owner == byPort(r.Node) {
					macs++
					p.Want(t.nodes.whitelist.Keeps(mac, owner), "node %s is missing from the whitelist under %s", r.Node, mac)
				}
			}
		}
	}
	p.Want(t.nodes.booting == booting, "%d nodes are expected to boot, counted are %d", booting, t.nodes.booting)
	p.Want(t.nodes.inspected.Size() <= MaxNodes, "Ironic inspects %d nodes", t.nodes.inspected.Size())
	for key, i := range t.nodes.inspected.All() {
		p.Want(i.Since <= t.Granted(), "Ironic inspects node %s since entry %v, which is to come", i.Node, i.Since)
		p.Want(string(key) == i.Node, "node %s, which Ironic inspects, is filed under %q", i.Node, key)
		p.Invalid(i.validate(), "")
		macs += len(i.MACs)
		for _, mac := range i.MACs {
			p.Want(t.nodes.whitelist.Keeps(mac, byIronic(i.Node)),
				"node %s, which Ironic inspects, is missing from the whitelist under %s", i.Node, mac)
		}
	}
	t.nodes.whitelist.Check(p, "whitelist", macs, t.Position.Index)
}
