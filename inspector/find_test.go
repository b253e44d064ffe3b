package inspector

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/introspection"
)

// carefree suspects nothing, unless it is told to.
type carefree struct{ suspects bool }

func (c *carefree) Examine(blobs.Hash) bool { return !c.suspects }

func (*carefree) Clear(blobs.Hash) {}

// Who is unknown learns also what the hooks have against the data; not from a
// peer that may have died of them.
func TestObjectionsToUnknownData(t *testing.T) {
	inRig(t, func(o *rig) {
		door := &carefree{}
		o.suspects = door
		o.hooks = []Hook{
			beforeHook{"a", func(context.Context, *Document) error { return Failed("bad") }},
			beforeHook{"b", func(context.Context, *Document) error { return errors.New("worse") }},
			beforeHook{"c", func(context.Context, *Document) error { panic("worst") }},
			beforeHook{"d", func(ctx context.Context, _ *Document) error {
				time.Sleep(time.Minute) // in a bubble
				return nil
			}},
		}
		const unknown = "Look up error: Could not find a node for attributes {'bmc_address': [], 'mac': []}"
		_, err := o.service().Continue(o.ctx, []byte(`{}`))
		refusedWith(t, "unknown", err, 400, failuresHead+"Preprocessing hook a: bad\n"+
			"Unexpected exception errors.errorString during preprocessing in hook b: worse\n"+
			"Unexpected exception panic during preprocessing in hook c: worst\n"+
			"Unexpected exception TimeoutError during preprocessing in hook d: hook d did not end within 5s\n"+unknown)
		door.suspects = true
		_, err = o.service().Continue(o.ctx, []byte(`{}`))
		refusedWith(t, "suspect", err, 400, failuresHead+unknown)
		time.Sleep(time.Minute) // in a bubble
	})
}

// permits makes the service introspect nodes that carry a workload.
func (o *rig) permits() *Service {
	o.conf.Processing.PermitActiveIntrospection = true
	o.ironic.set(nodeA, func(n *Node) {
		n.Provision, n.DriverInfo = "active", map[string]any{"ipmi_address": "198.18.0.1"}
	})
	return o.service()
}

// A node that carries a workload is introspected when it calls, again and again,
// and stays on.
func TestActiveNodeCalls(t *testing.T) {
	inRig(t, func(o *rig) {
		s := o.permits()
		o.hooks = []Hook{afterHook{"a", func(ctx context.Context, t *Task) error { return t.PatchNode(ctx) }}}
		o.work(func(*WorkerPool) {
			for _, body := range []string{
				callback(macA, ""), callback(strings.ToUpper(macA), `,"again":1`),
				`{"inventory":{"bmc_address":"198.18.0.1"}}`, // known by its BMC alone
			} {
				if node, err := s.Continue(o.ctx, []byte(body)); err != nil || node != nodeA {
					t.Fatalf("%s: %q, %v", body, node, err)
				}
				if rec := o.becomes(nodeA, introspection.NodeFinished, time.Second); rec.Error != "" || rec.ManageBoot {
					t.Errorf("%+v", rec)
				}
			}
		})
		if calls := append(o.ironic.sent(PowerOff), o.ironic.sent(PowerReboot)...); len(calls) != 0 || len(o.ironic.sent("patch")) != 3 {
			t.Errorf("%v, %v", calls, o.ironic.sent("patch"))
		}
	})
}

// One that was started by hand may be, too, and is left on at the end, and when
// it is aborted.
func TestActiveNodeIsStarted(t *testing.T) {
	inRig(t, func(o *rig) {
		s := o.permits()
		o.work(func(*WorkerPool) {
			for _, end := range []func() error{
				func() error { _, err := s.Continue(o.ctx, []byte(callback(macA, ""))); return err },
				func() error { return s.Abort(o.ctx, nodeA) },
			} {
				if err := s.Start(o.ctx, nodeA, true); err != nil {
					t.Fatal(err)
				}
				o.becomes(nodeA, introspection.NodeWaiting, time.Second)
				if err := end(); err != nil {
					t.Error(err)
				}
				if _, err := o.notifier.Wait(o.ctx, func(v fsm.View) bool { rec, _ := v.Record(nodeA); return !rec.State.Active() }); err != nil {
					t.Fatal(err)
				}
			}
		})
		if len(o.ironic.sent(PowerReboot)) != 2 || len(o.ironic.sent(PowerOff)) != 0 {
			t.Errorf("%v", o.ironic.sent(""))
		}
	})
}

