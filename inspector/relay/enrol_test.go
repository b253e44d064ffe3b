package relay_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/ironicports"
	"github.com/trivet-ha/trivet/fsm/relays"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/internal/pace"
	"github.com/trivet-ha/trivet/test/inspecttest"
)

// discovering is an Ironic that enrols each machine that it has no port of, before it looks for a
// worker, as Ironic 39 does.
type discovering struct {
	mu       sync.Mutex
	enrolled int
	ports    bool          // the hooks are through
	takes    time.Duration // to answer
	busy     bool          // no conductor has a free worker
	away     int           // calls that meet a proxy, and no Ironic behind it
}

func (d *discovering) Continue(ctx context.Context, _ ironic.InbandCall) (ironic.InbandAnswer, error) {
	d.mu.Lock()
	known, takes, busy, away := d.ports, d.takes, d.busy, d.away > 0
	switch {
	case away:
		d.away--
	case !known:
		d.enrolled++
	}
	d.mu.Unlock()
	select {
	case <-ctx.Done():
		return ironic.InbandAnswer{}, &ironic.Error{Message: "no answer from Ironic", Err: ctx.Err()}
	case <-time.After(takes): // in a bubble
	}
	switch {
	case away:
		return ironic.InbandAnswer{Status: http.StatusServiceUnavailable, Reason: "no server is available"}, nil
	case known: // in enroll, which waits for nothing
		return ironic.InbandAnswer{Status: http.StatusNotFound, Reason: "Resource could not be found.", Absent: true}, nil
	case busy:
		return ironic.InbandAnswer{Status: http.StatusServiceUnavailable, Reason: "no free conductor workers", Own: true}, nil
	}
	return ironic.InbandAnswer{Status: http.StatusAccepted, Body: []byte(`{"uuid":"` + inspecttest.NodeB + `"}`)}, nil
}

// One document enrols a machine once, whatever its one attempt meets; the relay ends as Ironic's
// ports show, or says where to look.
func TestRelayEnrolsAMachineOnce(t *testing.T) {
	for _, c := range []struct {
		name    string
		ironic  *discovering
		kill    time.Duration // the first peer dies after it, and the ramdisk posts to the next; 0: none
		outage  bool          // the leader makes the attempt
		ports   time.Duration // after which Ironic shows the port of its MAC; 0: never
		state   relays.State
		because string
	}{
		{name: "at once", ironic: &discovering{}, ports: time.Hour, state: relays.Taken},
		{name: "an answer after 12 s", ironic: &discovering{takes: 12 * time.Second}, ports: 20 * time.Second,
			state: relays.Taken, because: "the answer was lost"},
		{name: "after 35 s, with ports after 3 min", ironic: &discovering{takes: 35 * time.Second}, ports: 3 * time.Minute,
			state: relays.Taken, because: "the answer was lost"},
		{name: "after 12 s, without ports", ironic: &discovering{takes: 12 * time.Second},
			state: relays.Failed, because: "Ironic may have enrolled the machine"},
		{name: "no worker", ironic: &discovering{busy: true},
			state: relays.Failed, because: "Ironic may have enrolled the machine"},
		{name: "no worker, for the leader", ironic: &discovering{busy: true}, outage: true,
			state: relays.Failed, because: "Ironic may have enrolled the machine"},
		{name: "a proxy without Ironic", ironic: &discovering{away: 20}, ports: time.Hour, state: relays.Taken},
		{name: "the peer is killed", ironic: &discovering{takes: time.Second}, kill: 500 * time.Millisecond,
			ports: time.Minute, state: relays.Taken, because: "the answer was lost"},
	} {
		inRelay(t, func(o *inspecttest.Rig, _ *inspecttest.Service, e *otherIronic) {
			o.Handover = c.ironic
			delete(o.Ironic.PortsOf, inspecttest.NodeB)
			if c.outage {
				e.on(func(bool) (int, error) { return unsent() })
				o.Handover = e
			}
			ctx, cancel := context.WithCancel(o.Ctx)
			defer cancel()
			if c.kill > 0 {
				time.AfterFunc(c.kill, cancel) // in a bubble
			}
			call := ironic.InbandCall{Body: []byte(inspecttest.Callback(inspecttest.MacB, ""))}
			_, err := o.Service().ContinueInspection(ctx, call)
			if r := o.RaftLog.Truth().RelaysPending(); c.kill > 0 && r != 1 || c.kill == 0 && err != nil {
				t.Errorf("enrolled-once: %s: %d relays are in the log: %v", c.name, r, err)
			}
			for range 3 {
				posts(o, o.Service(), string(call.Body))
			}
			o.Handover = c.ironic
			o.Leads(func() { time.Sleep(c.ports) }) // in a bubble
			if c.ports != 0 {
				c.ironic.ports = true
				leads(o, ironicports.PutPorts{
					Ports: []ironicports.Port{{ID: "q", MAC: inspecttest.MacB, Node: inspecttest.NodeB}}})
			}
			o.Leads(func() {
				r := o.Settles(20 * time.Minute)
				if r.State != c.state || !strings.Contains(r.Reason, c.because) || c.ports != 0 && r.Node != inspecttest.NodeB {
					t.Errorf("enrolled-once: %s: %+v", c.name, r)
				}
			})
			if c.ironic.enrolled != 1 {
				t.Errorf("enrolled-once: %s: Ironic has %d nodes of one document", c.name, c.ironic.enrolled)
			}
		})
	}
}

