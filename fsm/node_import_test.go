package fsm

import (
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/introspection"
)

func imported() introspection.ImportRecord {
	return introspection.ImportRecord{
		Node: nodeA, State: introspection.NodeError, ManageBoot: true, Error: "Introspection timeout",
		StartedMicros: 1_600_000_000_123_456, FinishedMicros: 1_600_000_001_000_007,
	}
}

func didImport(t *testing.T, res Result) introspection.Imported {
	t.Helper()
	var did introspection.Imported
	if err := res.Decode(&did); err != nil {
		t.Fatal(err)
	}
	return did
}

func TestImportKeepsTimesAndChangesNothingTwice(t *testing.T) {
	r := newRig(t)
	r.pass(time.Hour)
	c := imported()
	c.Unprocessed, c.Processed = pack(t, "raw"), pack(t, "changes")
	if would, err := r.view().Imports(c); err != nil || would != (introspection.Imported{Created: true, Documents: 2}) {
		t.Errorf("it would do %+v, %v", would, err)
	}
	if did := didImport(t, r.must(c)); did != (introspection.Imported{Created: true, Documents: 2}) {
		t.Errorf("the first import did %+v", did)
	}
	rec, _ := r.view().Record(nodeA)
	if rec.StartedMillis != 1_600_000_000_123 || rec.StartedBeyond != 456 || rec.FinishedMillis != 1_600_000_001_000 ||
		rec.FinishedBeyond != 7 {
		t.Errorf("times: %+v", rec)
	}
	if rec.Finished != r.view().Now() || rec.Error != c.Error || !rec.ManageBoot || rec.State != introspection.NodeError {
		t.Errorf("record: %+v", rec)
	}
	if did := didImport(t, r.must(c)); did != (introspection.Imported{}) {
		t.Errorf("the second import did %+v", did)
	}
	if again, _ := r.view().Record(nodeA); again.Begun != rec.Begun || again.Finished != rec.Finished {
		t.Errorf("the second import made %+v", again)
	}
}

// Documents that do not fit into one entry come in two, also after a crash
// between them.
func TestImportBringsWhatIsMissing(t *testing.T) {
	r := newRig(t)
	first, second := imported(), imported()
	first.Unprocessed, second.Processed = pack(t, "raw"), pack(t, "changes")
	r.must(first)
	if did := didImport(t, r.must(second)); did != (introspection.Imported{Documents: 1}) {
		t.Errorf("the second document: %+v", did)
	}
	rec, _ := r.view().Record(nodeA)
	if rec.Unprocessed != first.Unprocessed.Hash || rec.Processed != second.Processed.Hash {
		t.Errorf("documents: %+v", rec)
	}
	other := imported()
	other.Unprocessed = pack(t, "other")
	r.refused(Conflict, Header{}, other)
}

func TestImportReplacesNothing(t *testing.T) {
	r := newRig(t)
	s := r.session("a")
	r.waiting(s, nodeA, macA)
	r.refused(Conflict, Header{}, imported())
	if _, err := r.view().Imports(imported()); err == nil {
		t.Error("a node under introspection would be overwritten")
	}
	other := imported()
	other.Node = nodeB
	r.must(other)
	other.FinishedMicros++
	r.refused(Conflict, Header{}, other)
}

// An introspection that follows has its own times, without what is left of the
// imported ones.
func TestImportedTimesEndWithTheNextIntrospection(t *testing.T) {
	r := newRig(t)
	c := imported()
	c.Unprocessed = pack(t, "raw")
	r.must(c)
	r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventReapply, Timeout: time.Hour})
	rec, _ := r.view().Record(nodeA)
	if rec.StartedBeyond != 0 || rec.FinishedBeyond != 7 {
		t.Errorf("reapplying: %+v", rec)
	}
	s := r.session("a")
	claim := r.claim(s)
	r.must(introspection.Advance{Claim: claim.Claim.Hold(), Event: introspection.EventFinish, Consume: true})
	if rec, _ := r.view().Record(nodeA); rec.FinishedBeyond != 0 || rec.State != introspection.NodeFinished {
		t.Errorf("reapplied: %+v", rec)
	}
	if KindOf(introspection.ImportRecord{}).Since() != 2 {
		t.Error("a cluster of log version 1 would stop")
	}
}
