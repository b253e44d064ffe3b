package accept_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/inspector/work"
	"github.com/trivet-ha/trivet/test/inspecttest"
)

// Who is unknown learns also what the hooks have against the data; not from a
// peer that may have died of them.
func TestObjectionsToUnknownData(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		door := &inspecttest.Carefree{}
		o.Suspects = door
		o.Hooks = []inspector.Hook{
			inspecttest.Before("a", func(context.Context, *document.Document) error { return document.Failed("bad") }),
			inspecttest.Before("b", func(context.Context, *document.Document) error { return errors.New("worse") }),
			inspecttest.Before("c", func(context.Context, *document.Document) error { panic("worst") }),
			inspecttest.Before("d", func(ctx context.Context, _ *document.Document) error {
				time.Sleep(time.Minute) // in a bubble
				return nil
			}),
		}
		const unknown = "Look up error: Could not find a node for attributes {'bmc_address': [], 'mac': []}"
		_, err := o.Service().Continue(o.Ctx, []byte(`{}`))
		inspecttest.RefusedWith(t, "unknown", err, 400, inspector.FailuresHead+"Preprocessing hook a: bad\n"+
			"Unexpected exception errors.errorString during preprocessing in hook b: worse\n"+
			"Unexpected exception panic during preprocessing in hook c: worst\n"+
			"Unexpected exception TimeoutError during preprocessing in hook d: hook d did not end within 5s\n"+unknown)
		door.Suspects = true
		_, err = o.Service().Continue(o.Ctx, []byte(`{}`))
		inspecttest.RefusedWith(t, "suspect", err, 400, inspector.FailuresHead+unknown)
		time.Sleep(time.Minute) // in a bubble
	})
}

// A node that carries a workload is introspected when it calls, again and again,
// and stays on.
func TestActiveNodeCalls(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Permits()
		o.Hooks = []inspector.Hook{
			inspecttest.After("a", func(ctx context.Context, t *inspector.Task) error { return t.PatchNode(ctx) })}
		o.Work(func(*work.Pool) {
			for _, body := range []string{
				inspecttest.Callback(inspecttest.MacA, ""), inspecttest.Callback(strings.ToUpper(inspecttest.MacA), `,"again":1`),
				`{"inventory":{"bmc_address":"198.18.0.1"}}`, // known by its BMC alone
			} {
				if node, err := s.Continue(o.Ctx, []byte(body)); err != nil || node != inspecttest.NodeA {
					t.Fatalf("%s: %q, %v", body, node, err)
				}
				if rec := o.Becomes(inspecttest.NodeA, introspection.NodeFinished, time.Second); rec.Error != "" || rec.ManageBoot {
					t.Errorf("%+v", rec)
				}
			}
		})
		if calls := append(o.Ironic.Sent(ironic.PowerOff), o.Ironic.Sent(ironic.PowerReboot)...); len(calls) != 0 ||
			len(o.Ironic.Sent("patch")) != 3 {
			t.Errorf("%v, %v", calls, o.Ironic.Sent("patch"))
		}
	})
}

// A blade in production that Ironic reaches at the address of others is known by its port.
func TestActiveBladeCalls(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Permits()
		o.Ironic.Set(inspecttest.NodeB, func(n *ironic.Node) {
			n.Provision, n.DriverInfo = "active", map[string]any{"ipmi_address": "198.18.0.1"}
		})
		o.Work(func(*work.Pool) {
			body := `{"inventory":{"interfaces":[{"name":"a","mac_address":"` + inspecttest.MacA +
				`"}],"bmc_address":"198.18.0.1"}}`
			if node, err := s.Continue(o.Ctx, []byte(body)); err != nil || node != inspecttest.NodeA {
				t.Fatalf("shared-bmc: called by %q, %v", node, err)
			}
			if rec := o.Becomes(inspecttest.NodeA, introspection.NodeFinished, time.Second); rec.Error != "" {
				t.Errorf("shared-bmc: %+v", rec)
			}
		})
	})
}

// One that was started by hand may be, too, and is left on at the end, and when
// it is aborted.
func TestActiveNodeIsStarted(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Permits()
		o.Work(func(*work.Pool) {
			for _, end := range []func() error{
				func() error {
					_, err := s.Continue(o.Ctx, []byte(inspecttest.Callback(inspecttest.MacA, "")))
					return err
				},
				func() error { return s.Abort(o.Ctx, inspecttest.NodeA) },
			} {
				if err := s.Start(o.Ctx, inspecttest.NodeA, true); err != nil {
					t.Fatal(err)
				}
				o.Becomes(inspecttest.NodeA, introspection.NodeWaiting, time.Second)
				if err := end(); err != nil {
					t.Error(err)
				}
				if _, err := o.Notifier.Wait(o.Ctx,
					func(v fsm.View) bool { rec, _ := v.Record(inspecttest.NodeA); return !rec.State.Active() }); err != nil {
					t.Fatal(err)
				}
			}
		})
		if len(o.Ironic.Sent(ironic.PowerReboot)) != 2 || len(o.Ironic.Sent(ironic.PowerOff)) != 0 {
			t.Errorf("%v", o.Ironic.Sent(""))
		}
	})
}

