//go:build e2e

package labtest

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/httpapi"
	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/labtest/wiretap"
	"github.com/trivet-ha/trivet/test/sandbox/machine"
	"github.com/trivet-ha/trivet/test/sandbox/simironic"
	"github.com/trivet-ha/trivet/test/testenv"
)

// endLimit is what a handful of introspections may take when nothing is in
// their way.
const endLimit = 60 * time.Second

// SiteLab is a lab whose peers introspect: each reaches Ironic through a door
// of its own in one tap.
type SiteLab struct {
	*Lab
	Tap *wiretap.Tap
}

// fleetLimit is how long a simulated machine waits for the answer of one peer
// before it asks the next: shorter than real ramdisks do, because a test that
// stops a peer does not want to wait for them.
const fleetLimit = 5 * time.Second

// Introspecting puts a tap between the peers that l is going to have and the
// Ironic at host:port. Every peer runs with env.
func (l *Lab) Introspecting(ironic string, env ...string) *SiteLab {
	s := &SiteLab{Lab: l, Tap: wiretap.New(l.t, ironic)}
	host := "127.0.0.1"
	if l.net != nil {
		host = l.net.Gateway
	}
	l.furnish = func(p *Peer) {
		door := s.Tap.Door(p.Name, net.JoinHostPort(host, "0"))
		p.Env = append(append(p.Env, "TRIVET_IRONIC_ENDPOINT=http://"+door, "TRIVET_FIREWALL_DRIVER=noop"), env...)
	}
	return s
}

// siteKind is what distinguishes one site of hosts from another.
type siteKind struct {
	ironic   string      // host:port
	driver   string      // of the filter where machines boot; "": none do
	floating string      // the floating IP; "": there is none
	on       Link        // where that is
	env      []string    // more of every peer
	furnish  func(*Peer) // completes a new peer, if not nil
}

// site makes the hosts of l such a site, on which no peer is yet.
func (l *Lab) site(k siteKind) *SiteLab {
	l.t.Helper()
	var env []string
	if k.driver != "" {
		l.net.bridge(PXE)
		env = append(env, "TRIVET_FIREWALL_DRIVER="+k.driver, "TRIVET_FIREWALL_INTERFACE="+string(PXE))
	}
	if k.floating != "" {
		env = append(env, "TRIVET_FLOATING_IP_ADDRESS="+k.floating, "TRIVET_FLOATING_IP_INTERFACE="+string(k.on))
	}
	s := l.Introspecting(k.ironic, append(env, k.env...)...)
	l.also(func(p *Peer) {
		if k.driver != "" {
			p.Host.plug(PXE, p.Host.pxe())
		}
		if k.floating != "" {
			p.Listen = ":5050" // the floating IP comes and goes
		}
		if k.furnish != nil {
			k.furnish(p)
		}
	})
	return s
}

// also completes each new peer further.
func (l *Lab) also(furnish func(*Peer)) {
	before := l.furnish
	l.furnish = func(p *Peer) {
		before(p)
		furnish(p)
	}
}

// Trio starts three peers whose names can be told from other words in a text.
func (s *SiteLab) Trio() {
	s.t.Helper()
	s.Lab.Trio("alpha", "bravo", "charlie")
}

// Reconfigure gives every peer more environment and starts them again, one
// after the other.
func (s *SiteLab) Reconfigure(env ...string) {
	s.t.Helper()
	for _, p := range s.Peers {
		p.Stop()
		p.Env = append(p.Env, env...)
		p.Start()
		s.WaitLeader()
	}
	s.WaitVoters(len(s.Peers))
}

// Fleet returns simulated hardware of the machines. What the tap sees switched
// on boots within a moment and posts its inventory to the addresses given,
// host:port, or to the peers if there are none.
func (s *SiteLab) Fleet(machines []openstack.Machine, callbacks ...string) *machine.Fleet {
	return s.fleet(machines, 50*time.Millisecond, 300*time.Millisecond, callbacks...)
}

