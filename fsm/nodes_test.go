package fsm

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/membership"
)

const (
	nodeA = "11111111-1111-4111-8111-111111111111"
	nodeB = "22222222-2222-4222-8222-222222222222"
)

func nodeN(n int) string { return fmt.Sprintf("33333333-3333-4333-8333-%012d", n) }

// start begins an introspection and returns its request.
func (r *rig) start(node string, attrs ...string) fencing.Token {
	r.t.Helper()
	res := r.must(introspection.Start{Node: node, Event: introspection.EventStart, ManageBoot: true,
		Timeout: 15 * time.Minute, Attributes: introspection.Attributes{MACs: attrs}})
	return r.queued(res).Request
}

func (r *rig) queued(res Result) introspection.Queued {
	r.t.Helper()
	var q introspection.Queued
	if err := res.Decode(&q); err != nil {
		r.t.Fatal(err)
	}
	return q
}

// claim claims the next request for a session.
func (r *rig) claim(session fencing.Token) introspection.ClaimedRequest {
	r.t.Helper()
	for next := range r.view().Ready() {
		return r.claims(session, next.Sequence)[0]
	}
	r.t.Fatal("nothing can be claimed")
	return introspection.ClaimedRequest{}
}

// claims claims named requests.
func (r *rig) claims(session fencing.Token, requests ...fencing.Token) []introspection.ClaimedRequest {
	r.t.Helper()
	var got introspection.Claimed
	if err := r.mustAs(
		Header{Session: session}, introspection.ClaimRequests{Requests: requests}).Decode(&got); err != nil {
		r.t.Fatal(err)
	}
	return got.Claims
}

func pack(t testing.TB, document string) blobs.Packed {
	t.Helper()
	p, err := blobs.Pack([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (r *rig) record(node string) introspection.Record {
	r.t.Helper()
	rec, ok := r.view().Record(node)
	if !ok {
		r.t.Fatalf("node %s has no record", node)
	}
	return rec
}

// waiting brings a node to where it expects its ramdisk.
func (r *rig) waiting(session fencing.Token, node string, macs ...string) {
	r.t.Helper()
	r.start(node, macs...)
	c := r.claim(session)
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventWait, Consume: true})
}

func TestIntrospectionFromStartToFinish(t *testing.T) {
	r := newRig(t)
	s := r.session("a")
	request := r.start(nodeA, "52:54:00:00:00:01")
	if rec := r.record(nodeA); rec.State != introspection.NodeStarting || rec.Deadline != Time(15*time.Minute) ||
		!rec.ManageBoot || rec.StartedMillis != r.wall {
		t.Errorf("started: %+v", rec)
	}
	c := r.claim(s)
	if c.Request.Sequence != request || c.Request.Event != introspection.EventStart || c.Claim.Node != nodeA ||
		c.Claim.Peer != "a" || c.Request.Attempts != 1 {
		t.Errorf("claimed %+v", c)
	}
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventStart})
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventWait, Consume: true,
		Attributes: &introspection.Attributes{MACs: []string{"52:54:00:00:00:01"}, BMC: []string{"192.0.2.9"}}})
	if got := r.view().NodesByBMC("192.0.2.9"); !slices.Equal(got, []string{nodeA}) {
		t.Errorf("by BMC: %v", got)
	}
	raw := pack(t, "raw")
	r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventProcess, Document: raw})
	c = r.claim(s)
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventProcess, Unprocessed: raw.Hash})
	r.must(introspection.Mark{Claim: c.Claim.Hold(), Hook: "scheduler"})
	r.pass(time.Minute)
	r.must(membership.RenewSession{Session: r.session("b")})
	// The minute took the session of a away, and the claim with it.
	r.refused(ClaimLost, Header{}, introspection.Consume{Claim: c.Claim.Hold()})
	if got := r.view().Claimable(); got != 1 {
		t.Errorf("%d requests can be claimed again", got)
	}
}

