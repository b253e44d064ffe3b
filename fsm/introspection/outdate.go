package introspection

import (
	"slices"
	"time"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/table"
)

// Outdate ends, in a history that goes on after it stood still, what is over by the wall clock: an
// introspection past its time-out ends with all that is queued for its node, and without a power
// command, since the machine may have another user by now. What Ironic inspects is recorded when it
// is asked again.
func (t Txn) Outdate(wallMillis int64) {
	forgetInspected(t)
	for _, r := range t.nodes.records.All() {
		if r.overdue(wallMillis) {
			outdate(t, r, wallMillis)
		}
	}
}

func (r Record) overdue(wallMillis int64) bool {
	return r.StartedMillis+r.Deadline.Sub(r.Started).Milliseconds() < wallMillis
}

const (
	// logVersionStandstill is the log version that brought EndOverdue: peers of an older one,
	// which apply the same entries, end nothing.
	logVersionStandstill = 3
	// standstill is how far an introspection is past its time by the wall clock when cluster time
	// must have stood still. What is over within it is left to cluster time, as at each change of leader.
	standstill = time.Minute
)

// EndOverdue is for a new leadership. Cluster time stands still while the cluster has no leader, as
// after a weekend off, and machines must not be started, nor let in, for what was asked for before
// it. An introspection that waits for its machine ends as Outdate ends it; one whose machine has
// called goes on. What is over by cluster time, too, ends as ever.
func EndOverdue(t Txn) {
	if t.Version < logVersionStandstill {
		return
	}
	for _, r := range t.nodes.records.All() {
		stood := r.Deadline.After(t.Now()) && r.overdue(t.Wall()-standstill.Milliseconds())
		if !stood || !r.boots() || r.State == NodeProcessing || slices.ContainsFunc(t.QueueOf(r.Node), isCallback) {
			continue
		}
		if request, claimed := t.queue.claimOf.Get([]byte(r.Node)); claimed {
			c, _ := t.queue.claims.Get(table.TokenKey(request))
			t.giveBack(c)
		}
		outdate(t, r, t.Wall())
	}
}

func isCallback(r QueuedRequest) bool { return r.Event == EventProcess }

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
		old := r
		state, why := r.outdated()
		r = t.move(r, EventTimeout, state, why)
		r.FinishedMillis = wallMillis
		t.putRecord(r, blobs.Packed{})
		t.recordStep(old, r, EventTimeout, "")
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
