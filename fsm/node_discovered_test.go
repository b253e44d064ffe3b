package fsm

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/introspection"
)

// discovered is how discovery records a machine that calls from a source.
func discovered(node, source string) introspection.Start {
	return introspection.Start{Node: node, Event: introspection.EventEnroll, Timeout: time.Hour, Source: source}
}

// enrolls takes a discovered machine to the end of its introspection, with a document.
func (r *rig) enrolls(node, source string, document blobs.Packed) {
	r.t.Helper()
	s := r.view().Sessions()[0].ID
	r.apply(r.t, Header{}, discovered(node, source))
	r.apply(r.t, Header{Session: s}, introspection.TakeCallback{Node: node, Document: document, Keep: true})
	c, _ := r.view().ClaimOf(node)
	r.apply(r.t, Header{}, introspection.Advance{Claim: c.Hold(), Event: introspection.EventFinish, Consume: true,
		Answer: introspection.Answer{Status: 200}})
}

// Who invents machines fills half of the memory, and then no more than the share of their
// source. What an operator has acted on counts no more.
func TestDocumentsOfDiscoveryAreBounded(t *testing.T) {
	r := newRig(t)
	s := r.session("a")
	document := noise(t, 1, blobs.MaxBlob-8<<10) // each machine's counts, though it is stored once
	perSource := introspection.MaxDiscoveredOfSource / blobs.MaxBlob
	n := 0
	for i := range 8 {
		source := "192.0.2.0/32"
		if i >= 4 {
			source = fmt.Sprintf("192.0.2.%d/32", i)
		}
		for range perSource {
			r.enrolls(nodeN(n), source, document)
			n++
		}
		if i != 3 {
			continue
		}
		r.must(discovered(nodeA, "192.0.2.0/32")) // small ones have room yet
		call := introspection.TakeCallback{Node: nodeA, Document: document}
		if res := r.do(Header{Session: s}, call); res.Code != QueueFull {
			t.Errorf("discovered-by-source: half of all and one more: %v", res.Err())
		}
		r.must(calls(nodeA, pack(t, "small")))
	}
	r.must(discovered(nodeB, "192.0.2.99/32"))
	last := calls(nodeB, noise(t, 2, blobs.MaxBlob-1<<10))
	if res := r.do(Header{}, last); res.Code != QueueFull {
		t.Errorf("discovered-in-all: %d MiB and one more: %v", introspection.MaxDiscovered>>20, res.Err())
	}
	back, err := Read(bytes.NewReader(snapshot(t, r.view())))
	if err != nil || back.View().Check() != nil {
		t.Fatalf("discovered-after-restart: %v, %v", err, back.View().Check())
	}
	r.state = back
	r.must(introspection.Enqueue{Node: nodeN(0), Event: introspection.EventReapply, Timeout: time.Minute})
	r.must(introspection.DeleteNode{Node: nodeN(1)})
	r.must(last)
}

// Documents that are queued are bounded in all, and those of machines that are being
// discovered leave room for the machines of nodes.
func TestBytesOfTheQueueAreBounded(t *testing.T) {
	r := newRig(t)
	document := noise(t, 1, blobs.MaxBlob-1<<10)
	half := introspection.MaxBytesOfQueue / blobs.MaxBlob / 2
	for i := range half {
		r.apply(t, Header{}, discovered(nodeN(i), introspection.SourceUnknown))
		r.apply(t, Header{}, calls(nodeN(i), document))
	}
	r.must(discovered(nodeA, "192.0.2.1/32"))
	if res := r.do(Header{}, calls(nodeA, document)); res.Code != QueueFull {
		t.Errorf("queue-half: of a discovered machine: %v", res.Err())
	}
	for i := range half {
		r.apply(t, Header{}, introspection.Start{Node: nodeN(half + i), Event: introspection.EventStart, Timeout: time.Hour})
		r.apply(t, Header{}, calls(nodeN(half+i), document))
	}
	r.start(nodeB)
	if res := r.do(Header{}, calls(nodeB, document)); res.Code != QueueFull {
		t.Errorf("queue-memory: of a node: %v", res.Err())
	}
}