func TestFinishIsOneStep(t *testing.T) {
	r := newRig(t)
	s := r.session("a")
	r.waiting(s, nodeA, "52:54:00:00:00:01")
	raw, done := pack(t, "raw"), pack(t, "done")
	r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventProcess, Document: raw})
	c := r.claim(s)
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventProcess, Unprocessed: raw.Hash})
	r.pass(time.Second)
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventFinish, Processed: done, Consume: true})
	rec := r.record(nodeA)
	if rec.State != introspection.NodeFinished || rec.FinishedMillis != r.wall || rec.Error != "" ||
		rec.Unprocessed != raw.Hash || rec.Processed != done.Hash {
		t.Errorf("finished: %+v", rec)
	}
	if got := r.view().NodesByMAC("52:54:00:00:00:01"); got != nil {
		t.Errorf("a finished node is found by its MAC: %v", got)
	}
	if r.view().QueueLength() != 0 || len(r.view().Claims()) != 0 {
		t.Error("the request outlives its end")
	}
	if b, ok := r.view().Blob(raw.Hash); !ok || b.Refs != 1 {
		t.Errorf("document %+v, %v", b, ok)
	}
	// A new introspection drops all earlier data of the node but what to compare with.
	r.start(nodeA)
	if _, ok := r.view().Blob(done.Hash); ok {
		t.Error("the document outlives its record")
	}
	if rec := r.record(nodeA); rec.FinishedMillis != 0 || !rec.Processed.IsZero() || !rec.Unprocessed.IsZero() ||
		rec.Earlier != raw.Hash {
		t.Errorf("started anew: %+v", rec)
	}
}

func TestNewRequestsFollowTheContract(t *testing.T) {
	r := newRig(t)
	s := r.session("a")
	r.start(nodeA)
	res := r.refused(IllegalTransition, Header{},
		introspection.Start{Node: nodeA, Event: introspection.EventStart, Timeout: time.Minute})
	if res.Message != "Can not transition from state 'starting' on event 'start' (no defined transition)" {
		t.Errorf("message %q", res.Message)
	}
	r.refused(Conflict, Header{}, introspection.Enqueue{Node: nodeA, Event: introspection.EventAbort})
	r.refused(NotFound, Header{}, introspection.Enqueue{Node: nodeB, Event: introspection.EventAbort})
	c := r.claim(s)
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventError, Error: "no power", Consume: true})
	if q := r.queued(r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventAbort})); q.Request != 0 {
		t.Errorf("aborting a failed node queued %+v", q)
	}
	if rec := r.record(nodeA); rec.State != introspection.NodeError || rec.Error != "no power" {
		t.Errorf("record %+v", rec)
	}
	r.refused(IllegalTransition, Header{},
		introspection.Enqueue{Node: nodeA, Event: introspection.EventProcess, Document: pack(t, "late")})
}

func TestAbortWhileClaimedIsAConflict(t *testing.T) {
	r := newRig(t)
	s := r.session("a")
	r.waiting(s, nodeA)
	r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventProcess, Document: pack(t, "doc")})
	c := r.claim(s) // claimed, and still waiting
	r.refused(Conflict, Header{}, introspection.Enqueue{Node: nodeA, Event: introspection.EventAbort})
	// nobody asked for it
	r.refused(Refused, Header{}, introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventAbort})
	r.must(introspection.Release{Claim: c.Claim.Hold()})
	r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventAbort})
	if rec := r.record(nodeA); rec.State != introspection.NodeAborting {
		t.Errorf("accepted abort: %v", rec.State)
	}
	// The callback, first in the queue, is jammed; the abort goes on.
	c = r.claim(s)
	r.refused(IllegalTransition, Header{}, introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventProcess})
	r.must(introspection.Consume{Claim: c.Claim.Hold()})
	c = r.claim(s)
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventAbort})
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventAbortEnd, Consume: true})
	if rec := r.record(nodeA); rec.State != introspection.NodeError || rec.Error != "Canceled by operator" {
		t.Errorf("aborted: %+v", rec)
	}
}

func TestCallbackMetAgainAfterItWasSavedIsDejaVu(t *testing.T) {
	r := newRig(t)
	r.waiting(r.session("a"), nodeA)
	r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventProcess, Document: pack(t, "doc")})
	c := r.claim(r.session("a"))
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventProcess})
	r.must(introspection.Mark{Claim: c.Claim.Hold(), Hook: "pci_devices"})
	again := r.claim(r.session("a")) // the old session ended
	var moved introspection.Advanced
	if err := r.must(introspection.Advance{Claim: again.Claim.Hold(), Event: introspection.EventProcess}).Decode(
		&moved); err != nil {
		t.Fatal(err)
	}
	if rec := r.record(nodeA); moved.To != introspection.NodeError || rec.State != introspection.NodeError ||
		!strings.Contains(rec.Error, "déjà vu") || !strings.Contains(rec.Error, "pci_devices") {
		t.Errorf("moved %+v, record %+v", moved, rec)
	}
}

