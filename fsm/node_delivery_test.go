package fsm

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
)

const macA = "52:54:00:00:00:01"

// called brings a node to where a callback of it is claimed.
func (r *rig) called(session fencing.Token, node, document string) introspection.ClaimedRequest {
	r.t.Helper()
	r.waiting(session, node, macA)
	r.must(introspection.Enqueue{Node: node, Event: introspection.EventProcess, Document: pack(r.t, document)})
	return r.claim(session)
}

// processing brings it to where the callback is processed.
func (r *rig) processing(session fencing.Token, node, document string) introspection.ClaimedRequest {
	r.t.Helper()
	c := r.called(session, node, document)
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventProcess,
		Unprocessed: c.Request.Document})
	return c
}

// Whatever ends an introspection answers the callback that nobody answered.
func TestEveryEndAnswersTheCallback(t *testing.T) {
	cases := map[string]struct {
		end  func(r *rig, c introspection.ClaimedRequest)
		want introspection.Answer // its message is the beginning
	}{
		"finished": {func(r *rig, c introspection.ClaimedRequest) {
			r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventFinish, Consume: true})
		}, introspection.Answer{Status: 200}},
		"failed": {func(r *rig, c introspection.ClaimedRequest) {
			r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventError, Error: "no disk",
				Consume: true})
		}, introspection.Answer{Status: 400, Message: "no disk"}},
		"failed with an answer": {func(r *rig, c introspection.ClaimedRequest) {
			r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventError, Error: "no disk",
				Answer: introspection.Answer{Status: 500, Message: "Unexpected exception"}})
		}, introspection.Answer{Status: 500, Message: "Unexpected exception"}},
		"timed out": {func(r *rig, c introspection.ClaimedRequest) {
			r.must(introspection.Consume{Claim: c.Claim.Hold()})
			r.pass(15 * time.Minute)
			r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventTimeout})
			r.must(introspection.Advance{Claim: r.claim(r.session("a")).Claim.Hold(), Event: introspection.EventTimeout,
				Consume: true})
		}, introspection.Answer{Status: 400, Message: "Introspection timeout"}},
		"déjà vu": {func(r *rig, c introspection.ClaimedRequest) {
			r.must(introspection.Advance{Claim: r.claim(r.session("a")).Claim.Hold(), Event: introspection.EventProcess,
				Consume: true})
		}, introspection.Answer{Status: 400, Message: "request 'process' was met again"}},
		"given up": {func(r *rig, c introspection.ClaimedRequest) {
			for range introspection.MaxAttempts - 1 {
				r.claim(r.session("a"))
			}
			r.session("a")
		}, introspection.Answer{Status: 400, Message: "request 'process' was given up"}},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			c := r.processing(r.session("a"), nodeA, "doc")
			if got := r.record(
				nodeA).Delivered; got != (introspection.Delivery{Document: c.Request.Document, Request: c.Request.Sequence}) {
				t.Errorf("delivered while it is processed: %+v", got)
			}
			test.end(r, c)
			rec := r.record(nodeA)
			got := rec.Delivered
			if got.Request != c.Request.Sequence || got.Answer.Status != test.want.Status ||
				!strings.HasPrefix(got.Answer.Message, test.want.Message) ||
				got.Answer.Status == 400 && got.Answer.Message != rec.Error {
				t.Errorf("delivered %+v, want %+v; record %+v", got, test.want, rec)
			}
		})
	}
}

func TestAnswerThatMayHaveBeenToldStays(t *testing.T) {
	r := newRig(t)
	c := r.processing(r.session("a"), nodeA, "doc")
	done := pack(t, "done")
	r.must(introspection.Mark{Claim: c.Claim.Hold(), Hook: "power off", Answer: introspection.Answer{Status: 200},
		Processed: done})
	r.must(introspection.Mark{Claim: c.Claim.Hold(),
		Answer: introspection.Answer{Status: 500, Message: "second thoughts"}})
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventError, Error: "no power",
		Answer: introspection.Answer{Status: 400, Message: "no power"}, Consume: true})
	rec := r.record(nodeA)
	if rec.State != introspection.NodeError || rec.Error != "no power" || rec.Processed != done.Hash ||
		rec.Delivered.Answer != (introspection.Answer{Status: 200}) {
		t.Errorf("record %+v", rec)
	}
	if q, _ := r.view().QueuedRequest(c.Request.Sequence); q.Hook != "" {
		t.Errorf("the request is still there: %+v", q)
	}
	// A reapply of it that fails is no news for the callback either.
	r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventReapply, Timeout: time.Minute})
	c = r.claim(r.session("a"))
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventError, Error: "again"})
	if got := r.record(nodeA).Delivered.Answer; got != (introspection.Answer{Status: 200}) {
		t.Errorf("answer %+v", got)
	}
}

