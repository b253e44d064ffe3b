package api

import (
	"context"
	"testing"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/inspector"
)

var _ inspector.Taker = takes{}

// takes takes every callback.
type takes struct{ fsm.Queued }

func (t takes) Take(context.Context, inspector.Callback) (fsm.Queued, bool) { return t.Queued, true }

func TestTheAuditNamesTheEntryOfATakenCallback(t *testing.T) {
	made := new(call)
	if _, ok := TracedTaker(takes{fsm.Queued{Request: 12}}).Take(context.WithValue(t.Context(), callKey{}, made), inspector.Callback{}); !ok || made.committed.Load() != 12 {
		t.Errorf("a callback that was taken at once: %d", made.committed.Load())
	}
}
