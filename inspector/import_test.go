package inspector

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/introspection"
)

// elsewhere is what an original left of node A.
func elsewhere() Foreign {
	start := time.Date(2026, 11, 20, 20, 35, 26, 405_493_000, time.UTC)
	return Foreign{
		Node: nodeA, State: introspection.NodeFinished, Started: start, Finished: start.Add(time.Minute), ManageBoot: true,
		Unprocessed: []byte(`{"inventory": {"a": 1.50}, "macs": ["x"], "spare": "<&>"}`),
		Processed:   []byte(`{"inventory": {"a":1.50}, "macs": ["x", "y"], "local_gb": 10}`),
	}
}

func TestImportedDataIsShownAsItWas(t *testing.T) {
	inRig(t, func(o *rig) {
		s := o.service()
		would, err := s.ImportRecord(o.ctx, elsewhere(), true)
		if err != nil || !would.Created || would.Documents != 2 || would.Expires != o.conf.ReportExpiry {
			t.Errorf("a check: %+v, %v", would, err)
		}
		if _, there := o.raftLog.truth().Record(nodeA); there {
			t.Fatal("a check wrote")
		}
		if did, err := s.ImportRecord(o.ctx, elsewhere(), false); err != nil || !did.Created || did.Documents != 2 {
			t.Errorf("the import: %+v, %v", did, err)
		}
		o.shows(s, `{"inventory":{"a":1.50},"macs":["x"],"spare":"<&>"}`, `{"inventory":{"a":1.50},"macs":["x","y"],"local_gb":10}`)
		written := len(o.raftLog.written)
		if did, err := s.ImportRecord(o.ctx, elsewhere(), false); err != nil || did.Created || did.Documents != 0 || did.Kept != "" {
			t.Errorf("again: %+v, %v", did, err)
		}
		if len(o.raftLog.written) != written {
			t.Error("the second import was written")
		}
	})
}

// Processed data without what it was made of is shown, and is no hindrance to
// working on new data.
func TestImportedDataMayBeHalf(t *testing.T) {
	inRig(t, func(o *rig) {
		s := o.service()
		o.conf.StoreData = true
		f := elsewhere()
		f.Unprocessed = nil
		if did, err := s.ImportRecord(o.ctx, f, false); err != nil || did.Documents != 1 {
			t.Fatalf("%+v, %v", did, err)
		}
		if data, err := s.Data(o.ctx, nodeA, true, Linearizable); err != nil || string(data) != `{"inventory":{"a":1.50},"macs":["x","y"],"local_gb":10}` {
			t.Errorf("%s, %v", data, err)
		}
		_, err := s.Data(o.ctx, nodeA, false, Linearizable)
		refusedWith(t, "unprocessed", err, 404, "Introspection data not found for node "+nodeA+", processed=False")
		o.work(func(*WorkerPool) {
			o.reapplies(s, `{"y":1}`, introspection.NodeFinished)
			o.shows(s, `{"y":1}`, `{"y":1}`)
		})
	})
}

// Two documents that do not fit into one entry come in two.
func TestGreatDocumentsAreImportedInTwo(t *testing.T) {
	inRig(t, func(o *rig) {
		s := o.service()
		f := elsewhere()
		f.Unprocessed = []byte(`{"a":"` + noise(1_500_000, 1) + `"}`)
		f.Processed = []byte(`{"a":"` + noise(1_500_000, 2) + `"}`)
		if did, err := s.ImportRecord(o.ctx, f, false); err != nil || did.Documents != 2 {
			t.Fatalf("%+v, %v", did, err)
		}
		o.shows(s, string(f.Unprocessed), string(f.Processed))
	})
}

// noise is text that shrinks little.
func noise(n int, seed uint64) string {
	const letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
	out := make([]byte, n)
	for i := range out {
		seed = seed*6364136223846793005 + 1442695040888963407
		out[i] = letters[seed>>58]
	}
	return string(out)
}

func TestWhatCannotBeImported(t *testing.T) {
	inRig(t, func(o *rig) {
		s := o.service()
		for name, change := range map[string]func(*Foreign){
			"no UUID":          func(f *Foreign) { f.Node = "x" },
			"not ended":        func(f *Foreign) { f.State = introspection.NodeWaiting },
			"no end":           func(f *Foreign) { f.Finished = time.Time{} },
			"no object":        func(f *Foreign) { f.Unprocessed = []byte(`[]`) },
			"no JSON":          func(f *Foreign) { f.Processed = []byte(`{"a": NaN}`) },
			"long error":       func(f *Foreign) { f.State, f.Error = introspection.NodeError, strings.Repeat("x", 20<<10) },
			"does not shrink":  func(f *Foreign) { f.Unprocessed = []byte(`{"a":"` + noise(4<<20, 3) + `"}`) },
			"error of success": func(f *Foreign) { f.Error = "x" },
		} {
			f := elsewhere()
			change(&f)
			var refused *Refusal
			if _, err := s.ImportRecord(o.ctx, f, false); !errors.As(err, &refused) || refused.Status/100 != 4 {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, there := o.raftLog.truth().Record(nodeA); there {
			t.Error("something was imported")
		}
	})
}

// A node that is introspected here keeps its record.
func TestImportKeepsWhatIsNewer(t *testing.T) {
	inRig(t, func(o *rig) {
		s := o.service()
		o.accept(nodeA, macA)
		for _, check := range []bool{true, false} {
			if did, err := s.ImportRecord(o.ctx, elsewhere(), check); err != nil || did.Kept == "" || did.Created {
				t.Errorf("check %v: %+v, %v", check, did, err)
			}
		}
	})
}

func TestImportOfRules(t *testing.T) {
	const id, body = "a0000000-0000-4000-8000-000000000001", `{"actions":[]}`
	inRig(t, func(o *rig) {
		s := o.service()
		for i, want := range []bool{true, true, false} { // a check, the import, a second one
			did, err := s.ImportRule(o.ctx, id, []byte(body), i == 0)
			if err != nil || did.Created != want {
				t.Errorf("%d: %+v, %v", i, did, err)
			}
		}
		_, err := s.ImportRule(o.ctx, id, []byte(`{}`), true)
		refusedWith(t, "another one", err, 400, "another rule has this UUID here")
		if n := o.raftLog.truth().RuleCount(); n != 1 {
			t.Errorf("%d rules", n)
		}
	})
}
