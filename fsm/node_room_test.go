package fsm

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/introspection"
)

// noise is a document that does not compress.
func noise(t testing.TB, seed, size int) blobs.Packed {
	t.Helper()
	random := rand.New(rand.NewPCG(uint64(seed), 1))
	text := make([]byte, size)
	for i := range text {
		text[i] = byte(random.Uint32())
	}
	return pack(t, string(text))
}

func calls(node string, document blobs.Packed) introspection.Enqueue {
	return introspection.Enqueue{Node: node, Event: introspection.EventProcess, Document: document}
}

// Who knows a MAC of one node has a share of the queue, and others have the rest.
func TestCallbacksOfANodeAreBounded(t *testing.T) {
	r := newRig(t)
	r.start(nodeA)
	for i := range introspection.MaxOfNode {
		r.must(calls(nodeA, pack(t, fmt.Sprint(i))))
	}
	more := calls(nodeA, pack(t, "one more"))
	if res := r.do(Header{}, more); res.Code != QueueFull {
		t.Errorf("queue-share: callback %d of a node: %v", introspection.MaxOfNode+1, res.Err())
	}
	if !r.queued(r.must(calls(nodeA, pack(t, "0")))).Joined {
		t.Error("queue-share: a repeat of the first does not join it")
	}
	s := r.session("a")
	r.refused(QueueFull, Header{Session: s}, introspection.TakeCallback{Node: nodeA, Document: more.Document})
	r.start(nodeB)
	r.must(calls(nodeB, more.Document))
	r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventDelete})
	c := r.claim(s) // of the start of node A
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventWait, Consume: true})
	r.must(introspection.Consume{Claim: r.claims(s, r.view().QueueOf(nodeA)[0].Sequence)[0].Claim.Hold()})
	r.must(more)
}

// The documents of one node's callbacks take no more than their share of memory.
func TestBytesOfCallbacksOfANodeAreBounded(t *testing.T) {
	r := newRig(t)
	r.start(nodeA)
	size := introspection.MaxBytesOfNode/4 - 4<<10
	for i := range 4 {
		r.must(calls(nodeA, noise(t, i, size)))
	}
	if res := r.do(Header{}, calls(nodeA, noise(t, 4, size))); res.Code != QueueFull {
		t.Errorf("queue-bytes: a fifth callback of 2 MiB: %v", res.Err())
	}
	r.must(calls(nodeA, pack(t, "small")))
}

// A second reapply would be dropped when the first has ended the node's state.
func TestSecondReapplyIsRefused(t *testing.T) {
	r := newRig(t)
	r.inspected(nodeA, "document")
	s := r.session("a")
	reapply := func(document string) introspection.Enqueue {
		return introspection.Enqueue{Node: nodeA, Event: introspection.EventReapply, Timeout: time.Minute,
			Document: pack(t, document)}
	}
	r.must(reapply("wrong"))
	if res := r.do(Header{}, reapply("right")); res.Code != Conflict {
		t.Errorf("second-reapply: %v", res.Err())
	}
	c := r.claim(s)
	r.refused(Conflict, Header{}, reapply("right"))
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventFinish, Consume: true})
	r.must(reapply("right"))
}

// Peers of v0.2.0 apply the entries of an older log, and know none of these refusals.
func TestOlderLogBoundsTheQueueAlone(t *testing.T) {
	r := newRigAt(t, 2)
	r.inspected(nodeB, "document")
	r.start(nodeA)
	for i := range introspection.MaxOfNode + 1 {
		r.must(calls(nodeA, pack(t, fmt.Sprint(i))))
	}
	for _, document := range []string{"one", "another"} {
		res := r.do(Header{}, introspection.Enqueue{Node: nodeB, Event: introspection.EventReapply, Timeout: time.Minute,
			Document: pack(t, document)})
		if res.Code != OK {
			t.Errorf("as-v0.2.0: reapply: %v", res.Err())
		}
	}
}
