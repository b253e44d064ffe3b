package api

import (
	"context"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/inspector"
)

// tracedTaker is a Taker that notes what was committed for a call.
type tracedTaker struct{ inspector.Taker }

// TracedTaker is Traced for callbacks that are begun where they came in.
func TracedTaker(t inspector.Taker) inspector.Taker { return tracedTaker{t} }

// Take implements inspector.Taker.
func (t tracedTaker) Take(ctx context.Context, c inspector.Callback) (fsm.Queued, bool) {
	queued, ok := t.Taker.Take(ctx, c)
	if ok {
		note(ctx, queued.Request)
	}
	return queued, ok
}