// fleet is Fleet with the bounds of how long a machine takes to boot.
func (s *SiteLab) fleet(machines []openstack.Machine, least, most time.Duration, callbacks ...string) *machine.Fleet {
	if len(callbacks) == 0 {
		for _, p := range s.Peers {
			callbacks = append(callbacks, p.API)
		}
	}
	for i, addr := range callbacks {
		callbacks[i] = "http://" + addr + "/v1/continue"
	}
	fleet := machine.NewFleet(machine.Options{
		Callbacks: callbacks, BootLeast: least, BootMost: most,
		Client: &http.Client{Timeout: fleetLimit}, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	for _, m := range machines {
		fleet.Add(m.Hardware())
	}
	s.Tap.Watch(func(c wiretap.Call) {
		if node, target := c.Power(); c.Status/100 == 2 {
			fleet.Power(node, target)
		}
	})
	s.t.Cleanup(func() {
		s.Tap.Watch(nil)
		fleet.Close()
	})
	return fleet
}

// Introspect starts every machine, through the peer that via names for it or
// another if that one cannot.
func (s *SiteLab) Introspect(machines []openstack.Machine, via ...*Peer) {
	s.t.Helper()
	if len(via) == 0 {
		via = s.Running()
	}
	err := httpapi.Parallel(len(machines), openstack.IronicWidth, func(k int) error {
		first := via[k%len(via)]
		err := first.Introspect(machines[k].UUID)
		if retryable(err) {
			err = s.Anywhere(electLimit, "start of "+machines[k].Name,
				func(p *Peer) error { return p.Introspect(machines[k].UUID) })
		}
		return err
	})
	if err != nil {
		s.t.Fatalf("start %d introspections: %v", len(machines), err)
	}
}

// InState returns how many of the machines are in a state, as a running peer
// tells, and all their reports by UUID.
func (s *SiteLab) InState(machines []openstack.Machine, states ...string) (n int, all map[string]openstack.Report,
	err error) {
	var list []openstack.Report
	err = s.Anywhere(electLimit, "list introspections", func(p *Peer) (err error) {
		list, err = p.Reports()
		return err
	})
	all = make(map[string]openstack.Report, len(list))
	for _, r := range list {
		all[r.UUID] = r
	}
	for _, m := range machines {
		if slices.Contains(states, all[m.UUID].State) {
			n++
		}
	}
	return n, all, err
}

// WaitState waits until all the machines are in one of the states.
func (s *SiteLab) WaitState(limit time.Duration, machines []openstack.Machine,
	states ...string) map[string]openstack.Report {
	s.t.Helper()
	var reports map[string]openstack.Report
	s.Eventually(limit, fmt.Sprintf("%d nodes are %s", len(machines), strings.Join(states, " or ")), func() error {
		n, all, err := s.InState(machines, states...)
		if err == nil && n != len(machines) {
			err = errors.New(summary(machines, all))
		}
		reports = all
		return err
	})
	return reports
}

// WaitEnd waits until all the machines are finished or in error.
func (s *SiteLab) WaitEnd(limit time.Duration, machines []openstack.Machine) map[string]openstack.Report {
	s.t.Helper()
	return s.WaitState(limit, machines, "finished", "error")
}

// MustFinish waits for the end of all and wants every one finished.
func (s *SiteLab) MustFinish(limit time.Duration, machines []openstack.Machine) {
	s.t.Helper()
	for node, r := range s.WaitEnd(limit, machines) {
		if r.State == "error" && slices.ContainsFunc(machines, func(m openstack.Machine) bool { return m.UUID == node }) {
			s.t.Errorf("node %s ended in error: %s", node, r.Reason())
		}
	}
}

// named reports whether a text names the peer.
func (p *Peer) named(text string) bool { return strings.Contains(text, p.Name) }

// summary counts the states of the machines.
func summary(machines []openstack.Machine, all map[string]openstack.Report) string {
	count := make(map[string]int)
	for _, m := range machines {
		count[all[m.UUID].State]++
	}
	return fmt.Sprint(count)
}

// among is an expression for the paths of these machines in Ironic.
func among(machines []openstack.Machine, rest string) string {
	names := make([]string, len(machines))
	for i, m := range machines {
		names[i] = m.UUID
	}
	return "^/v1/nodes/(" + strings.Join(names, "|") + ")" + rest
}

// checkInventory looks whether Ironic shows what the machines' ramdisks found.
func checkInventory(t *testing.T, ironic *openstack.Ironic, machines []openstack.Machine) {
	t.Helper()
	for _, m := range machines {
		node, err := ironic.Node(m.UUID)
		if err != nil {
			t.Errorf("%s: %v", m.Name, err)
			continue
		}
		for _, key := range []string{"cpus", "cpu_arch", "memory_mb"} {
			if node.Properties[key] == nil || node.Properties[key] == "" {
				t.Errorf("%s: Ironic shows no %s: %v", m.Name, key, node.Properties)
			}
		}
		ports, err := ironic.Ports(m.UUID)
		if err != nil || len(ports) != 1 || ports[0].Address != m.MAC || !ports[0].PXEEnabled {
			t.Errorf("%s: Ironic shows ports %+v (%v), want the one that booted", m.Name, ports, err)
		}
	}
}

// simulated is an Ironic in memory, for tests that need thousands of nodes.
type simulated struct {
	addr     string
	machines []openstack.Machine
}

func newSimulated(t *testing.T, nodes int) *simulated {
	t.Helper()
	server := simironic.New(simironic.Options{})
	sim := &simulated{}
	for n := range nodes {
		m := openstack.MachineNumber(n)
		enrol(t, server, m)
		sim.machines = append(sim.machines, m)
	}
	web := httptest.NewServer(server)
	t.Cleanup(func() {
		web.Close()
		server.Close()
	})
	sim.addr = strings.TrimPrefix(web.URL, "http://")
	return sim
}

// enrol makes a node of a machine in an Ironic in memory.
func enrol(t testing.TB, server *simironic.Server, m openstack.Machine) {
	t.Helper()
	testenv.Must(t, server.Enroll(simironic.Enrolment{UUID: m.UUID, Name: m.Name, BMC: m.BMC, MACs: []string{m.MAC}}))
}
