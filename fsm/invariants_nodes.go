package fsm

import "slices"

func checkNodes(d *data, p *problems) {
	active, attributes, delivered := 0, 0, 0
	for key, r := range d.nodes.records.all() {
		p.want(string(key) == r.Node, "node %s is filed under %q", r.Node, key)
		checkRecord(d, p, r)
		if r.State.Active() {
			active++
		}
		attributes += len(r.attributeKeys())
		if r.deliveryKey() != nil {
			delivered++
		}
	}
	n := d.nodes
	p.want(n.records.size() <= MaxNodes, "%d records", n.records.size())
	p.want(n.byStart.size() == n.records.size(), "%d records, %d in the order of starts", n.records.size(), n.byStart.size())
	p.want(n.byDeadline.size() == active, "%d active records, %d in the order of deadlines", active, n.byDeadline.size())
	p.want(n.byEnd.size() == n.records.size()-active, "%d ended records, %d in the order of ends", n.records.size()-active, n.byEnd.size())
	p.want(n.byDelivery.size() == delivered, "%d deliveries, %d in the index", delivered, n.byDelivery.size())
	p.want(n.byAttribute.size() == attributes, "%d attributes, %d in the index", attributes, n.byAttribute.size())
}

func checkRecord(d *data, p *problems, r Record) {
	node := r.Node
	p.want(validNode(node) == nil, "%q is not a node", node)
	p.want(r.State > NodeAbsent && r.State <= NodeAborting, "node %s is in state %v", node, r.State)
	p.want(!r.Begun.IsZero() && r.Begun <= d.granted(), "node %s was begun by no entry: %v", node, r.Begun)
	if r.State.Active() {
		p.want(d.nodes.byDeadline.has(r.deadlineKey()), "node %s is missing from the deadlines", node)
		p.want(r.FinishedMillis == 0 || r.State == NodeReapplying, "node %s is %v and finished", node, r.State)
	} else {
		p.want(r.FinishedMillis != 0, "node %s is %v and not finished", node, r.State)
		p.want(d.nodes.byEnd.has(r.endKey()), "node %s is missing from the ends", node)
		p.want(len(r.attributeKeys()) == 0, "node %s is %v and can be looked up", node, r.State)
	}
	p.want((r.State == NodeError) == (r.Error != "") || r.State == NodeReapplying, "node %s is %v with error %q", node, r.State, r.Error)
	p.want(r.StartedBeyond < microsInMilli && r.FinishedBeyond < microsInMilli, "node %s has %d and %d microseconds in a millisecond", node, r.StartedBeyond, r.FinishedBeyond)
	p.want(r.Attributes.validate() == nil, "node %s has attributes %v", node, r.Attributes)
	p.want(r.Finished >= 0 && r.Finished <= d.position.Now && (r.FinishedMillis != 0 || r.Finished == 0),
		"node %s ended at %v, in Unix ms %d", node, r.Finished, r.FinishedMillis)
	checkDelivery(d, p, r)
	p.want(d.nodes.byStart.has(r.startKey()), "node %s is missing from the starts", node)
	for _, key := range r.attributeKeys() {
		p.want(d.nodes.byAttribute.has(key), "node %s is missing from the attribute %q", node, key)
	}
}

// checkDelivery verifies a record's callback, and that its answer is known
// when the introspection has ended (promise 5).
func checkDelivery(d *data, p *problems, r Record) {
	got, key := r.Delivered, r.deliveryKey()
	p.want(key != nil || got == Delivery{}, "node %s has a delivery of no document: %+v", r.Node, got)
	p.want(got.Answer.validate() == nil, "node %s has the answer %+v", r.Node, got.Answer)
	if key == nil {
		return
	}
	p.want(d.nodes.byDelivery.has(key), "node %s is missing from the deliveries", r.Node)
	p.want(!got.Request.IsZero() && got.Request <= d.granted(), "node %s was delivered to by no request: %v", r.Node, got.Request)
	p.want(!got.Answer.IsZero() || r.FinishedMillis == 0, "node %s is %v and its callback has no answer", r.Node, r.State)
}

