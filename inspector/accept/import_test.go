package accept_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/accept"
	"github.com/trivet-ha/trivet/inspector/work"
	"github.com/trivet-ha/trivet/test/inspecttest"
)

// elsewhere is what an original left of node A.
func elsewhere() accept.Foreign {
	start := time.Date(2026, 11, 20, 20, 35, 26, 405_493_000, time.UTC)
	return accept.Foreign{
		Node: inspecttest.NodeA, State: introspection.NodeFinished, Started: start, Finished: start.Add(time.Minute),
		ManageBoot:  true,
		Unprocessed: []byte(`{"inventory": {"a": 1.50}, "macs": ["x"], "spare": "<&>"}`),
		Processed:   []byte(`{"inventory": {"a":1.50}, "macs": ["x", "y"], "local_gb": 10}`),
	}
}

func TestImportedDataIsShownAsItWas(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Service()
		would, err := s.ImportRecord(o.Ctx, elsewhere(), true)
		if err != nil || !would.Created || would.Documents != 2 || would.Expires != o.Conf.ReportExpiry {
			t.Errorf("a check: %+v, %v", would, err)
		}
		if _, there := o.RaftLog.Truth().Record(inspecttest.NodeA); there {
			t.Fatal("a check wrote")
		}
		if did, err := s.ImportRecord(o.Ctx, elsewhere(), false); err != nil || !did.Created || did.Documents != 2 {
			t.Errorf("the import: %+v, %v", did, err)
		}
		o.Shows(s, `{"inventory":{"a":1.50},"macs":["x"],"spare":"<&>"}`,
			`{"inventory":{"a":1.50},"macs":["x","y"],"local_gb":10}`)
		written := len(o.RaftLog.Written)
		if did, err := s.ImportRecord(o.Ctx, elsewhere(), false); err != nil || did.Created || did.Documents != 0 ||
			did.Kept != "" {
			t.Errorf("again: %+v, %v", did, err)
		}
		if len(o.RaftLog.Written) != written {
			t.Error("the second import was written")
		}
	})
}

// Processed data without what it was made of is shown, and is no hindrance to
// working on new data.
func TestImportedDataMayBeHalf(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Service()
		o.Conf.StoreData = true
		f := elsewhere()
		f.Unprocessed = nil
		if did, err := s.ImportRecord(o.Ctx, f, false); err != nil || did.Documents != 1 {
			t.Fatalf("%+v, %v", did, err)
		}
		if data, err := s.Data(o.Ctx, inspecttest.NodeA, true, inspector.Linearizable); err != nil ||
			string(data) != `{"inventory":{"a":1.50},"macs":["x","y"],"local_gb":10}` {
			t.Errorf("%s, %v", data, err)
		}
		_, err := s.Data(o.Ctx, inspecttest.NodeA, false, inspector.Linearizable)
		inspecttest.RefusedWith(t, "unprocessed", err, 404,
			"Introspection data not found for node "+inspecttest.NodeA+", processed=False")
		o.Work(func(*work.Pool) {
			o.Reapplies(s, `{"y":1}`, introspection.NodeFinished)
			o.Shows(s, `{"y":1}`, `{"y":1}`)
		})
	})
}

// Two documents that do not fit into one entry come in two.
func TestGreatDocumentsAreImportedInTwo(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Service()
		f := elsewhere()
		f.Unprocessed = []byte(`{"a":"` + noise(1_500_000, 1) + `"}`)
		f.Processed = []byte(`{"a":"` + noise(1_500_000, 2) + `"}`)
		if did, err := s.ImportRecord(o.Ctx, f, false); err != nil || did.Documents != 2 {
			t.Fatalf("%+v, %v", did, err)
		}
		o.Shows(s, string(f.Unprocessed), string(f.Processed))
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
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Service()
		for name, change := range map[string]func(*accept.Foreign){
			"no UUID":   func(f *accept.Foreign) { f.Node = "x" },
			"not ended": func(f *accept.Foreign) { f.State = introspection.NodeWaiting },
			"no end":    func(f *accept.Foreign) { f.Finished = time.Time{} },
			"no object": func(f *accept.Foreign) { f.Unprocessed = []byte(`[]`) },
			"no JSON":   func(f *accept.Foreign) { f.Processed = []byte(`{"a": NaN}`) },
			"long error": func(f *accept.Foreign) {
				f.State, f.Error = introspection.NodeError, strings.Repeat("x", 20<<10)
			},
			"does not shrink":  func(f *accept.Foreign) { f.Unprocessed = []byte(`{"a":"` + noise(4<<20, 3) + `"}`) },
			"error of success": func(f *accept.Foreign) { f.Error = "x" },
		} {
			f := elsewhere()
			change(&f)
			var refused *inspector.Refusal
			if _, err := s.ImportRecord(o.Ctx, f, false); !errors.As(err, &refused) || refused.Status/100 != 4 {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, there := o.RaftLog.Truth().Record(inspecttest.NodeA); there {
			t.Error("something was imported")
		}
	})
}

// A node that is introspected here keeps its record.
func TestImportKeepsWhatIsNewer(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Service()
		o.Accept(inspecttest.NodeA, inspecttest.MacA)
		for _, check := range []bool{true, false} {
			if did, err := s.ImportRecord(o.Ctx, elsewhere(), check); err != nil || did.Kept == "" || did.Created {
				t.Errorf("check %v: %+v, %v", check, did, err)
			}
		}
	})
}

func TestImportOfRules(t *testing.T) {
	const id, body = "a0000000-0000-4000-8000-000000000001", `{"actions":[]}`
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Service()
		for i, want := range []bool{true, true, false} { // a check, the import, a second one
			did, err := s.ImportRule(o.Ctx, id, []byte(body), i == 0)
			if err != nil || did.Created != want {
				t.Errorf("%d: %+v, %v", i, did, err)
			}
		}
		_, err := s.ImportRule(o.Ctx, id, []byte(`{}`), true)
		inspecttest.RefusedWith(t, "another one", err, 400, "another rule has this UUID here")
		if n := o.RaftLog.Truth().RuleCount(); n != 1 {
			t.Errorf("%d rules", n)
		}
	})
}
