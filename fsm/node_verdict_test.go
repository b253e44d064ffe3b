package fsm

import (
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/fsm/expectations"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// TestOlderMembersKnowNoExpectations: below log version 3 what expects and judges is
// refused with a sentence.
func TestOlderMembersKnowNoExpectations(t *testing.T) {
	r := newRig(t)
	r.must(membership.PutMember{Member: member("b")})
	r.older("b", 2)
	for _, c := range []Command{expectations.Put{}, expectations.Delete{}, expectations.Judge{}, expectations.Forget{}} {
		if err := r.view().Admits(c); err == nil || !strings.Contains(err.Error(), "needs log version 3") {
			t.Errorf("%T: %v", c, err)
		}
	}
}

// TestVerdictKeepsItsDocuments: a judgement that rests on another verdict, or on other
// expectations, changes nothing; a verdict's documents outlive the record and go with
// the verdict.
func TestVerdictKeepsItsDocuments(t *testing.T) {
	r := newRig(t)
	r.must(Lead{Peer: "a", Boot: "b"})
	first, second := r.inspected(nodeA, "first"), r.inspected(nodeA, "second")
	judge := func(j expectations.Judgement) {
		j.Node = nodeA
		r.asLeader(expectations.Judge{Judgements: []expectations.Judgement{j}})
	}
	judge(expectations.Judgement{Document: first})
	judge(expectations.Judgement{Document: second, Before: first, Earlier: first})
	judge(expectations.Judgement{Document: first, Before: first})
	r.must(expectations.Put{Name: "compute", Body: []byte("{}")})
	r.refused(Conflict, Header{Token: r.view().Leadership().Token},
		expectations.Judge{Judgements: []expectations.Judgement{{Node: nodeA, Document: first, Before: second}}})
	r.must(introspection.DeleteNode{Node: nodeA})
	if v, _ := r.view().Verdict(nodeA); v.Document != second || v.Earlier != first {
		t.Errorf("%+v", v)
	}
	if all := r.view().Sent(nodeA); len(all) != 2 || all[0].Document != second || all[1].Document != first {
		t.Errorf("%+v", all)
	}
	r.asLeader(expectations.Forget{Nodes: []string{nodeA}})
	if _, stored := r.view().Blob(second); stored {
		t.Error("the document of a verdict that is forgotten is still stored")
	}
}