func checkQueue(d *data, p *problems) {
	checkClaims(d, p)
	q := d.queue
	ready := 0
	for key, r := range q.requests.all() {
		p.want(string(key) == string(tokenKey(r.Sequence)), "request %v is filed under %x", r.Sequence, key)
		p.want(r.Sequence <= d.granted(), "request %v was queued by no entry", r.Sequence)
		p.want(d.nodes.records.has([]byte(r.Node)), "request %v is for %s, which has no record", r.Sequence, r.Node)
		p.want(q.byNode.has(nodeKey(r.Node, r.Sequence)), "request %v is missing from node %s", r.Sequence, r.Node)
		p.want(r.Attempts == len(r.Peers) && r.Attempts >= 0, "request %v was claimed %d times by %v", r.Sequence, r.Attempts, r.Peers)
		if r.Claim.IsZero() {
			p.want(r.Attempts < MaxAttempts, "request %v is free after %d attempts", r.Sequence, r.Attempts)
		} else {
			c, ok := q.claims.get(key)
			p.want(ok && c.Token == r.Claim, "request %v is held by claim %v, its claim is %v", r.Sequence, r.Claim, c.Token)
		}
		first := q.head(r.Node) == r.Sequence && !q.claimOf.has([]byte(r.Node))
		p.want(first == q.ready.has(key), "request %v: first of a free node %v, ready %v", r.Sequence, first, !first)
		if first {
			ready++
		}
	}
	p.want(q.requests.size() <= MaxQueue, "%d requests are queued", q.requests.size())
	p.want(q.byNode.size() == q.requests.size(), "%d requests, %d of nodes", q.requests.size(), q.byNode.size())
	p.want(q.ready.size() == ready, "%d requests are ready, %d in the index", ready, q.ready.size())
}

func checkClaims(d *data, p *problems) {
	q := d.queue
	for key, c := range q.claims.all() {
		p.want(string(key) == string(tokenKey(c.Request)) && c.Token <= d.granted(), "claim %v of request %v is filed under %x", c.Token, c.Request, key)
		of, _ := q.claimOf.get([]byte(c.Node))
		p.want(of == c.Request, "node %s is claimed for %v and %v", c.Node, c.Request, of)
		s, live := d.peers.sessions.get(tokenKey(c.Session))
		p.want(live && s.Peer == c.Peer, "claim %v of %s lives in session %v of %s", c.Token, c.Peer, c.Session, s.Peer)
		r, ok := q.requests.get(tokenKey(c.Request))
		p.want(ok && r.Claim == c.Token && r.Node == c.Node && slices.Contains(r.Peers, c.Peer), "claim %v holds request %v, which says %v", c.Token, c.Request, r.Claim)
		p.want(q.head(c.Node) == c.Request, "claim %v holds %v, not the first request of its node", c.Token, c.Request)
	}
	p.want(q.claimOf.size() == q.claims.size(), "%d claims, %d of nodes", q.claims.size(), q.claimOf.size())
}

// checkBlobs counts who refers to what.
func checkBlobs(d *data, p *problems) {
	refs := make(map[Hash]int)
	for _, r := range d.nodes.records.all() {
		refs[r.Unprocessed]++
		refs[r.Processed]++
	}
	for _, r := range d.queue.requests.all() {
		refs[r.Document]++
	}
	for _, r := range d.relays.bySequence.all() {
		refs[r.Document]++
	}
	delete(refs, Hash{})
	for key, b := range d.blobs.all() {
		p.want(string(key) == string(b.Hash[:]), "document %v is filed under %x", b.Hash, key)
		p.want(b.Refs == refs[b.Hash] && b.Refs > 0, "document %v counts %d references of %d", b.Hash, b.Refs, refs[b.Hash])
		delete(refs, b.Hash)
	}
	p.want(len(refs) == 0, "%d documents are referred to and not stored", len(refs))
}

// checkDocuments reads every document and compares it with its name.
func checkDocuments(d *data, p *problems) {
	packer, err := NewPacker(1)
	if err != nil {
		p.addf("%v", err)
		return
	}
	for _, b := range d.blobs.all() {
		if _, err := packer.Unpack(b); err != nil {
			p.addf("%v", err)
		}
	}
}

func checkLeases(d *data, p *problems) {
	p.want(d.leases.size() <= MaxLeases, "%d leases", d.leases.size())
	for key, l := range d.leases.all() {
		p.want(string(key) == l.Name && validLeaseName(l.Name) == nil, "lease %q is filed under %q", l.Name, key)
		p.want(!l.Token.IsZero() && l.Token <= d.granted(), "lease %s was granted by no entry: %v", l.Name, l.Token)
		if l.Holder == "" {
			p.want(l.Expires == 0 && l.TTL == 0 && l.Client == "", "free lease %s ends at %v", l.Name, l.Expires)
			continue
		}
		p.want(l.Granted <= d.position.Now && l.Expires <= d.position.Now.Add(l.TTL), "lease %s of %v, granted %v, ends at %v", l.Name, l.TTL, l.Granted, l.Expires)
	}
}
