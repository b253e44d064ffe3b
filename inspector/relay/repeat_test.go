package relay_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/ironicports"
	"github.com/trivet-ha/trivet/fsm/relays"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/test/inspecttest"
)

// A document is a repeat as long as Ironic waits for no other inspection of the node. After a
// new one was asked for, the same bytes are handed on again, once, however often and wherever
// they come, and whatever became of them before.
func TestRelayOfTheSameDocumentAfterANewInspection(t *testing.T) {
	body := inspecttest.Callback(inspecttest.MacA, "")
	for _, c := range []struct {
		name  string
		state []string // of the node at each question, the last one from then on
		err   error    // of each question
		posts int      // in the end, the first delivery among them
	}{
		{"it ended", []string{"manageable"}, nil, 1},
		{"it failed", []string{"inspect failed"}, nil, 1},
		{"it is deployed meanwhile", []string{"active"}, nil, 1},
		{"it is worked on, and ends", []string{"inspecting", "inspecting", "manageable"}, nil, 1},
		{"a new one", []string{"inspect wait"}, nil, 2},
		{"a new one begins", []string{"inspecting", "inspecting", "inspect wait"}, nil, 2},
		{"one begins for long", []string{"inspecting"}, nil, 2},
		{"Ironic does not say", nil, &ironic.Error{Message: "connection refused", Err: ironic.ErrNotSent}, 2},
		{"Ironic has it no more", nil, ironic.ErrNoNode, 1},
	} {
		inRelay(t, func(o *inspecttest.Rig, s *inspecttest.Service, e *otherIronic) {
			o.Succeeds(s, body, inspecttest.NodeA)
			o.Leads(func() {
				o.Settles(time.Second)
				asked := 0
				o.Ironic.On(func(_ context.Context, call string) error {
					if !strings.HasPrefix(call, "node ") || c.err != nil {
						return c.err
					}
					state := c.state[min(asked, len(c.state)-1)]
					asked++
					o.Ironic.Set(inspecttest.NodeA, func(n *ironic.Node) { n.UUID, n.Provision = inspecttest.NodeA, state })
					return nil
				})
				e.awaits(inspecttest.MacA, inspecttest.NodeA)
				var sending sync.WaitGroup
				for range 3 {
					sending.Go(func() { o.Succeeds(s, body, inspecttest.NodeA) })
				}
				sending.Wait()
				if r := o.Settles(time.Minute); r.State != relays.Taken {
					t.Errorf("inspection-apart: %s: %+v", c.name, r)
				}
				if n := e.sent(); n != c.posts {
					t.Errorf("inspection-apart: %s: %d posts, want %d", c.name, n, c.posts)
				}
			})
		})
	}
}

// While Ironic cannot be asked what it waits for, a repeat is handed on, and Ironic's word that
// it waits for nothing makes no failure of what it took before.
func TestRelayOfARepeatWhileIronicDoesNotSay(t *testing.T) {
	inRelay(t, func(o *inspecttest.Rig, s *inspecttest.Service, _ *otherIronic) {
		body := inspecttest.Callback(inspecttest.MacA, "")
		o.Succeeds(s, body, inspecttest.NodeA)
		o.Leads(func() {
			o.Settles(time.Second)
			o.Ironic.Met("node ", &ironic.Error{Message: "connection refused", Err: ironic.ErrNotSent})
			o.Succeeds(s, body, inspecttest.NodeA)
			if r := o.Settles(2 * time.Minute); r.State != relays.Taken || r.After.IsZero() {
				t.Errorf("repeat-ends: %+v", r)
			}
		})
	})
}

// Whose document it is that a machine without a port sent, a port tells that Ironic has meanwhile: the
// same again is a repeat where Ironic waits for none, and is kept where it does.
func TestRelayOfAnUnknownNodeAgain(t *testing.T) {
	inRelay(t, func(o *inspecttest.Rig, s *inspecttest.Service, e *otherIronic) {
		body := inspecttest.Callback(inspecttest.MacB, "")
		e.on(lostAnswer)
		post := func() string {
			got, err := s.ContinueInspection(o.Ctx, ironic.InbandCall{Body: []byte(body)})
			if err != nil || got.Status != http.StatusAccepted {
				t.Fatalf("%+v, %v", got, err)
			}
			return string(got.Body)
		}
		post()
		if got := post(); got != `{"uuid":null}` || e.sent() != 1 {
			t.Errorf("a repeat: %s, %d posts", got, e.sent())
		}
		e.on(nil)
		leads(o, ironicports.PutPorts{Ports: []ironicports.Port{{ID: "q", MAC: inspecttest.MacB, Node: inspecttest.NodeB}}})
		o.Leads(func() { o.Settles(time.Minute) })
		e.awaits(inspecttest.MacB, inspecttest.NodeB)
		o.Ironic.Set(inspecttest.NodeB, func(n *ironic.Node) { n.UUID, n.Provision = inspecttest.NodeB, ironic.InspectWait })
		if got := post(); !strings.Contains(got, inspecttest.NodeB) {
			t.Errorf("inspection-apart: after a new inspection: %s", got)
		}
		o.Leads(func() { o.Settles(time.Minute) })
		if len(e.waiting) != 1 {
			t.Errorf("inspection-apart: Ironic waits for %v", e.waiting)
		}
	})
}