// Who may not be adopted.
func TestAdoptionIsRefused(t *testing.T) {
	for _, c := range []struct {
		name, body string
		before     func(o *inspecttest.Rig)
		status     int
		message    string
	}{
		{"available", inspecttest.Callback(inspecttest.MacB, ""), nil, 400,
			"Node " + inspecttest.NodeB + " is not active, its provision state is manageable"},
		{"two nodes", `{"inventory":{"interfaces":[{"name":"a","mac_address":"` + inspecttest.MacB +
			`"}],"bmc_address":"198.18.0.1"}}`, nil, 400,
			"Ironic has several nodes with attributes {'bmc_address': ['198.18.0.1'], 'mac': ['" + inspecttest.MacB + "']}: ['" +
				inspecttest.NodeA + "', '" + inspecttest.NodeB + "']"},
		{"no node", inspecttest.Stranger(""), nil, 400,
			inspector.FailuresHead + "Look up error: Could not find a node for attributes {'bmc_address': [], 'mac': ['" +
				inspecttest.Strange + "', '" + inspecttest.NoMAC + "']}"},
		{"Ironic away", inspecttest.Callback(inspecttest.MacA, ""),
			func(o *inspecttest.Rig) { o.Ironic.Met("list ports", inspecttest.Away()) }, 503,
			"Ironic cannot be reached: connection refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inspecttest.InRig(t, func(o *inspecttest.Rig) {
				s := o.Permits()
				if c.before != nil {
					c.before(o)
				}
				_, err := s.Continue(o.Ctx, []byte(c.body))
				inspecttest.RefusedWith(t, c.name, err, c.status, c.message)
				if n := o.RaftLog.Truth().Nodes(); n != 0 {
					t.Errorf("%d records", n)
				}
			})
		})
	}
}

// The machine is powered off at the end only if that is configured.
func TestPowerOffIsAnOption(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Conf.Processing.PowerOff = false
		o.Work(func(*work.Pool) { o.Ends(o.Service(), "") })
		if calls := o.Ironic.Sent(ironic.PowerOff); len(calls) != 0 {
			t.Errorf("%v", calls)
		}
	})
}

// lateMAC is of a port that reaches Ironic after the start.
const lateMAC = "52:54:00:00:01:0a"

// A port that is created after the start names the node, if it alone waits with
// such a port.
func TestPortThatComesLate(t *testing.T) {
	twoPorts := `{"inventory":{"interfaces":[{"name":"eth0","mac_address":"` + lateMAC +
		`"},{"name":"eth1","mac_address":"52:54:00:00:01:0b"}]}}`
	const unknown = inspector.FailuresHead +
		"Look up error: Could not find a node for attributes {'bmc_address': [], 'mac': ['" + lateMAC + "']}"
	for _, c := range []struct {
		name, body, want string
		before           func(o *inspecttest.Rig)
		status           int
		lists            int
	}{
		{"it waits", inspecttest.Callback(lateMAC, ""), "",
			func(o *inspecttest.Rig) { o.Boots(inspecttest.NodeA, inspecttest.MacA) }, 0, 1},
		{"it waits, and discovery is on", inspecttest.Callback(lateMAC, ""), "", func(o *inspecttest.Rig) {
			o.Conf.Processing.NodeNotFoundHook = "enroll"
			o.Boots(inspecttest.NodeA, inspecttest.MacA)
		}, 0, 1},
		{"another node waits", inspecttest.Callback(lateMAC, ""), unknown,
			func(o *inspecttest.Rig) { o.Boots(inspecttest.NodeB, inspecttest.MacB) }, 400, 1},
		{"nothing waits", inspecttest.Callback(lateMAC, ""), unknown, func(*inspecttest.Rig) {}, 400, 0},
		{"two wait with such ports", twoPorts,
			inspector.FailuresHead +
				"Look up error: Multiple nodes match the same number of attributes {'bmc_address': [], 'mac': ['" + lateMAC +
				"', '52:54:00:00:01:0b']}: ['" + inspecttest.NodeA + "', '" + inspecttest.NodeB + "']", func(o *inspecttest.Rig) {
				o.Ironic.PortsOf[inspecttest.NodeB] = append(o.Ironic.PortsOf[inspecttest.NodeB],
					ironic.Port{Node: inspecttest.NodeB, Address: "52:54:00:00:01:0b"})
				o.Boots(inspecttest.NodeA, inspecttest.MacA)
				o.Boots(inspecttest.NodeB, inspecttest.MacB)
			}, 400, 1},
		{"Ironic is away", inspecttest.Callback(lateMAC, ""), "Ironic cannot be reached: connection refused",
			func(o *inspecttest.Rig) {
				o.Boots(inspecttest.NodeA, inspecttest.MacA)
				o.Ironic.Met("list ports", inspecttest.Away())
			}, 503, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			inspecttest.InRig(t, func(o *inspecttest.Rig) {
				o.Ironic.PortsOf[inspecttest.NodeA] = append(o.Ironic.PortsOf[inspecttest.NodeA],
					ironic.Port{Node: inspecttest.NodeA, Address: lateMAC})
				c.before(o)
				s := o.Service()
				o.Work(func(*work.Pool) {
					node, err := s.Continue(o.Ctx, []byte(c.body))
					if c.status == 0 && (err != nil || node != inspecttest.NodeA) {
						t.Errorf("late-port: found %q, %v", node, err)
					}
					if c.status != 0 {
						inspecttest.RefusedWith(t, c.name, err, c.status, c.want)
					}
				})
				if n := len(o.Ironic.Sent("list ports")); n != c.lists {
					t.Errorf("Ironic listed its ports %d times, want %d", n, c.lists)
				}
			})
		})
	}
}
