//go:build e2e

package labtest

import (
	"testing"

	"github.com/trivet-ha/trivet/test/labtest/openstack"
)

// TestIronicItself tries the lab's own Ironic: nodes come and go, over pages,
// also across a restart.
func TestIronicItself(t *testing.T) {
	t.Parallel()
	i := openstack.StartIronic(t, 3)
	machines := i.Enroll(0, 7)
	i.Stop()
	i.Start()
	ids, err := i.NodeIDs()
	if err != nil || len(ids) != len(machines) {
		t.Fatalf("%d nodes (%v), want %d", len(ids), err, len(machines))
	}
	ports, err := i.Ports(machines[6].UUID)
	if err != nil || len(ports) != 1 || ports[0].Address != machines[6].MAC {
		t.Fatalf("ports of the last: %v (%v)", ports, err)
	}
	i.Wipe()
	if ids, err = i.NodeIDs(); err != nil || len(ids) != 0 {
		t.Fatalf("%d nodes are left (%v)", len(ids), err)
	}
}