// A callback whose pre-processing failed ends a waiting node. Its repeat gets
// the same answer.
func TestCallbackRefusedBeforeItsProcessingIsDelivered(t *testing.T) {
	r := newRig(t)
	c := r.called(r.session("a"), nodeA, "doc")
	want := introspection.Delivery{Document: c.Request.Document, Request: c.Request.Sequence,
		Answer: introspection.Answer{Status: 400, Message: "The following failures happened"}}
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventError, Error: "no interfaces",
		Answer: want.Answer, Unprocessed: c.Request.Document, Consume: true})
	if rec := r.record(nodeA); rec.State != introspection.NodeError || rec.Error != "no interfaces" ||
		rec.Delivered != want {
		t.Errorf("record %+v", rec)
	}
	if q := r.queued(r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventProcess,
		Document: pack(t, "doc")})); !q.Joined || q.Request != want.Request {
		t.Errorf("a repeat got %+v", q)
	}
}

// Promise 5, when the attributes that led to the node are gone.
func TestRepeatIsFoundByItsDocument(t *testing.T) {
	r := newRig(t)
	s := r.session("a")
	doc := blobs.HashOf([]byte("doc"))
	r.processing(s, nodeA, "doc")
	r.processing(s, nodeB, "doc") // a ramdisk that knows nothing of its machine
	if got := r.view().NodesByDelivery(doc); !slices.Equal(got, []string{nodeA, nodeB}) {
		t.Errorf("while processed: %v", got)
	}
	for _, c := range r.view().Claims() {
		r.must(introspection.Advance{Claim: c.Hold(), Event: introspection.EventFinish, Consume: true})
	}
	if got := r.view().NodesByMAC(macA); got != nil {
		t.Errorf("by MAC: %v", got)
	}
	if got := r.view().NodesByDelivery(doc); !slices.Equal(got, []string{nodeA, nodeB}) {
		t.Errorf("when finished: %v", got)
	}
	r.must(introspection.DeleteNode{Node: nodeB})
	r.start(nodeA)
	if got := r.view().NodesByDelivery(doc); got != nil {
		t.Errorf("when gone: %v", got)
	}
	if got := r.view().NodesByDelivery(blobs.Hash{}); got != nil {
		t.Errorf("of no document: %v", got)
	}
}

func TestOnlyTheCallbackInHandIsAnswered(t *testing.T) {
	r := newRig(t)
	s := r.session("a")
	yes := introspection.Answer{Status: 200}
	r.start(nodeA)
	c := r.claim(s)
	r.refused(Refused, Header{}, introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventWait, Answer: yes})
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventWait, Consume: true})
	r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventProcess, Document: pack(t, "doc")})
	c = r.claim(s)
	r.refused(Refused, Header{}, introspection.Mark{Claim: c.Claim.Hold(), Answer: yes}) // its processing has not begun
	r.refused(ClaimLost, Header{},
		introspection.Mark{Claim: introspection.Hold{Request: c.Claim.Request, Token: c.Claim.Token + 1}, Answer: yes})
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventProcess})
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventFinish})
	// it is over
	r.refused(IllegalTransition, Header{}, introspection.Mark{Claim: c.Claim.Hold(), Processed: pack(t, "late")})
}

func TestMarkOfAnEarlierIntrospectionSavesNothing(t *testing.T) {
	r := newRig(t)
	s := r.session("a")
	c := r.called(s, nodeA, "doc")
	r.start(nodeA) // while the callback's worker is still at it
	r.refused(IllegalTransition, Header{}, introspection.Mark{Claim: c.Claim.Hold(), Unprocessed: c.Request.Document})
	r.must(introspection.Mark{Claim: c.Claim.Hold(), Hook: "scheduler"}) // a note is about the request
}

