package inspector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/inspector/identify"
)

// A machine that nobody knows.
const strange = "52:54:00:00:00:99"

// stranger is its ramdisk's document; more is further members of the inventory.
func stranger(more string) string {
	return fmt.Sprintf(`{"inventory":{"interfaces":[{"name":"eth0","mac_address":%q},{"name":"lo","mac_address":"00:00:00:00:00:00"}]%s}}`, strange, more)
}

// discovers makes the service enroll unknown machines.
func (o *rig) discovers() *Service {
	o.conf.Processing.NodeNotFoundHook = "enroll"
	o.conf.Discovery.EnrollNodeFields = []string{"resource_class:found"}
	return o.service()
}

// A machine that nobody knows gets one node, whatever happens on the way; its
// data is processed like that of others, and says how the machine was found.
func TestDiscovery(t *testing.T) {
	inRig(t, func(o *rig) {
		s := o.discovers()
		var made NewNode
		o.ironic.made = func(n NewNode) { made = n }
		o.hooks = []Hook{afterHook{"a", func(ctx context.Context, task *Task) error {
			if string(task.Data.Value(keyDiscovered).Raw()) != "true" {
				t.Error("the hooks do not learn that the machine was discovered")
			}
			return task.PatchNode(ctx)
		}}}
		o.work(func(*WorkerPool) {
			body := stranger(`,"bmc_address":"198.18.0.9","bmc_v6address":"2001:db8::9"`)
			node, err := s.Continue(o.ctx, []byte(body))
			if err != nil {
				t.Fatal(err)
			}
			if again, err := s.Continue(o.ctx, []byte(body)); err != nil || again != node {
				t.Errorf("repeated: %s, %v", again, err)
			}
			rec := o.becomes(node, introspection.NodeFinished, time.Second)
			if rec.Error != "" || !rec.ManageBoot {
				t.Errorf("%+v", rec)
			}
			o.becomes(node, introspection.NodeFinished, time.Second)
			if data, err := s.Data(o.ctx, node, true, Linearizable); err != nil || !strings.HasSuffix(string(data), `,"auto_discovered":true}`) {
				t.Errorf("%s, %v", data, err)
			}
			if data, err := s.Data(o.ctx, node, false, Linearizable); err != nil || string(data) != body {
				t.Errorf("%s, %v", data, err)
			}
			want := NewNode{UUID: node, Driver: "fake-hardware", DriverInfo: map[string]any{"ipmi_address": "198.18.0.9"}, Fields: map[string]string{"resource_class": "found"}}
			if fmt.Sprint(made) != fmt.Sprint(want) {
				t.Errorf("created %v, want %v", made, want)
			}
		})
		for call, want := range map[string]int{"create node": 1, "list ports": 2, "patch": 1, PowerOff: 1} {
			if calls := o.ironic.sent(call); len(calls) != want {
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
		{"4,6", both, "198.18.0.9"}, {"6,4", both, "2001:db8::9"}, {"6", both, "2001:db8::9"}, {"4", `,"bmc_v6address":"2001:db8::9"`, nil},
		{"4,6", `,"bmc_address":"0.0.0.0","bmc_v6address":"2001:DB8::9"`, "2001:db8::9"}, {"4", `,"bmc_address":"a.name"`, nil}, {"4,6", "", nil},
	} {
		machine := identify.Of(parsed(t, stranger(c.bmc)))
		conf := configDiscovery(strings.Split(c.versions, ","))
		if got := enrolled("n", machine, conf).DriverInfo["ipmi_address"]; got != c.want {
			t.Errorf("%s of %s: %v, want %v", c.versions, c.bmc, got, c.want)
		}
	}
}

func TestDiscoveryIsRefused(t *testing.T) {
	const line = failuresHead + "Node not found hook failed: "
	for _, c := range []struct {
		name, body string
		before     func(o *rig)
		status     int
		message    string
	}{
		{"a port of it exists", stranger(""), func(o *rig) {
			o.ironic.ports[nodeA] = append(o.ironic.ports[nodeA], Port{UUID: "p", Node: nodeA, Address: strange})
		},
			400, line + "Port " + strange + " already exists, uuid: p"},
		{"its BMC is known", stranger(`,"bmc_address":"198.18.0.9"`), func(o *rig) {
			o.ironic.set(nodeB, func(n *Node) { n.DriverInfo = map[string]any{"redfish_address": "https://bmc.example/"} })
			o.zone = zone{"bmc.example": {"198.18.0.8", "198.18.0.9"}}
		}, 400, line + "Node " + nodeB + " already has BMC address 198.18.0.9"},
		{"nothing to tell it by", `{}`, nil, 400, line + "the data has no MAC and no BMC address by which the machine could be told from others"},
		{"example", `{}`, func(o *rig) { o.conf.Processing.NodeNotFoundHook = "example" }, 400, failuresHead + "Node not found hook returned nothing"},
		{"Ironic is away", stranger(""), func(o *rig) { o.ironic.met("list ports", away()) }, 503, "Ironic cannot be reached: connection refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inRig(t, func(o *rig) {
				o.discovers()
				if c.before != nil {
					c.before(o)
				}
				_, err := o.service().Continue(o.ctx, []byte(c.body))
				refusedWith(t, c.name, err, c.status, c.message)
				if n := o.raftLog.truth().Nodes(); n != 0 || len(o.ironic.sent("create")) != 0 {
					t.Errorf("%d records, %v", n, o.ironic.sent("create"))
				}
			})
		})
	}
}