func TestCallbackClaimedAndNotSavedIsSimplyDone(t *testing.T) {
	r := newRig(t)
	r.waiting(r.session("a"), nodeA)
	r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventProcess, Document: pack(t, "doc")})
	r.claim(r.session("a"))
	c := r.claim(r.session("a"))
	if c.Request.Attempts != 2 {
		t.Errorf("%d attempts", c.Request.Attempts)
	}
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventProcess})
	if rec := r.record(nodeA); rec.State != introspection.NodeProcessing {
		t.Errorf("state %v", rec.State)
	}
}

func TestInspectMetInStartingIsResumed(t *testing.T) {
	r := newRig(t)
	r.start(nodeA)
	c := r.claim(r.session("a"))
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventStart})
	c = r.claim(r.session("a"))
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventStart})
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventWait})
	// Not consumed: met again in waiting it is jammed, so that a node that
	// boots is not reset.
	c = r.claim(r.session("a"))
	r.refused(IllegalTransition, Header{}, introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventStart})
}

func TestRepeatedCallbackJoinsTheFirst(t *testing.T) {
	r := newRig(t)
	s := r.session("a")
	r.waiting(s, nodeA)
	doc := pack(t, "doc")
	callback := introspection.Enqueue{Node: nodeA, Event: introspection.EventProcess, Document: doc}
	first := r.queued(r.must(callback))
	if q := r.queued(r.must(callback)); !q.Joined || q.Request != first.Request {
		t.Errorf("while queued: %+v, first %+v", q, first)
	}
	c := r.claim(s)
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventProcess, Unprocessed: doc.Hash})
	if q := r.queued(r.must(callback)); !q.Joined || q.Request != first.Request {
		t.Errorf("while processed: %+v", q)
	}
	other := r.queued(r.must(
		introspection.Enqueue{Node: nodeA, Event: introspection.EventProcess, Document: pack(t, "other")}))
	if other.Joined {
		t.Errorf("a different callback joined: %+v", other)
	}
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventFinish, Consume: true})
	if q := r.queued(r.must(callback)); !q.Joined || q.Request != first.Request {
		t.Errorf("when finished: %+v", q)
	}
	c = r.claim(s)
	r.refused(IllegalTransition, Header{}, introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventProcess})
}

func TestOneClaimANodeInTheOrderOfTheQueue(t *testing.T) {
	r := newRig(t)
	a, b := r.session("a"), r.session("b")
	r.waiting(a, nodeA)
	first := r.queued(r.must(
		introspection.Enqueue{Node: nodeA, Event: introspection.EventProcess, Document: pack(t, "1")})).Request
	second := r.queued(r.must(
		introspection.Enqueue{Node: nodeA, Event: introspection.EventProcess, Document: pack(t, "2")})).Request
	other := r.start(nodeB)
	if got := r.view().Claimable(); got != 2 {
		t.Errorf("%d nodes can be claimed", got)
	}
	c1, c2 := r.claim(a), r.claim(b)
	if c1.Request.Sequence != first || c2.Request.Sequence != other {
		t.Errorf("claimed %v and %v, want %v and %v", c1.Request.Sequence, c2.Request.Sequence, first, other)
	}
	r.refused(NotFound, Header{Session: a}, introspection.ClaimRequests{Requests: []fencing.Token{second}})
	r.refused(SessionEnded, Header{}, introspection.ClaimRequests{Requests: []fencing.Token{second}})
	r.refused(ClaimLost, Header{Session: b}, introspection.Consume{Claim: c1.Claim.Hold()}) // another peer's
	r.must(introspection.Consume{Claim: c1.Claim.Hold()})
	if c := r.claim(b); c.Request.Sequence != second {
		t.Errorf("then %v, want %v", c.Request.Sequence, second)
	}
	if c, ok := r.view().ClaimOf(nodeB); !ok || c != c2.Claim {
		t.Errorf("claim of %s: %+v", nodeB, c)
	}
}

