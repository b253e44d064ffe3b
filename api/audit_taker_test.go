package api

import (
	"context"
	"testing"

	"github.com/trivet-ha/trivet/inspector/accept"

	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
)

var _ accept.Taker = takes{}

// takes takes every callback.
type takes struct{ introspection.Queued }

func (t takes) Take(context.Context, inspector.Callback) (introspection.Queued, bool) {
	return t.Queued, true
}

func TestTheAuditNamesTheEntryOfATakenCallback(t *testing.T) {
	made := new(call)
	if _, ok := TracedTaker(takes{introspection.Queued{Request: 12}}).Take(context.WithValue(t.Context(), callKey{}, made),
		inspector.Callback{}); !ok || made.committed.Load() != 12 {
		t.Errorf("a callback that was taken at once: %d", made.committed.Load())
	}
}
