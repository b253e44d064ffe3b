//go:build e2e

package labtest

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/sandbox/simironic"
	"github.com/trivet-ha/trivet/test/testenv"
)

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