func TestThirdLostClaimEndsTheNodeInError(t *testing.T) {
	r := newRig(t)
	r.start(nodeA)
	for i := range introspection.MaxAttempts {
		c := r.claim(r.session("a"))
		r.must(introspection.Mark{Claim: c.Claim.Hold(), Hook: "hook" + string(rune('0'+i))})
	}
	r.session("a")
	rec := r.record(nodeA)
	if rec.State != introspection.NodeError || rec.FinishedMillis == 0 || r.view().QueueLength() != 0 {
		t.Fatalf("after the third lost claim: %+v, %d queued", rec, r.view().QueueLength())
	}
	for _, part := range []string{"start", "hook2", "host-a, host-a, host-a", "3 attempts"} {
		if !strings.Contains(rec.Error, part) {
			t.Errorf("error %q does not name %q", rec.Error, part)
		}
	}
}

// What a peer's next process says of its last is believed of requests that the
// last had, and of no others.
func TestObituaryNamesWhatTheProcessLeft(t *testing.T) {
	r := newRig(t)
	begin := func(node, mac, peer string) introspection.ClaimedRequest {
		s := r.session(peer)
		r.waiting(s, node, mac)
		raw := pack(t, "raw of "+node)
		r.must(introspection.Enqueue{Node: node, Event: introspection.EventProcess, Document: raw})
		c := r.claim(s)
		r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventProcess, Unprocessed: raw.Hash,
			Hook: "scheduler or later"})
		return c
	}
	a, b := begin(nodeA, "52:54:00:00:00:01", "a"), begin(nodeB, "52:54:00:00:00:02", "b")
	left := []introspection.Unfinished{{Request: a.Request.Sequence, Hook: "lldp_basic"},
		{Request: b.Request.Sequence, Hook: "of another"}, {Request: a.Request.Sequence + 1000, Hook: "of nothing"}}
	r.must(membership.OpenSession{Peer: "a", Boot: "next", Version: Version, Unfinished: left})
	if got, _ := r.view().QueuedRequest(b.Request.Sequence); got.Hook != "scheduler or later" {
		t.Errorf("of a request of another peer it says %q", got.Hook)
	}
	r.claim(r.view().Sessions()[len(r.view().Sessions())-1].ID)
	if got, _ := r.view().QueuedRequest(a.Request.Sequence); got.Hook != "lldp_basic" {
		t.Errorf("the request was last at %q", got.Hook)
	}
}

func TestReleaseDoesNotCountAsAnAttempt(t *testing.T) {
	r := newRig(t)
	s := r.session("a")
	r.start(nodeA)
	for range 2 * introspection.MaxAttempts {
		r.must(introspection.Release{Claim: r.claim(s).Claim.Hold()})
	}
	if c := r.claim(s); c.Request.Attempts != 1 || len(c.Request.Peers) != 1 {
		t.Errorf("claimed %+v", c.Request)
	}
}

func TestTimeoutGoesThroughTheQueue(t *testing.T) {
	r := newRig(t)
	r.waiting(r.session("a"), nodeA)
	r.refused(Refused, Header{}, introspection.Enqueue{Node: nodeA, Event: introspection.EventTimeout})
	if n := len(slices.Collect(r.view().OverdueAt(r.view().Now()))); n != 0 {
		t.Errorf("%d overdue", n)
	}
	r.pass(15 * time.Minute)
	r.must(Probe{})
	if got := slices.Collect(r.view().OverdueAt(r.view().Now())); len(got) != 1 || got[0].Node != nodeA {
		t.Errorf("overdue %+v", got)
	}
	first := r.queued(r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventTimeout}))
	if q := r.queued(r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventTimeout})); !q.Joined ||
		q.Request != first.Request {
		t.Errorf("asked twice: %+v", q)
	}
	c := r.claim(r.session("a"))
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventTimeout, Consume: true})
	if rec := r.record(nodeA); rec.State != introspection.NodeError || rec.Error != "Introspection timeout" {
		t.Errorf("timed out: %+v", rec)
	}
}

