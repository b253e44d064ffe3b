package cli

import (
	"testing"

	"github.com/trivet-ha/trivet/client/lease"
	"github.com/trivet-ha/trivet/lease/kubepolicy"
)

// What the printed policy compares is what the client writes.
func TestClientWritesThePolicysAnnotation(t *testing.T) {
	if lease.Annotation != kubepolicy.Annotation {
		t.Errorf("the client writes %s, the policy reads %s", lease.Annotation, kubepolicy.Annotation)
	}
}
