//go:build e2e

package labtest

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/httpapi"
	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/labtest/wiretap"
)

// ironicInspects lets Ironic's own inspect interface work through the floating
// IP: nodes are inspected and aborted, also when the leader dies between the
// start and the question how it went. Ironic must notice nothing.
func ironicInspects(t *testing.T, ironic *openstack.Ironic) {
	s := newFloating(t, ironic)
	machines := ironic.Enroll(0, 5)
	for _, m := range machines {
		inspectsByInspector(t, ironic, m)
	}
	s.Fleet(machines[:1], s.floating)

	ironic.Provision(machines[0], "inspect")
	s.manageable(ironic, machines[0])
	ironic.Provision(machines[1], "inspect")
	s.WaitState(endLimit, machines[1:2], "waiting")
	s.aborts(ironic, machines[1])

	late := machines[2:]
	for _, m := range late {
		ironic.Provision(m, "inspect")
	}
	s.WaitState(endLimit, late, "waiting")
	s.started(ironic, late)
	polls := ironic.Inspector.Inject(wiretap.Fault{Method: http.MethodGet, Path: "^/v1/introspection/", Hold: true})
	dead := s.WaitLeader()
	dead.Kill9()
	polls.Lift()
	for _, m := range late[:2] { // their ramdisks are up by now
		s.callback(m)
	}
	s.manageable(ironic, late[:2]...)
	s.aborts(ironic, late[2])
	dead.Start()
	s.WaitVoters(3)
	for _, m := range machines {
		if n := s.Tap.PowerCalls("rebooting")[m.UUID]; n != 1 {
			t.Errorf("%s was powered on %d times", m.Name, n)
		}
	}
}

// started waits until Ironic calls its starts done. openstacksdk reads what it
// has just created, and takes a failure of that for one of the start.
func (s *floatingLab) started(ironic *openstack.Ironic, machines []openstack.Machine) {
	s.t.Helper()
	for _, m := range machines {
		s.Eventually(endLimit, "Ironic has read the start of "+m.Name, func() error {
			for _, c := range ironic.Inspector.Calls(time.Time{}, http.MethodGet, "^/v1/introspection/"+m.UUID+"$") {
				if c.Status == http.StatusOK {
					return nil
				}
			}
			return errors.New("it has not")
		})
	}
}

// callback posts what a machine's ramdisk found, as often as it takes.
func (s *floatingLab) callback(m openstack.Machine) {
	s.t.Helper()
	client := &http.Client{Timeout: fleetLimit}
	s.Eventually(electLimit, "the data of "+m.Name+" is taken", func() error {
		return httpapi.OK(httpapi.Ask(client, s.floating, "POST", "/v1/continue", nil, m.Inventory()))
	})
}

// floatingLab is three peers behind a floating IP.
type floatingLab struct {
	*SiteLab
	floating string // host:port
}

// newFloating starts one and aims Ironic at it.
func newFloating(t *testing.T, ironic *openstack.Ironic) *floatingLab {
	l := NewHosts(t)
	address := l.net.site(floatingHost)
	s := &floatingLab{SiteLab: l.site(siteKind{ironic: ironic.Addr, floating: address, on: Site}),
		floating: address + ":5050"}
	s.Trio()
	ironic.Inspector.Aim(s.floating)
	s.Eventually(electLimit, "an answer on the floating IP", func() error {
		return httpapi.OK(httpapi.Ask(s.Peers[0].wire, s.floating, "GET", "/", nil, nil))
	})
	return s
}

// inspectsByInspector makes Ironic leave a node's inspection to the inspector.
func inspectsByInspector(t testing.TB, ironic *openstack.Ironic, m openstack.Machine) {
	t.Helper()
	patch := []map[string]string{{"op": "add", "path": "/inspect_interface", "value": "inspector"}}
	if err := ironic.Insist("PATCH", "/v1/nodes/"+m.UUID, patch); err != nil {
		t.Fatalf("%s: %v", m.Name, err)
	}
}

// manageable waits until Ironic has what the ramdisks found and calls the nodes
// inspected.
func (s *floatingLab) manageable(ironic *openstack.Ironic, machines ...openstack.Machine) {
	s.t.Helper()
	for _, m := range machines {
		s.provisioned(ironic, m, "manageable")
		s.Eventually(endLimit, "Ironic has fetched the data of "+m.Name, func() error {
			for _, c := range ironic.Inspector.Calls(time.Time{}, http.MethodGet, "^/v1/introspection/"+m.UUID+"/data$") {
				if c.Status == http.StatusOK {
					return nil
				}
			}
			return errors.New("it has not")
		})
	}
	s.MustFinish(endLimit, machines)
}

// provisioned waits until Ironic shows a node inspected or failed, which it
// does some time after the inspector.
func (s *floatingLab) provisioned(ironic *openstack.Ironic, m openstack.Machine, state string) {
	s.t.Helper()
	s.Eventually(endLimit, m.Name+" is "+state, func() error {
		node, err := ironic.Node(m.UUID)
		if err == nil && (node.Provision != state || state == "manageable" && node.Properties["memory_mb"] == nil) {
			err = fmt.Errorf("it is %q: %s", node.Provision, node.LastError)
		}
		return err
	})
}

// aborts ends the inspection of a node through Ironic.
func (s *floatingLab) aborts(ironic *openstack.Ironic, m openstack.Machine) {
	s.t.Helper()
	ironic.Provision(m, "abort")
	s.provisioned(ironic, m, "inspect failed")
	report := s.WaitState(endLimit, []openstack.Machine{m}, "error")[m.UUID]
	if report.Reason() != "Canceled by operator" {
		s.t.Errorf("%s ended with %q", m.Name, report.Reason())
	}
}