// A machine that the list of ports does not name, as where no filter needs one, is none that Ironic enrols
// if Ironic finds it, by a port or by its BMC: what was met once is met once.
func TestRelayOfAMachineThatIronicKnows(t *testing.T) {
	const bmc = "198.18.0.9"
	shown := map[string]func(o *inspecttest.Rig){
		"by a port": func(*inspecttest.Rig) {},
		"by its BMC": func(o *inspecttest.Rig) {
			delete(o.Ironic.PortsOf, inspecttest.NodeB)
			o.Ironic.Set(inspecttest.NodeB, func(n *ironic.Node) {
				n.Provision, n.DriverInfo = ironic.InspectWait, map[string]any{"ipmi_address": bmc}
			})
		},
		"by the BMC of a chassis": func(o *inspecttest.Rig) { chassis(o, bmc, 16) },
		"by ports of two nodes": func(o *inspecttest.Rig) {
			delete(o.Ironic.PortsOf, inspecttest.NodeB)
			leads(o, ironicports.PutPorts{Ports: []ironicports.Port{{ID: "q", MAC: inspecttest.MacB, Node: inspecttest.NodeB},
				{ID: "r", MAC: inspecttest.MacB, Node: inspecttest.NodeA}}})
		},
	}
	for how, show := range shown {
		for _, status := range []int{http.StatusConflict, http.StatusInternalServerError, http.StatusBadGateway,
			http.StatusGatewayTimeout, 0} {
			inRelay(t, func(o *inspecttest.Rig, s *inspecttest.Service, e *otherIronic) {
				show(o)
				e.on(meetsFirst(status))
				posts(o, s, inspecttest.Callback(inspecttest.MacB, `,"ipmi_address":"`+bmc+`"`))
				o.Leads(func() {
					if r := o.Settles(20 * time.Minute); r.State != relays.Taken || e.sent() != 2 {
						t.Errorf("known-to-ironic: %s: after %d: %v by %d posts: %s", how, status, r.State, e.sent(), r.Reason)
					}
				})
			})
		}
	}
}

// chassis has Ironic know NodeB, which waits for a document, by the address of its BMC alone, and others
// there, which it lists before.
func chassis(o *inspecttest.Rig, bmc string, nodes int) {
	delete(o.Ironic.PortsOf, inspecttest.NodeB)
	at := map[string]any{"ipmi_address": bmc}
	o.Ironic.Set(inspecttest.NodeB, func(n *ironic.Node) { n.Provision, n.DriverInfo = ironic.InspectWait, at })
	for n := range nodes - 1 {
		uuid := fmt.Sprintf("00000000-0000-4000-8000-%012d", n)
		o.Ironic.Set(uuid, func(n *ironic.Node) { n.UUID, n.Provision, n.DriverInfo = uuid, "manageable", at })
	}
}

