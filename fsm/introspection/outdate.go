package introspection

import "github.com/trivet-ha/trivet/fsm/blobs"

// Outdate ends, in a history that goes on after it stood still, what is over by the wall clock: an
// introspection past its time-out ends with all that is queued for its node, and without a power
// command, since the machine may have another user by now. What Ironic inspects is recorded when it
// is asked again.
func (t Txn) Outdate(wallMillis int64) {
	forgetInspected(t)
	for _, r := range t.nodes.records.All() {
		if r.StartedMillis+r.Deadline.Sub(r.Started).Milliseconds() < wallMillis {
			outdate(t, r, wallMillis)
		}
	}
}

// outdate ends the introspection of a node, if it is under way, and its requests. The data of a
// callback that waited for a worker is kept for a reapply.
func outdate(t Txn, r Record, wallMillis int64) {
	queued := t.QueueOf(r.Node)
	if r.State.Active() {
		for _, q := range queued {
			if r.Unprocessed.IsZero() {
				r.Unprocessed = q.Document
			}
		}
		state, why := r.outdated()
		r = t.move(r, EventTimeout, state, why)
		r.FinishedMillis = wallMillis
		t.putRecord(r, blobs.Packed{})
	}
	for _, q := range queued {
		t.dequeue(q)
	}
}

// outdated is how an introspection ends when its time is over by the wall clock. One whose callback
// was answered with success lacked its power-off alone, and one that was aborted as well.
func (r Record) outdated() (end NodeState, why string) {
	switch {
	case r.State == NodeProcessing && r.Delivered.Answer.Status == statusOK:
		return NodeFinished, ""
	case r.State == NodeAborting:
		return NodeError, textCanceled
	}
	return NodeError, textTimeout
}