// Who may not be adopted.
func TestAdoptionIsRefused(t *testing.T) {
	for _, c := range []struct {
		name, body string
		before     func(o *rig)
		status     int
		message    string
	}{
		{"available", callback(macB, ""), nil, 400, "Node " + nodeB + " is not active, its provision state is manageable"},
		{"two nodes", `{"inventory":{"interfaces":[{"name":"a","mac_address":"` + macB + `"}],"bmc_address":"198.18.0.1"}}`, nil, 400,
			"Ironic has several nodes with attributes {'bmc_address': ['198.18.0.1'], 'mac': ['" + macB + "']}: ['" + nodeA + "', '" + nodeB + "']"},
		{"no node", stranger(""), nil, 400,
			failuresHead + "Look up error: Could not find a node for attributes {'bmc_address': [], 'mac': ['" + strange + "', '" + noMAC + "']}"},
		{"Ironic away", callback(macA, ""), func(o *rig) { o.ironic.met("list ports", away()) }, 503, "Ironic cannot be reached: connection refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inRig(t, func(o *rig) {
				s := o.permits()
				if c.before != nil {
					c.before(o)
				}
				_, err := s.Continue(o.ctx, []byte(c.body))
				refusedWith(t, c.name, err, c.status, c.message)
				if n := o.raftLog.truth().Nodes(); n != 0 {
					t.Errorf("%d records", n)
				}
			})
		})
	}
}

// The machine is powered off at the end only if that is configured.
func TestPowerOffIsAnOption(t *testing.T) {
	inRig(t, func(o *rig) {
		o.conf.Processing.PowerOff = false
		o.work(func(*WorkerPool) { o.ends(o.service(), "") })
		if calls := o.ironic.sent(PowerOff); len(calls) != 0 {
			t.Errorf("%v", calls)
		}
	})
}

// lateMAC is of a port that reaches Ironic after the start.
const lateMAC = "52:54:00:00:01:0a"

// A port that is created after the start names the node, if it alone waits with
// such a port.
func TestPortThatComesLate(t *testing.T) {
	twoPorts := `{"inventory":{"interfaces":[{"name":"eth0","mac_address":"` + lateMAC + `"},{"name":"eth1","mac_address":"52:54:00:00:01:0b"}]}}`
	const unknown = failuresHead + "Look up error: Could not find a node for attributes {'bmc_address': [], 'mac': ['" + lateMAC + "']}"
	for _, c := range []struct {
		name, body, want string
		before           func(o *rig)
		status           int
		lists            int
	}{
		{"it waits", callback(lateMAC, ""), "", func(o *rig) { o.boots(nodeA, macA) }, 0, 1},
		{"it waits, and discovery is on", callback(lateMAC, ""), "", func(o *rig) {
			o.conf.Processing.NodeNotFoundHook = "enroll"
			o.boots(nodeA, macA)
		}, 0, 1},
		{"another node waits", callback(lateMAC, ""), unknown, func(o *rig) { o.boots(nodeB, macB) }, 400, 1},
		{"nothing waits", callback(lateMAC, ""), unknown, func(*rig) {}, 400, 0},
		{"two wait with such ports", twoPorts, failuresHead + "Look up error: Multiple nodes match the same number of attributes {'bmc_address': [], 'mac': ['" + lateMAC +
			"', '52:54:00:00:01:0b']}: ['" + nodeA + "', '" + nodeB + "']", func(o *rig) {
			o.ironic.ports[nodeB] = append(o.ironic.ports[nodeB], Port{Node: nodeB, Address: "52:54:00:00:01:0b"})
			o.boots(nodeA, macA)
			o.boots(nodeB, macB)
		}, 400, 1},
		{"Ironic is away", callback(lateMAC, ""), "Ironic cannot be reached: connection refused", func(o *rig) {
			o.boots(nodeA, macA)
			o.ironic.met("list ports", away())
		}, 503, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			inRig(t, func(o *rig) {
				o.ironic.ports[nodeA] = append(o.ironic.ports[nodeA], Port{Node: nodeA, Address: lateMAC})
				c.before(o)
				s := o.service()
				o.work(func(*WorkerPool) {
					node, err := s.Continue(o.ctx, []byte(c.body))
					if c.status == 0 && (err != nil || node != nodeA) {
						t.Errorf("late-port: found %q, %v", node, err)
					}
					if c.status != 0 {
						refusedWith(t, c.name, err, c.status, c.want)
					}
				})
				if n := len(o.ironic.sent("list ports")); n != c.lists {
					t.Errorf("Ironic listed its ports %d times, want %d", n, c.lists)
				}
			})
		})
	}
}
