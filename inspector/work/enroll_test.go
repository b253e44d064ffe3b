package work_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/membership"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/inspector/identify"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/inspector/work"
	"github.com/trivet-ha/trivet/test/inspecttest"
)

// A machine that nobody knows gets one node, whatever happens on the way; its
// data is processed like that of others, and says how the machine was found.
func TestDiscovery(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Discovers()
		var made ironic.NewNode
		o.Ironic.Made = func(n ironic.NewNode) { made = n }
		o.Hooks = []inspector.Hook{inspecttest.After("a", func(ctx context.Context, task *inspector.Task) error {
			if string(task.Data.Value(work.KeyDiscovered).Raw()) != "true" {
				t.Error("the hooks do not learn that the machine was discovered")
			}
			return task.PatchNode(ctx)
		})}
		o.Work(func(*work.Pool) {
			body := inspecttest.Stranger(`,"bmc_address":"198.18.0.9","bmc_v6address":"2001:db8::9"`)
			node, err := s.Continue(o.Ctx, []byte(body))
			if err != nil {
				t.Fatal(err)
			}
			if again, err := s.Continue(o.Ctx, []byte(body)); err != nil || again != node {
				t.Errorf("repeated: %s, %v", again, err)
			}
			rec := o.Becomes(node, introspection.NodeFinished, time.Second)
			if rec.Error != "" || !rec.ManageBoot {
				t.Errorf("%+v", rec)
			}
			o.Becomes(node, introspection.NodeFinished, time.Second)
			if data, err := s.Data(o.Ctx, node, true, inspector.Linearizable); err != nil ||
				!strings.HasSuffix(string(data), `,"auto_discovered":true}`) {
				t.Errorf("%s, %v", data, err)
			}
			if data, err := s.Data(o.Ctx, node, false, inspector.Linearizable); err != nil || string(data) != body {
				t.Errorf("%s, %v", data, err)
			}
			want := ironic.NewNode{UUID: node, Driver: "fake-hardware", DriverInfo: map[string]any{"ipmi_address": "198.18.0.9"},
				Fields: map[string]string{"resource_class": "found"}}
			if fmt.Sprint(made) != fmt.Sprint(want) {
				t.Errorf("created %v, want %v", made, want)
			}
		})
		for call, want := range map[string]int{"create node": 1, "list ports": 2, "patch": 1, ironic.PowerOff: 1} {
			if calls := o.Ironic.Sent(call); len(calls) != want {
				t.Errorf("%v, want %d", calls, want)
			}
		}
	})
}

// Which of the BMC's addresses the node gets.
func TestEnrolledAddress(t *testing.T) {
	const both = `,"bmc_address":"198.18.0.9","bmc_v6address":"2001:db8::9"`
	for _, c := range []struct {
		versions, bmc string
		want          any
	}{
		{"4,6", both, "198.18.0.9"}, {"6,4", both, "2001:db8::9"}, {"6", both, "2001:db8::9"},
		{"4", `,"bmc_v6address":"2001:db8::9"`, nil},
		{"4,6", `,"bmc_address":"0.0.0.0","bmc_v6address":"2001:DB8::9"`, "2001:db8::9"},
		{"4", `,"bmc_address":"a.name"`, nil}, {"4,6", "", nil},
	} {
		machine := identify.Of(inspecttest.Parsed(t, inspecttest.Stranger(c.bmc)))
		conf := inspecttest.ConfigDiscovery(strings.Split(c.versions, ","))
		if got := work.Enrolled("n", machine, conf).DriverInfo["ipmi_address"]; got != c.want {
			t.Errorf("%s of %s: %v, want %v", c.versions, c.bmc, got, c.want)
		}
	}
}

func TestDiscoveryIsRefused(t *testing.T) {
	const line = inspector.FailuresHead + "Node not found hook failed: "
	for _, c := range []struct {
		name, body string
		before     func(o *inspecttest.Rig)
		status     int
		message    string
	}{
		{"a port of it exists", inspecttest.Stranger(""), func(o *inspecttest.Rig) {
			o.Ironic.PortsOf[inspecttest.NodeA] = append(o.Ironic.PortsOf[inspecttest.NodeA],
				ironic.Port{UUID: "p", Node: inspecttest.NodeA, Address: inspecttest.Strange})
		},
			400, line + "Port " + inspecttest.Strange + " already exists, uuid: p"},
		{"its BMC is known", inspecttest.Stranger(`,"bmc_address":"198.18.0.9"`), func(o *inspecttest.Rig) {
			o.Ironic.Set(inspecttest.NodeB,
				func(n *ironic.Node) { n.DriverInfo = map[string]any{"redfish_address": "https://bmc.example/"} })
			o.Zone = inspecttest.Zone{"bmc.example": {"198.18.0.8", "198.18.0.9"}}
		}, 400, line + "Node " + inspecttest.NodeB + " already has BMC address 198.18.0.9"},
		{"the name of a BMC is not resolved", inspecttest.Stranger(`,"bmc_address":"198.18.0.9"`), func(o *inspecttest.Rig) {
			o.Ironic.Set(inspecttest.NodeB,
				func(n *ironic.Node) { n.DriverInfo = map[string]any{"redfish_address": "https://bmc.example/"} })
			o.Zone = inspecttest.Zone{"bmc.example": {""}}
		}, 503, "The name of the BMC of node " + inspecttest.NodeB + " cannot be resolved for now; repeat the callback"},
		{"nothing to tell it by", `{}`, nil, 400,
			line + "the data has no MAC and no BMC address by which the machine could be told from others"},
		{"example", `{}`, func(o *inspecttest.Rig) { o.Conf.Processing.NodeNotFoundHook = "example" }, 400,
			inspector.FailuresHead + "Node not found hook returned nothing"},
		{"Ironic is away", inspecttest.Stranger(""),
			func(o *inspecttest.Rig) { o.Ironic.Met("list ports", inspecttest.Away()) }, 503,
			"Ironic cannot be reached: connection refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inspecttest.InRig(t, func(o *inspecttest.Rig) {
				o.Discovers()
				if c.before != nil {
					c.before(o)
				}
				_, err := o.Service().Continue(o.Ctx, []byte(c.body))
				inspecttest.RefusedWith(t, c.name, err, c.status, c.message)
				if n := o.RaftLog.Truth().Nodes(); n != 0 || len(o.Ironic.Sent("create")) != 0 {
					t.Errorf("%d records, %v", n, o.Ironic.Sent("create"))
				}
			})
		})
	}
}

