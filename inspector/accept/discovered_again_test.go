package accept_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/inspector/work"
	"github.com/trivet-ha/trivet/test/inspecttest"
)

const (
	strangeBMC  = `,"bmc_address":"198.18.0.9"`
	another     = `,"hostname":"ipa"` // as of a ramdisk that boots once more
	portThereIs = "Port " + inspecttest.Strange + " already exists, uuid: " + inspecttest.Strange
)

// A machine that discovery made a node of calls again without a start: it is refused, as in
// the original, and nothing is done to its node and its record. NODE is the node.
func TestDiscoveredMachineCallsAgain(t *testing.T) {
	portless := func(o *inspecttest.Rig, node string) { delete(o.Ironic.PortsOf, node) }
	for _, c := range []struct {
		name, bmc, state string
		since            func(o *inspecttest.Rig, node string)
		want             string
	}{
		{"an operator has it", strangeBMC, "manageable", nil, portThereIs},
		{"it carries a workload", strangeBMC, "active", nil, portThereIs},
		{"it is as it was made", strangeBMC, "enroll", nil, portThereIs},
		{"its record is gone", strangeBMC, "active", func(o *inspecttest.Rig, node string) {
			o.RaftLog.Must(introspection.DeleteNode{Node: node})
		}, portThereIs},
		{"it has no port", strangeBMC, "enroll", portless, "Node NODE already has BMC address 198.18.0.9"},
		{"it has neither port nor BMC", "", "active", portless, "Node NODE already exists"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inspecttest.InRig(t, func(o *inspecttest.Rig) {
				o.Hooks = []inspector.Hook{chooser{"eth0"}}
				s := o.Discovers()
				o.Work(func(*work.Pool) {
					node, err := s.Continue(o.Ctx, []byte(inspecttest.Stranger(c.bmc)))
					if err != nil {
						t.Fatal(err)
					}
					o.Becomes(node, introspection.NodeFinished, time.Second)
					o.Ironic.Set(node, func(n *ironic.Node) { n.Provision = c.state })
					if c.since != nil {
						c.since(o, node)
					}
					before, there := o.RaftLog.Truth().Record(node)
					done := len(o.Ironic.Sent(ironic.PowerOff)) + len(o.Ironic.Sent("patch")) + len(o.Ironic.Sent("create"))
					_, err = s.Continue(o.Ctx, []byte(inspecttest.Stranger(c.bmc+another)))
					inspecttest.RefusedWith(t, "discovered-again: "+c.name, err, 400, inspector.FailuresHead+
						"Node not found hook failed: "+strings.ReplaceAll(c.want, "NODE", node))
					time.Sleep(time.Minute) // in a bubble
					now := len(o.Ironic.Sent(ironic.PowerOff)) + len(o.Ironic.Sent("patch")) + len(o.Ironic.Sent("create"))
					v := o.RaftLog.Truth()
					after, still := v.Record(node)
					if now != done || after.Begun != before.Begun || after.State != before.State || there != still {
						t.Errorf("discovered-again: %d calls, had %d; record %v, was %v", now, done, after.State, before.State)
					}
					if _, err := s.Data(o.Ctx, node, true, inspector.Linearizable); there && err != nil {
						t.Errorf("discovered-again: its data: %v", err)
					}
					if v.Allowed(inspecttest.Strange) {
						t.Error("discovered-again: PXE lets it through")
					}
				})
			})
		})
	}
}

// A node whose discovery failed before it had a port is taken up again by its machine, as
// long as it is as discovery made it.
func TestFailedDiscoveryIsTakenUp(t *testing.T) {
	for state, goesOn := range map[string]bool{"enroll": true, "manageable": false} {
		inspecttest.InRig(t, func(o *inspecttest.Rig) {
			s := o.Discovers()
			var good atomic.Bool
			o.Hooks = []inspector.Hook{inspecttest.Before("b", func(context.Context, *document.Document) error {
				if good.Load() {
					return nil
				}
				return document.Failed("bad")
			})}
			o.Work(func(*work.Pool) {
				_, err := s.Continue(o.Ctx, []byte(inspecttest.Stranger(strangeBMC)))
				inspecttest.RefusedWith(t, "bad data", err, 400, inspector.FailuresHead+"Preprocessing hook b: bad")
				for _, node := range o.Ironic.Sent("create node ") {
					o.Ironic.Set(strings.TrimPrefix(node, "create node "), func(n *ironic.Node) { n.Provision = state })
				}
				good.Store(true)
				if _, err = s.Continue(o.Ctx, []byte(inspecttest.Stranger(strangeBMC+another))); goesOn != (err == nil) {
					t.Errorf("taken-up: of a node in %s: %v", state, err)
				}
			})
		})
	}
}

// The same document through two peers: one makes the node and is done while the other waits
// for Ironic's ports, and both give the same answer.
func TestDiscoveredWhileAnotherPeerLooks(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Hooks = []inspector.Hook{chooser{"eth0"}}
		slow, quick := o.Discovers(), o.Service()
		var asked atomic.Bool
		o.Ironic.On(func(_ context.Context, call string) error {
			if call == "list ports" && !asked.Swap(true) {
				time.Sleep(10 * time.Second) // in a bubble
			}
			return nil
		})
		o.Work(func(*work.Pool) {
			answered := o.Post(slow, inspecttest.Stranger(strangeBMC))
			time.Sleep(time.Second) // in a bubble
			node, err := quick.Continue(o.Ctx, []byte(inspecttest.Stranger(strangeBMC)))
			if err != nil {
				t.Fatal(err)
			}
			o.Becomes(node, introspection.NodeFinished, time.Second)
			if err := <-answered; err != nil {
				t.Errorf("same-answer: %v", err)
			}
		})
	})
}

// What discovery records is counted to the network that it came from.
func TestDiscoveryNamesItsSource(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Discovers()
		o.Post(s, inspecttest.Stranger(""))
		synctest.Wait()
		for rec := range o.RaftLog.Truth().Records() {
			if rec.Discovery.Source != introspection.SourceUnknown || rec.Discovery.Bytes == 0 {
				t.Errorf("discovery-source: %+v", rec.Discovery)
			}
			return
		}
		t.Error("discovery-source: no record")
	})
}