func TestRequestsOfAnEarlierIntrospectionMoveNothing(t *testing.T) {
	r := newRig(t)
	s := r.session("a")
	r.start(nodeA)
	c := r.claim(s)
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventWait})
	r.start(nodeA) // while the worker of the first is still at it
	r.refused(IllegalTransition, Header{},
		introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventError, Error: "mine failed"})
	r.refused(IllegalTransition, Header{}, introspection.DeleteNode{Node: nodeA, Claim: c.Claim.Hold()})
	r.must(introspection.Consume{Claim: c.Claim.Hold()})
	if c := r.claim(s); c.Request.Event != introspection.EventStart {
		t.Errorf("then %+v", c.Request)
	}
	if rec := r.record(nodeA); rec.State != introspection.NodeStarting {
		t.Errorf("record %+v", rec)
	}
}

func TestReapplyKeepsFinishedUntilItEnds(t *testing.T) {
	r := newRig(t)
	s := r.session("a")
	r.waiting(s, nodeA)
	doc := pack(t, "doc")
	r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventProcess, Document: doc})
	c := r.claim(s)
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventProcess, Unprocessed: doc.Hash})
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventFinish, Consume: true})
	old := r.record(nodeA)
	r.pass(time.Second)
	r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventReapply, Timeout: time.Minute})
	rec := r.record(nodeA)
	if rec.State != introspection.NodeReapplying || rec.FinishedMillis != old.FinishedMillis ||
		rec.StartedMillis != r.wall || rec.Deadline != r.now.Add(time.Minute) {
		t.Errorf("reapplying: %+v", rec)
	}
	c = r.claim(s)
	r.refused(Conflict, Header{},
		introspection.Enqueue{Node: nodeA, Event: introspection.EventReapply, Timeout: time.Minute})
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventReapply})
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventFinish, Consume: true})
	if rec := r.record(nodeA); rec.State != introspection.NodeFinished || rec.FinishedMillis != r.wall {
		t.Errorf("finished: %+v", rec)
	}
	if r.queued(r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventReapply,
		Timeout: time.Minute})).Request.IsZero() {
		t.Error("a second reapply was ignored")
	}
}

func TestDeletedNodeTakesItsRequestsAndDocumentsAlong(t *testing.T) {
	r := newRig(t)
	s := r.session("a")
	r.waiting(s, nodeA, "52:54:00:00:00:01")
	r.refused(Conflict, Header{}, introspection.DeleteNode{Node: nodeA}) // active
	r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventDelete})
	doc := pack(t, "doc")
	r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventProcess, Document: doc})
	c := r.claim(s)
	r.refused(ClaimLost, Header{}, introspection.DeleteNode{Node: nodeB, Claim: c.Claim.Hold()})
	r.must(introspection.DeleteNode{Node: nodeA, Claim: c.Claim.Hold()})
	v := r.view()
	if v.Nodes() != 0 || v.QueueLength() != 0 || len(v.Claims()) != 0 || v.NodesByMAC("52:54:00:00:00:01") != nil {
		t.Error("something of the node is left")
	}
	if _, ok := v.Blob(doc.Hash); ok {
		t.Error("its document is left")
	}
	r.refused(ClaimLost, Header{}, introspection.Consume{Claim: c.Claim.Hold()})
	r.refused(NotFound, Header{}, introspection.DeleteNode{Node: nodeA})
	r.refused(NotFound, Header{}, introspection.Enqueue{Node: nodeA, Event: introspection.EventDelete})
}

func TestListsAreNewestFirstAndPaged(t *testing.T) {
	r := newRig(t)
	for i := range 10 {
		r.wall += int64(i % 3) // some start in the same millisecond
		r.start(nodeN(i))
	}
	all := slices.Collect(r.view().Records())
	want := slices.Clone(all)
	slices.SortFunc(want, func(a, b introspection.Record) int {
		return strings.Compare(fmt.Sprintf("%020d%s", b.StartedMillis, b.Node),
			fmt.Sprintf("%020d%s", a.StartedMillis, a.Node))
	})
	if len(all) != 10 || !slices.EqualFunc(all, want, func(a, b introspection.Record) bool { return a.Node == b.Node }) {
		t.Errorf("list: %v", all)
	}
	for i, marker := range all {
		rest := slices.Collect(r.view().RecordsAfter(marker))
		if len(rest) != len(all)-i-1 || len(rest) > 0 && rest[0].Node != all[i+1].Node {
			t.Errorf("after %d come %d", i, len(rest))
		}
	}
}