func TestAdvanceNotesWhatComesNext(t *testing.T) {
	r := newRig(t)
	c := r.called(r.session("a"), nodeA, "doc")
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventProcess, Hook: "ramdisk_error"})
	if q, _ := r.view().QueuedRequest(c.Request.Sequence); q.Hook != "ramdisk_error" {
		t.Errorf("request %+v", q)
	}
	again := r.claim(r.session("a"))
	r.must(introspection.Advance{Claim: again.Claim.Hold(), Event: introspection.EventProcess, Hook: "never reached"})
	if rec := r.record(nodeA); !strings.Contains(rec.Error, "last at hook ramdisk_error") {
		t.Errorf("error %q", rec.Error)
	}
}

func TestEndedRecordsAreListedInTheOrderOfTheirEnds(t *testing.T) {
	r := newRig(t)
	s := r.session("a")
	end := func(node string, state introspection.Event) {
		r.pass(time.Second)
		c := r.processing(s, node, "doc")
		r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: state, Error: "x", Consume: true})
	}
	ended := func(t Time) (nodes []string) {
		for rec := range r.view().EndedBefore(t) {
			nodes = append(nodes, rec.Node)
		}
		return nodes
	}
	end(nodeB, introspection.EventFinish)
	end(nodeA, introspection.EventError)
	r.start(nodeN(1)) // never among them
	if rec := r.record(nodeB); rec.Finished != Time(time.Second) {
		t.Errorf("ended at %v", rec.Finished)
	}
	if got := ended(r.now + 1); !slices.Equal(got, []string{nodeB, nodeA}) {
		t.Errorf("all: %v", got)
	}
	if got := ended(r.now); !slices.Equal(got, []string{nodeB}) {
		t.Errorf("before the last: %v", got)
	}
	for rec := range r.view().EndedBefore(r.now + 1) {
		if rec.Node != nodeB {
			t.Errorf("went on to %s", rec.Node)
		}
		break
	}
	// What reapplies is in use. It keeps its time until it ends again.
	r.must(introspection.Enqueue{Node: nodeB, Event: introspection.EventReapply, Timeout: time.Minute})
	if got := ended(r.now + 1); !slices.Equal(got, []string{nodeA}) || r.record(nodeB).Finished != Time(time.Second) {
		t.Errorf("while one reapplies: %v, %+v", got, r.record(nodeB))
	}
	r.pass(time.Second)
	r.must(introspection.Advance{Claim: r.claims(s, r.view().QueueOf(nodeB)[0].Sequence)[0].Claim.Hold(),
		Event: introspection.EventFinish, Consume: true})
	if got := ended(r.now + 1); !slices.Equal(got, []string{nodeA, nodeB}) {
		t.Errorf("after it was reapplied: %v", got)
	}
}

// The specification's table has rows for what is met again in the queue after
// its introspection ended.
func TestEndedIntrospectionIsMetAgain(t *testing.T) {
	r := newRig(t)
	s := r.session("a")
	r.start(nodeA)
	c := r.claim(s)
	r.pass(time.Second)
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventError, Error: "no power"})
	r.pass(time.Second)
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventStart})
	if rec := r.record(nodeA); rec.State != introspection.NodeStarting || rec.Started != r.now ||
		rec.Deadline != r.now.Add(15*time.Minute) ||
		rec.Finished != 0 || rec.FinishedMillis != 0 || rec.Error != "" {
		t.Errorf("started again: %+v", rec)
	}
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventWait, Consume: true})
	r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventAbort})
	c = r.claim(s)
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventAbort})
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventAbortEnd})
	old := r.record(nodeA)
	r.pass(time.Second)
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventAbort, Consume: true})
	if rec := r.record(nodeA); rec.State != introspection.NodeError || rec.Error != old.Error ||
		rec.Finished != old.Finished || rec.FinishedMillis != old.FinishedMillis {
		t.Errorf("aborted twice: %+v, before %+v", rec, old)
	}
}
