package work

import (
	"context"
	"net/http"
	"strings"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
)

// reapplyHead is the contract's first line of what hooks object to.
const reapplyHead = "Pre-processing failures detected reapplying introspection on stored data:\n"

// reapply processes a document again, in the order of docs/contract.md#starting. The
// node's power is left alone. Each of its steps may be done twice, so a request that
// is met again begins from the start.
func (j *job) reapply(ctx context.Context, v fsm.View, rec introspection.Record) error {
	if rec.State != introspection.NodeReapplying {
		j.log.Warn("reapply dropped: its node is not reapplying any more; repeat it", "state", rec.State)
		return j.out.consume()
	}
	if why := j.lostEverywhere(v); why != "" {
		return j.out.fail(http.StatusInternalServerError, why)
	}
	data, err := j.reapplied(v, rec)
	if err != nil {
		return err
	}
	if failures, err := j.hooks.before(ctx, data); err != nil {
		return err
	} else if len(failures) > 0 {
		return j.out.fail(http.StatusBadRequest, reapplyHead+strings.Join(failures, "\n"))
	}
	t := j.own(newTask(data))
	if err := j.node.fit(ctx, t); err != nil {
		return j.early(ctx, err)
	}
	defer j.pool.o.Notes.Forget(j.request.Sequence)
	if err := j.hooks.apply(ctx, t); err != nil {
		return j.failed(ctx, err)
	}
	return j.out.advance(introspection.Advance{Event: introspection.EventFinish, Processed: j.out.processed,
		Consume: true})
}

// reapplied returns the document to process: the one that came with the request,
// which takes the place of the stored one first, or else that.
func (j *job) reapplied(v fsm.View, rec introspection.Record) (*document.Document, error) {
	switch {
	case j.request.Document.IsZero():
		return j.document(v, rec.Unprocessed)
	case !j.by.Config.StoreData, rec.Unprocessed == j.request.Document: // by who met the request before
		return j.document(v, j.request.Document)
	}
	again := introspection.Advance{Claim: j.claim.Hold(), Event: introspection.EventReapply,
		Unprocessed: j.request.Document}
	data, err := j.document(v, j.request.Document)
	if err != nil {
		return nil, err
	}
	if !rec.Processed.IsZero() {
		// The changes that turn the new document into the processed one that is stored: until this
		// request succeeds that one is still what GET data shows.
		old, err := inspector.Processed(j.pool.o.Packer, v, rec)
		if err != nil {
			return nil, err
		}
		changes, err := old.Instead(data)
		if err != nil {
			return nil, err
		}
		if again.Processed, err = j.pool.o.Packer.Pack(changes); err != nil {
			return nil, err
		}
	}
	_, err = j.out.commit(again)
	return data, err
}
