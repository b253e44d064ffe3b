package inspector

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/raftstore/logerr"
)

// succeeds posts a document where Ironic's own ramdisks do, and wants 202 for a
// node.
func (o *rig) succeeds(s *Service, body, node string) {
	o.Helper()
	got, err := s.ContinueInspection(o.ctx, InbandCall{Body: []byte(body)})
	if want := fmt.Sprintf(`{"uuid":%q}`, node); err != nil || got.Status != http.StatusAccepted || string(got.Body) != want {
		o.Errorf("%d %s, %v, want 202 %s", got.Status, got.Body, err, want)
	}
}

// Natively a document is one of /v1/continue, but for when it is answered.
func TestContinueInspectionNatively(t *testing.T) {
	inRig(t, func(o *rig) {
		s := o.service()
		o.hooks = []Hook{afterHook{"a", func(ctx context.Context, t *Task) error { return t.PatchNode(ctx) }}}
		o.boots(nodeA, macA)
		body := fmt.Sprintf(`{"inventory":{"interfaces":[{"mac_address":%q}],"boot":{"pxe_interface":%q},"bmc_address":null},"root_disk":null,"logs":"H4sI"}`, strings.ToUpper(macA), macA)
		o.succeeds(s, body, nodeA) // nobody works: processing is not waited for
		o.work(func(*WorkerPool) {
			rec := o.becomes(nodeA, introspection.NodeFinished, time.Second)
			o.succeeds(s, " "+body, nodeA) // a repeat, when nothing else leads to the node any more
			if again, _ := o.raftLog.truth().Record(nodeA); again.Delivered != rec.Delivered {
				t.Errorf("the repeat was another delivery: %+v", again.Delivered)
			}
		})
		if n := len(o.ironic.sent("patch")); n != 1 {
			t.Errorf("native-once: the node was patched %d times", n)
		}
		data, err := s.Data(o.ctx, nodeA, false, Linearizable)
		if err != nil || !strings.Contains(string(data), `"boot_interface":"`+macA+`"`) || strings.Contains(string(data), "logs") {
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
		{"no node", callback(macB, ""), 404, "Could not find a node for attributes"},
		{"a node that does not wait", callback(macA, ""), 404, "Could not find a node for attributes"},
	} {
		inRig(t, func(o *rig) {
			o.boots(nodeA, macA)
			o.raftLog.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventAbort})
			o.work(func(*WorkerPool) { o.becomes(nodeA, introspection.NodeError, time.Second) })
			_, err := o.service().ContinueInspection(o.ctx, InbandCall{Body: []byte(c.body)})
			var r *Refusal
			if !errors.As(err, &r) || r.Status != c.status || !strings.Contains(r.Message, c.want) {
				t.Errorf("%s: %+v (%v), want %d %q", c.name, r, err, c.status, c.want)
			}
		})
	}
}

// Ramdisks take any 4xx for final, so that there is none while nobody can know.
func TestContinueInspectionWithoutQuorum(t *testing.T) {
	for _, mode := range []string{config.ContinueNative, config.ContinueRelay} {
		inRig(t, func(o *rig) {
			o.raftLog.leaderless(logerr.ErrNoLeader)
			o.conf.ContinueInspection = mode
			_, err := o.service().ContinueInspection(o.ctx, InbandCall{Body: []byte(callback(macA, ""))})
			if !errors.Is(err, logerr.ErrNoLeader) {
				t.Errorf("5xx-without-quorum: %s: %v", mode, err)
			}
		})
	}
}
