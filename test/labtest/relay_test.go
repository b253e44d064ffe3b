//go:build e2e

package labtest

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/test/labtest/httpapi"
	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/sandbox/simironic"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// TestRelayOutlivesIronicAndTwoLeaders posts the callbacks of fifty nodes that
// Ironic inspects itself while Ironic is down, 20 seconds (60 with
// TRIVET_E2E_LONG), and kills the leader twice meanwhile. All are accepted, and
// all reach Ironic once.
func TestRelayOutlivesIronicAndTwoLeaders(t *testing.T) {
	t.Parallel()
	const nodes = 50
	down := longer(20*time.Second, time.Minute)
	ironic := newFragile(t)
	l := New(t)
	l.furnish = func(p *Peer) {
		p.Env = append(p.Env, "TRIVET_IRONIC_ENDPOINT=http://"+ironic.addr, "TRIVET_FIREWALL_DRIVER=noop",
			"TRIVET_INSPECTION_CONTINUE_INSPECTION=relay")
	}
	var machines []openstack.Machine
	for n := range nodes {
		m := openstack.MachineNumber(n)
		e := simironic.Enrolment{UUID: m.UUID, Name: m.Name, BMC: m.BMC, State: "inspect wait"}
		if n%2 == 0 { // of the others Ironic alone can tell whose callback it is
			e.MACs = []string{m.MAC}
		}
		testenv.Must(t, ironic.Enroll(e))
		machines = append(machines, m)
	}
	l.Trio("alpha", "bravo", "charlie")

	ironic.stop()
	began := time.Now()
	for _, half := range [][]openstack.Machine{machines[:nodes/2], machines[nodes/2:]} {
		l.deliver(half)
		dead := l.WaitLeader()
		dead.Kill9()
		l.WaitLeader()
		l.deliver(half[:3]) // whose answers were lost
		dead.Start()
		l.WaitVoters(3)
	}
	t.Logf("accepted after %v", time.Since(began).Round(time.Second))
	testwait.Elapse(t, time.Until(began.Add(down)), "Ironic stays away")
	ironic.start()
	l.Eventually(90*time.Second, "Ironic has every callback", func() error {
		var relays []admin.Relay
		if err := l.Peers[0].Call("GET", "/v1/relays", nil, &relays); err != nil {
			return err
		}
		if len(relays) != nodes {
			t.Fatalf("%d documents are kept, want %d", len(relays), nodes)
		}
		for _, r := range relays {
			if r.State == "failed" {
				t.Fatalf("%+v", r)
			}
			if r.State != "taken" {
				return fmt.Errorf("%+v", r)
			}
		}
		return nil
	})
	for _, m := range machines {
		if n, _ := ironic.Look(m.UUID); n.Inspected != 1 {
			t.Errorf("%s: Ironic has %d callbacks of it", m.Name, n.Inspected)
		}
	}
	l.WaitSame()
}

// deliver posts the callbacks of machines until each is accepted.
func (l *Lab) deliver(machines []openstack.Machine) {
	l.t.Helper()
	err := httpapi.Parallel(len(machines), 4, func(k int) error {
		return l.Anywhere(electLimit, "the callback of "+machines[k].Name, func(p *Peer) error {
			reply, err := p.Ask("POST", "/v1/continue_inspection", machines[k].Inventory())
			if err != nil {
				return err
			}
			if reply.Status != http.StatusAccepted {
				return &httpapi.Refusal{Status: reply.Status, Body: string(reply.Body)}
			}
			var named struct{ UUID *string }
			if err := json.Unmarshal(reply.Body, &named); err != nil || named.UUID != nil && *named.UUID != machines[k].UUID {
				return &httpapi.Refusal{Status: reply.Status, Body: string(reply.Body)}
			}
			return nil
		})
	})
	testenv.Must(l.t, err)
}

// fragile is an Ironic in memory whose port can be shut.
type fragile struct {
	*simironic.Server
	t      *testing.T
	addr   string
	server *http.Server
}

func newFragile(t *testing.T) *fragile {
	f := &fragile{Server: simironic.New(simironic.Options{}), t: t, addr: testenv.FreePort(t)}
	f.start()
	t.Cleanup(func() {
		f.stop()
		f.Close()
	})
	return f
}

func (f *fragile) start() {
	f.t.Helper()
	listener, err := net.Listen("tcp", f.addr)
	testenv.Must(f.t, err)
	f.server = &http.Server{Handler: f.Server, ReadHeaderTimeout: callLimit}
	go func(s *http.Server) { _ = s.Serve(listener) }(f.server) // ends with stop, and says no more than that
}

func (f *fragile) stop() { _ = f.server.Close() } // what is under way is cut
