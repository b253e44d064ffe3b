package accept_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/inspector/work"
	"github.com/trivet-ha/trivet/raftstore/logerr"
	"github.com/trivet-ha/trivet/test/inspecttest"
)

// Natively a document is one of /v1/continue, but for when it is answered.
func TestContinueInspectionNatively(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Service()
		o.Hooks = []inspector.Hook{
			inspecttest.After("a", func(ctx context.Context, t *inspector.Task) error { return t.PatchNode(ctx) })}
		o.Boots(inspecttest.NodeA, inspecttest.MacA)
		body := fmt.Sprintf(
			`{"inventory":{"interfaces":[{"mac_address":%q}],"boot":{"pxe_interface":%q},"bmc_address":null},"root_disk":null,"logs":"H4sI"}`,
			strings.ToUpper(inspecttest.MacA), inspecttest.MacA)
		o.Succeeds(s, body, inspecttest.NodeA) // nobody works: processing is not waited for
		o.Work(func(*work.Pool) {
			rec := o.Becomes(inspecttest.NodeA, introspection.NodeFinished, time.Second)
			o.Succeeds(s, " "+body, inspecttest.NodeA) // a repeat, when nothing else leads to the node any more
			if again, _ := o.RaftLog.Truth().Record(inspecttest.NodeA); again.Delivered != rec.Delivered {
				t.Errorf("the repeat was another delivery: %+v", again.Delivered)
			}
		})
		if n := len(o.Ironic.Sent("patch")); n != 1 {
			t.Errorf("native-once: the node was patched %d times", n)
		}
		data, err := s.Data(o.Ctx, inspecttest.NodeA, false, inspector.Linearizable)
		if err != nil || !strings.Contains(string(data), `"boot_interface":"`+inspecttest.MacA+`"`) ||
			strings.Contains(string(data), "logs") {
			t.Errorf("%s, %v", data, err)
		}
	})
}

func TestContinueInspectionIsRefused(t *testing.T) {
	const nothing = "No lookup information provided"
	for _, c := range []struct {
		name, body string
		status     int
		want       string
	}{
		{"no JSON", "{", 400, "not valid JSON"},
		{"no object", "[]", 400, "expected a JSON object"},
		{"no inventory", "{}", 400, "inventory: expected an object"},
		{"null", `{"inventory":null}`, 400, "inventory: expected an object"},
		{"no interfaces", `{"inventory":{"interfaces":[],"bmc_address":"192.0.2.1"}}`, 400, "interfaces: expected a list"},
		{"an interface without a MAC", `{"inventory":{"interfaces":[{}]}}`, 400, "item 0 has no mac_address"},
		{"a MAC that is a number", `{"inventory":{"interfaces":[{"mac_address":1}]}}`, 400, "item 0 has no mac_address"},
		{"no MAC that is one", `{"inventory":{"interfaces":[{"mac_address":"x"}],"bmc_address":""}}`, 400, nothing},
		{"no node", inspecttest.Callback(inspecttest.MacB, ""), 404, "Could not find a node for attributes"},
		{"a node that does not wait", inspecttest.Callback(inspecttest.MacA, ""), 404,
			"Could not find a node for attributes"},
	} {
		inspecttest.InRig(t, func(o *inspecttest.Rig) {
			o.Boots(inspecttest.NodeA, inspecttest.MacA)
			o.RaftLog.Must(introspection.Enqueue{Node: inspecttest.NodeA, Event: introspection.EventAbort})
			o.Work(func(*work.Pool) { o.Becomes(inspecttest.NodeA, introspection.NodeError, time.Second) })
			_, err := o.Service().ContinueInspection(o.Ctx, ironic.InbandCall{Body: []byte(c.body)})
			var r *inspector.Refusal
			if !errors.As(err, &r) || r.Status != c.status || !strings.Contains(r.Message, c.want) {
				t.Errorf("%s: %+v (%v), want %d %q", c.name, r, err, c.status, c.want)
			}
		})
	}
}

// Ramdisks take any 4xx for final, so that there is none while nobody can know.
func TestContinueInspectionWithoutQuorum(t *testing.T) {
	for _, mode := range []string{config.ContinueNative, config.ContinueRelay} {
		inspecttest.InRig(t, func(o *inspecttest.Rig) {
			o.RaftLog.Leaderless(logerr.ErrNoLeader)
			o.Conf.ContinueInspection = mode
			_, err := o.Service().ContinueInspection(o.Ctx,
				ironic.InbandCall{Body: []byte(inspecttest.Callback(inspecttest.MacA, ""))})
			if !errors.Is(err, logerr.ErrNoLeader) {
				t.Errorf("5xx-without-quorum: %s: %v", mode, err)
			}
		})
	}
}