// Of a chassis with more nodes than are read nothing is sure: its document is not called taken.
func TestRelayFromALargeChassis(t *testing.T) {
	const bmc = "198.18.0.9"
	inRelay(t, func(o *inspecttest.Rig, s *inspecttest.Service, e *otherIronic) {
		chassis(o, bmc, 40)
		e.on(meetsFirst(http.StatusConflict))
		posts(o, s, inspecttest.Callback(inspecttest.MacB, `,"ipmi_address":"`+bmc+`"`))
		o.Leads(func() {
			if r := o.Settles(time.Hour); r.State != relays.Failed || !strings.Contains(r.Reason, "40 nodes of Ironic have") {
				t.Errorf("large-chassis: %v by %d posts: %s", r.State, e.sent(), r.Reason)
			}
		})
	})
}

// meetsFirst answers the first document with a status, or with none for 0, and takes the next.
func meetsFirst(status int) func(bool) (int, error) {
	met := false
	return func(bool) (int, error) {
		if met {
			return 0, nil
		}
		if met = true; status == 0 {
			return 0, &ironic.Error{Message: "the connection was closed before the answer"}
		}
		return status, nil
	}
}

// A machine whose document met a locked node, or lost its answer, is found in lists that Ironic takes long for.
func TestRelayWhereIronicsListsTakeLong(t *testing.T) {
	const bmc = "198.18.0.9"
	for how, show := range map[string]func(o *inspecttest.Rig){
		"by a port": func(*inspecttest.Rig) {},
		"by its BMC": func(o *inspecttest.Rig) {
			delete(o.Ironic.PortsOf, inspecttest.NodeB)
			o.Ironic.Set(inspecttest.NodeB, func(n *ironic.Node) {
				n.Provision, n.DriverInfo = ironic.InspectWait, map[string]any{"ipmi_address": bmc}
			})
		},
	} {
		for _, lists := range []time.Duration{time.Second, 4 * time.Second, 8 * time.Second, 20 * time.Second} {
			for _, status := range []int{http.StatusConflict, 0} {
				inRelay(t, func(o *inspecttest.Rig, s *inspecttest.Service, e *otherIronic) {
					show(o)
					read := 0
					o.Ironic.On(func(ctx context.Context, call string) error {
						if strings.HasPrefix(call, "list") {
							read++
							pace.Wait(ctx, lists)
						}
						return ctx.Err()
					})
					e.on(meetsFirst(status))
					posts(o, s, inspecttest.Callback(inspecttest.MacB, `,"ipmi_address":"`+bmc+`"`))
					o.Leads(func() {
						if r := o.Settles(20 * time.Minute); r.State != relays.Taken || e.sent() != 2 || read > 6 {
							t.Errorf("long-lists: %s, %v, after %d: %v by %d posts and %d lists: %s", how, lists, status, r.State,
								e.sent(), read, r.Reason)
						}
					})
				})
			}
		}
	}
}

// What Ironic was not asked is no reason to delete a node; a node with the machine's BMC that waits for no
// document has it.
func TestRelayInDoubtSaysWhatIronicShows(t *testing.T) {
	for what, c := range map[string]struct {
		provision string
		away      bool
		state     relays.State
		because   string
	}{
		"not asked":      {away: true, state: relays.Failed, because: "did not say whether it knows the machine"},
		"its BMC's node": {provision: "manageable", state: relays.Taken, because: "waits for no document"},
		"no node":        {state: relays.Failed, because: "delete it"},
	} {
		inRelay(t, func(o *inspecttest.Rig, s *inspecttest.Service, e *otherIronic) {
			delete(o.Ironic.PortsOf, inspecttest.NodeB)
			if c.provision != "" {
				o.Ironic.Set(inspecttest.NodeB, func(n *ironic.Node) {
					n.Provision, n.DriverInfo = c.provision, map[string]any{"ipmi_address": "198.18.0.9"}
				})
			}
			if c.away {
				o.Ironic.On(func(_ context.Context, call string) error {
					if strings.HasPrefix(call, "list") {
						return &ironic.Error{Message: "no answer"}
					}
					return nil
				})
			}
			e.on(lostAnswer)
			posts(o, s, inspecttest.Callback(inspecttest.MacB, `,"ipmi_address":"198.18.0.9"`))
			o.Leads(func() {
				r := o.Settles(20 * time.Minute)
				if r.State != c.state || !strings.Contains(r.Reason, c.because) || e.sent() != 1 ||
					c.away && strings.Contains(r.Reason, "delete") {
					t.Errorf("doubt-told: %s: %v by %d posts: %s", what, r.State, e.sent(), r.Reason)
				}
			})
		})
	}
}
