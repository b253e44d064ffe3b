package fsm

import (
	"testing"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// inspected takes a node through an introspection in which its ramdisk sends a
// document, and returns the document's hash.
func (r *rig) inspected(node, document string) blobs.Hash {
	r.t.Helper()
	s := r.session("a")
	c := r.processing(s, node, document)
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventFinish, Consume: true})
	return c.Request.Document
}

// TestDocumentOfTheIntrospectionBeforeIsKept inspects a node again and again, once
// in vain: what its ramdisk sent the time before stays, and nothing older does.
func TestDocumentOfTheIntrospectionBeforeIsKept(t *testing.T) {
	r := newRig(t)
	want := func(when string, newest, earlier blobs.Hash, stored ...blobs.Hash) {
		t.Helper()
		if rec := r.record(nodeA); rec.Unprocessed != newest || rec.Earlier != earlier {
			t.Errorf("%s: newest %v and earlier %v, want %v and %v", when, rec.Unprocessed, rec.Earlier, newest, earlier)
		}
		n := 0
		for _, hash := range stored {
			if _, ok := r.view().Blob(hash); ok {
				n++
			}
		}
		if n != len(stored) {
			t.Errorf("%s: %d of %d documents are stored", when, n, len(stored))
		}
	}
	gone := func(when string, hashes ...blobs.Hash) {
		t.Helper()
		for _, hash := range hashes {
			if _, ok := r.view().Blob(hash); ok {
				t.Errorf("%s: document %v is still stored", when, hash)
			}
		}
	}
	none := blobs.Hash{}
	first := r.inspected(nodeA, "first")
	want("one introspection", first, none, first)
	second := r.inspected(nodeA, "second")
	want("two", second, first, second, first)
	third := r.inspected(nodeA, "third")
	want("three", third, second, third, second)
	gone("three", first)

	s := r.session("a")
	r.waiting(s, nodeA, macA)
	want("a fourth that waits", none, third, third)
	gone("a fourth that waits", second)
	r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventAbort})
	c := r.claim(s)
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventAbortEnd, Consume: true})
	fifth := r.inspected(nodeA, "fifth")
	want("a fifth, after one in vain", fifth, third, fifth, third)
	if same := r.inspected(nodeA, "fifth"); same != fifth {
		t.Fatal("one document has two hashes")
	}
	want("the same once more", fifth, fifth, fifth)

	r.must(introspection.DeleteNode{Node: nodeA})
	gone("a node that was deleted", first, second, third, fifth)
}

// TestOlderPeersKeepNoEarlierDocument: they apply the same entries.
func TestOlderPeersKeepNoEarlierDocument(t *testing.T) {
	r := newRig(t)
	first := r.inspected(nodeA, "first")
	r.must(membership.PutMember{Member: member("b")})
	r.older("b", 2)
	second := r.inspected(nodeA, "second")
	if rec := r.record(nodeA); rec.Unprocessed != second || !rec.Earlier.IsZero() {
		t.Errorf("newest %v, earlier %v, want %v and none", rec.Unprocessed, rec.Earlier, second)
	}
	if _, ok := r.view().Blob(first); ok {
		t.Error("the document of an introspection before is stored")
	}
}
