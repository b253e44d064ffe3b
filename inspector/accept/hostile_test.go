package accept_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/work"
	"github.com/trivet-ha/trivet/test/inspecttest"
)

// Hostile documents are refused with a reason, in bounded memory, and change
// nothing, whether they come from a ramdisk or from an operator.
func TestHostileDocuments(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Awaits(inspecttest.NodeA, inspecttest.MacA)
		s := o.Service()
		before, _ := o.RaftLog.Truth().Record(inspecttest.NodeA)
		index := o.RaftLog.Truth().Index()
		for name, body := range inspecttest.Hostile() {
			var from, to runtime.MemStats
			runtime.ReadMemStats(&from)
			_, err := s.Continue(o.Ctx, []byte(body))
			runtime.ReadMemStats(&to)
			said, ok := err.(*inspector.Refusal)
			if !ok || said.Status != 400 || !strings.HasPrefix(said.Message, "Invalid data: ") || len(said.Message) > 500 {
				t.Errorf("%s: %.600v", name, err)
			}
			// A few times what came: 16 of the largest are taken in at once.
			if took := to.TotalAlloc - from.TotalAlloc; took > 5*8<<20 {
				t.Errorf("%s: %d MiB were taken", name, took>>20)
			}
			if err := s.Reapply(o.Ctx, inspecttest.NodeA, []byte(body)); err == nil || len(err.Error()) > 500 {
				t.Errorf("%s, reapplied: %v", name, err)
			}
		}
		if after, _ := o.RaftLog.Truth().Record(inspecttest.NodeA); fmt.Sprint(after) != fmt.Sprint(before) ||
			o.RaftLog.Truth().QueueLength() != 0 {
			t.Errorf("%+v became %+v", before, after)
		}
		if n := o.RaftLog.Count(func(c fsm.Command) bool {
			return fsm.KindOf(c) == fsm.KindOf(introspection.Enqueue{})
		}); n != 0 {
			t.Errorf("%d requests were queued, index %d", n, index)
		}
	})
}

// What is only odd is taken, and stays as it is.
func TestOddDocumentsAreTaken(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Service()
		o.Work(func(*work.Pool) {
			for _, more := range []string{
				`,"a":1.0e+3,"b":123456789012345678901234567890,"c":-0.0,"d":1e-300`,
				`,"a":"` + strings.Repeat("x", 1<<20-8) + `"`,
				`,"logs":"` + strings.Repeat("A", 4<<20) + `"`,
				`,"a":` + strings.Repeat("[", 90) + strings.Repeat("]", 90),
				`,"a":{` + inspecttest.KeysUpTo(5000) + `"z":{"k1":1}},"z":{"k1":1}`,
				`,"":1,"\u0000":2,"\ud800":3,"é":"\u00e9"`,
			} {
				o.Accept(inspecttest.NodeA, inspecttest.MacA) // the pool is there to boot it
				o.Becomes(inspecttest.NodeA, introspection.NodeWaiting, time.Second)
				if _, err := s.Continue(o.Ctx, []byte(inspecttest.Callback(inspecttest.MacA, more))); err != nil {
					t.Fatalf("%.50s: %v", more, err)
				}
				o.Becomes(inspecttest.NodeA, introspection.NodeFinished, time.Second)
				want := inspecttest.Callback(inspecttest.MacA, more)
				if strings.HasPrefix(more, `,"logs"`) {
					want = inspecttest.Callback(inspecttest.MacA, "")
				}
				if data, err := s.Data(o.Ctx, inspecttest.NodeA, false, inspector.Linearizable); err != nil ||
					string(data) != want && !strings.Contains(more, `\u0000`) {
					t.Errorf("%.50s became %.150s, %v", more, data, err)
				}
			}
		})
	})
}