// What Ironic has against the node ends the introspection, and the ramdisk is
// told; the next time it may have nothing against it.
func TestIronicRefusesTheNode(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Discovers()
		o.Hooks = []inspector.Hook{
			inspecttest.Before("b", func(context.Context, *document.Document) error { return document.Failed("bad") })}
		o.Ironic.Met("create", &ironic.Error{Status: 400, Message: "no such driver"})
		o.Work(func(*work.Pool) {
			_, err := s.Continue(o.Ctx, []byte(inspecttest.Stranger("")))
			inspecttest.RefusedWith(t, "no driver", err, 400,
				inspector.FailuresHead+"Preprocessing hook b: bad\nNode not found hook failed: no such driver")
			o.Ironic.Answers()
			_, err = s.Continue(o.Ctx, []byte(inspecttest.Stranger(`,"again":1`)))
			inspecttest.RefusedWith(t, "the data is bad", err, 400, inspector.FailuresHead+"Preprocessing hook b: bad")
			o.Hooks[0] = inspecttest.Before("b", func(context.Context, *document.Document) error { return nil })
			if _, err := s.Continue(o.Ctx, []byte(inspecttest.Stranger(`,"again":2`))); err != nil {
				t.Error(err)
			}
		})
		if n := len(o.Ironic.Nodes); n != 3 {
			t.Errorf("%d nodes, want the third", n)
		}
	})
}

// A driver that Ironic does not have ends a discovery at once, with the setting to mend.
func TestDiscoveryWithADriverThatIronicLacks(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Discovers()
		o.Ironic.Met("create", &ironic.Error{Status: 400, Message: "no driver x", Err: ironic.ErrNoDriver})
		o.Work(func(*work.Pool) {
			_, err := s.Continue(o.Ctx, []byte(inspecttest.Stranger("")))
			inspecttest.RefusedWith(t, "discovery-driver:", err, 400, inspector.FailuresHead+
				"Node not found hook failed: no driver x; set inspection.discovery.enroll_node_driver, or enable the driver in Ironic")
		})
	})
}

// A worker that is lost at any step of a discovery leaves it to the next, and
// there is one node in the end.
func TestDiscoveryIsMetAgain(t *testing.T) {
	for _, created := range []bool{false, true} {
		inspecttest.InRig(t, func(o *inspecttest.Rig) {
			s := o.Discovers()
			answered := o.Post(s, inspecttest.Stranger(""))
			v, err := o.Notifier.Wait(o.Ctx, func(v fsm.View) bool { return v.QueueLength() == 1 })
			if err != nil {
				t.Fatal(err)
			}
			other := o.RaftLog.NewSession("h2")
			request := slices.Collect(v.Queue())[0]
			inspecttest.Claimed(t, other, introspection.Queued{Request: request.Sequence})
			if created {
				if _, err := o.Ironic.CreateNode(o.Ctx, ironic.NewNode{UUID: request.Node}); err != nil {
					t.Fatal(err)
				}
			}
			other.Leave()
			o.RaftLog.Must(membership.EndSession{Session: other.ID()})
			o.Work(func(*work.Pool) {
				if err := <-answered; err != nil {
					t.Error(err)
				}
				o.Becomes(request.Node, introspection.NodeFinished, time.Second)
			})
			if n := len(o.Ironic.Nodes); n != 3 {
				t.Errorf("%d nodes, want the third", n)
			}
		})
	}
}

// Documents of one machine that name different MACs, at the same time: the second
// yields to the first.
func TestYoungerDiscoveryYields(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Discovers()
		const more = `{"inventory":{"interfaces":[{"name":"eth0","mac_address":"` + inspecttest.Strange +
			`"},{"name":"eth1","mac_address":"52:54:00:00:00:98"}]}}`
		var posts []<-chan error
		for _, body := range []string{inspecttest.Stranger(""), more} {
			// Both look before either has committed.
			o.Ironic.On(func(_ context.Context, call string) error {
				if strings.HasPrefix(call, "list ports") {
					time.Sleep(time.Second) // in a bubble
				}
				return nil
			})
			posts = append(posts, o.Post(s, body))
			time.Sleep(100 * time.Millisecond) // in a bubble
		}
		o.Work(func(*work.Pool) {
			if err := <-posts[0]; err != nil {
				t.Error(err)
			}
			err := <-posts[1]
			var said *inspector.Refusal
			if !errors.As(err, &said) || said.Status != 400 || !strings.Contains(said.Message, "Node not found hook failed: ") {
				t.Errorf("%v", err)
			}
		})
		if calls := o.Ironic.Sent("create"); len(calls) != 1 {
			t.Errorf("one-node: %v", calls)
		}
	})
}
