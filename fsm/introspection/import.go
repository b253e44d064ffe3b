package introspection

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// microsInMilli is how many microseconds a millisecond has.
const microsInMilli = 1000

// maxImportedMicros is the end of the year 9999, the last that the API can write.
const maxImportedMicros = 253_402_300_799_999_999

// ImportRecord takes over an introspection that ended elsewhere, with the times
// it had there. It never replaces anything: a node that has a record of another
// introspection is a Conflict. The same record again changes nothing, or brings
// a document that the first left out, for two may not fit into one entry. The
// record's retention begins with the import. Its Value is an Imported.
type ImportRecord struct {
	Node       string    `cbor:"1,keyasint"`
	State      NodeState `cbor:"2,keyasint"` // NodeFinished or NodeError
	ManageBoot bool      `cbor:"3,keyasint,omitempty"`
	Error      string    `cbor:"4,keyasint,omitempty"` // why, in NodeError
	// Wall clocks, Unix microseconds. StartedMicros 0 is not known.
	StartedMicros  int64 `cbor:"5,keyasint,omitempty"`
	FinishedMicros int64 `cbor:"6,keyasint"`
	// The documents are those of Record; without an Unprocessed one, Processed is
	// the changes to an empty document.
	Unprocessed blobs.Packed `cbor:"7,keyasint,omitzero"`
	Processed   blobs.Packed `cbor:"8,keyasint,omitzero"`
}

// Imported tells what ImportRecord did.
type Imported struct {
	Created   bool `cbor:"1,keyasint,omitempty"` // the record is new
	Documents int  `cbor:"2,keyasint,omitempty"` // stored with this entry
}

// Validate implements Command.
func (c ImportRecord) Validate() error {
	switch {
	case c.State != NodeFinished && c.State != NodeError:
		return fmt.Errorf("an introspection that is %v has not ended", c.State)
	case (c.State == NodeError) != (c.Error != ""):
		return fmt.Errorf("an introspection is %v with the error %q", c.State, c.Error)
	case !utf8.ValidString(c.Error):
		return errors.New("the error is not UTF-8")
	case c.StartedMicros < 0 || c.StartedMicros > maxImportedMicros:
		return fmt.Errorf("the start is out of range: %d Unix microseconds", c.StartedMicros)
	case c.FinishedMicros < microsInMilli || c.FinishedMicros > maxImportedMicros:
		return fmt.Errorf("the end is out of range: %d Unix microseconds", c.FinishedMicros)
	}
	return errors.Join(valid.Node(c.Node), valid.Length("error", c.Error, 0, MaxErrorText), c.Unprocessed.Validate(),
		c.Processed.Validate())
}

// Apply implements entry.Change.
func (c ImportRecord) Apply(t Txn) entry.Result {
	rec, did, refused := t.imports(c)
	if refused.Code != entry.OK {
		return refused
	}
	if did.Created {
		rec = c.record()
		rec.Started, rec.Finished, rec.Begun = t.Now(), t.Now(), t.Token
		t.putRecord(rec, blobs.Packed{})
		t.recordNode(eventring.ActionImported, rec)
	}
	if rec.Unprocessed.IsZero() && !c.Unprocessed.IsZero() {
		rec.Unprocessed = c.Unprocessed.Hash
		t.putRecord(rec, c.Unprocessed)
	}
	if rec.Processed.IsZero() && !c.Processed.IsZero() {
		rec.Processed = c.Processed.Hash
		t.putRecord(rec, c.Processed)
	}
	return entry.Answer(did)
}

// imports finds the record of the command's node and says what the command would
// do to it.
func (s *Tables) imports(c ImportRecord) (rec Record, did Imported, refused entry.Result) {
	rec, known := s.nodes.records.Get([]byte(c.Node))
	switch {
	case known && !c.tells(rec):
		return rec, did, entry.Refuse(entry.Conflict, "node %s has a record of another introspection here, which is %v",
			c.Node, rec.State)
	case !known && s.nodes.records.Size() >= MaxNodes:
		return rec, did, entry.Refuse(entry.TableFull, "%d nodes are recorded, which is the most", MaxNodes)
	}
	did.Created = !known
	for _, pair := range [...][2]blobs.Hash{{rec.Unprocessed, c.Unprocessed.Hash}, {rec.Processed, c.Processed.Hash}} {
		if pair[0].IsZero() && !pair[1].IsZero() {
			did.Documents++
		}
	}
	return rec, did, entry.Done()
}

// Imports tells what an ImportRecord would do if it were applied now, or the
// *Error that it would be refused with.
func (s *Tables) Imports(c ImportRecord) (Imported, error) {
	_, did, refused := s.imports(c)
	return did, refused.Err()
}

// record is what the command says of a record.
func (c ImportRecord) record() Record {
	return Record{
		Node: c.Node, State: c.State, ManageBoot: c.ManageBoot, Error: c.Error,
		Times: Times{
			StartedMillis: c.StartedMicros / microsInMilli, StartedBeyond: uint16(c.StartedMicros % microsInMilli),
			FinishedMillis: c.FinishedMicros / microsInMilli, FinishedBeyond: uint16(c.FinishedMicros % microsInMilli),
		},
	}
}

// tells reports whether a record is of the same introspection, and has no other
// documents than the command's.
func (c ImportRecord) tells(old Record) bool {
	same := c.record()
	return old.State == same.State && old.ManageBoot == same.ManageBoot && old.Error == same.Error &&
		old.StartedMillis == same.StartedMillis && old.StartedBeyond == same.StartedBeyond &&
		old.FinishedMillis == same.FinishedMillis && old.FinishedBeyond == same.FinishedBeyond &&
		compatible(old.Unprocessed, c.Unprocessed.Hash) && compatible(old.Processed, c.Processed.Hash)
}

// compatible reports whether one document is missing or both are the same.
func compatible(a, b blobs.Hash) bool { return a.IsZero() || b.IsZero() || a == b }