// What Ironic has against the node ends the introspection, and the ramdisk is
// told; the next time it may have nothing against it.
func TestIronicRefusesTheNode(t *testing.T) {
	inRig(t, func(o *rig) {
		s := o.discovers()
		o.hooks = []Hook{beforeHook{"b", func(context.Context, *Document) error { return Failed("bad") }}}
		o.ironic.met("create", &IronicError{Status: 400, Message: "no such driver"})
		o.work(func(*WorkerPool) {
			_, err := s.Continue(o.ctx, []byte(stranger("")))
			refusedWith(t, "no driver", err, 400, failuresHead+"Preprocessing hook b: bad\nNode not found hook failed: no such driver")
			o.ironic.answers()
			_, err = s.Continue(o.ctx, []byte(stranger(`,"again":1`)))
			refusedWith(t, "the data is bad", err, 400, failuresHead+"Preprocessing hook b: bad")
			o.hooks[0] = beforeHook{"b", func(context.Context, *Document) error { return nil }}
			if _, err := s.Continue(o.ctx, []byte(stranger(`,"again":2`))); err != nil {
				t.Error(err)
			}
		})
		if n := len(o.ironic.nodes); n != 3 {
			t.Errorf("%d nodes, want the third", n)
		}
	})
}

// A worker that is lost at any step of a discovery leaves it to the next, and
// there is one node in the end.
func TestDiscoveryIsMetAgain(t *testing.T) {
	for _, created := range []bool{false, true} {
		inRig(t, func(o *rig) {
			s := o.discovers()
			answered := o.post(s, stranger(""))
			v, err := o.notifier.Wait(o.ctx, func(v fsm.View) bool { return v.QueueLength() == 1 })
			if err != nil {
				t.Fatal(err)
			}
			other := o.raftLog.newSession("h2")
			request := slices.Collect(v.Queue())[0]
			claimed(t, other, introspection.Queued{Request: request.Sequence})
			if created {
				if _, err := o.ironic.CreateNode(o.ctx, NewNode{UUID: request.Node}); err != nil {
					t.Fatal(err)
				}
			}
			other.leave()
			o.raftLog.must(membership.EndSession{Session: other.ID()})
			o.work(func(*WorkerPool) {
				if err := <-answered; err != nil {
					t.Error(err)
				}
				o.becomes(request.Node, introspection.NodeFinished, time.Second)
			})
			if n := len(o.ironic.nodes); n != 3 {
				t.Errorf("%d nodes, want the third", n)
			}
		})
	}
}

// Documents of one machine that name different MACs, at the same time: the second
// yields to the first.
func TestYoungerDiscoveryYields(t *testing.T) {
	inRig(t, func(o *rig) {
		s := o.discovers()
		const more = `{"inventory":{"interfaces":[{"name":"eth0","mac_address":"` + strange + `"},{"name":"eth1","mac_address":"52:54:00:00:00:98"}]}}`
		var posts []<-chan error
		for _, body := range []string{stranger(""), more} {
			// Both look before either has committed.
			o.ironic.on(func(_ context.Context, call string) error {
				if strings.HasPrefix(call, "list ports") {
					time.Sleep(time.Second) // in a bubble
				}
				return nil
			})
			posts = append(posts, o.post(s, body))
			time.Sleep(100 * time.Millisecond) // in a bubble
		}
		o.work(func(*WorkerPool) {
			if err := <-posts[0]; err != nil {
				t.Error(err)
			}
			err := <-posts[1]
			var said *Refusal
			if !errors.As(err, &said) || said.Status != 400 || !strings.Contains(said.Message, "Node not found hook failed: ") {
				t.Errorf("%v", err)
			}
		})
		if calls := o.ironic.sent("create"); len(calls) != 1 {
			t.Errorf("one-node: %v", calls)
		}
	})
}

// The synchronisation does not delete a machine that is about to get its node.
func TestSyncLeavesEnrollingAlone(t *testing.T) {
	inRig(t, func(o *rig) {
		o.raftLog.must(introspection.Start{Node: nodeB, Event: introspection.EventEnroll, Timeout: time.Hour})
		o.accept(nodeA, macA)
		if got := recorded(o.raftLog.truth()); !slices.Equal(got, []string{nodeA}) {
			t.Errorf("%v", got)
		}
	})
}
