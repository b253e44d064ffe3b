//go:build e2e

package labtest

import (
	"testing"

	"github.com/trivet-ha/trivet/test/labtest/openstack"
)

// TestIronic and TestIronicInTrouble are everything that needs a real Ironic: what
// it and its clients see, and what becomes of its nodes when peers, Ironic or
// answers go. The subtests of each share one Ironic, wiped in between.
func TestIronic(t *testing.T) {
	withIronic(t, []ironicCase{
		{"Golden", golden},
		{"GoldenInARow", goldenInARow},
		{"Inspects", ironicInspects},
		{"Followed", ironicFollowed},
		{"Gophercloud", gophercloudClient},
		{"OpenStackSDK", openstackSDK},
		{"DoubtfulLists", doubtfulLists},
		{"BadAnswers", badAnswers},
		{"LostAnswer", lostAnswer},
	})
}

func TestIronicInTrouble(t *testing.T) {
	withIronic(t, []ironicCase{
		{"LeaderKilled", leaderKilled},
		{"PausedWorker", pausedWorker},
		{"PartitionedWorker", partitionedWorker},
		{"StoppedWorker", stoppedWorker},
		{"Unreachable", unreachable},
		{"Poison", poison},
	})
}

type ironicCase struct {
	name string
	run  func(*testing.T, *openstack.Ironic)
}

func withIronic(t *testing.T, cases []ironicCase) {
	t.Parallel()
	ironic := openstack.StartIronic(t, 5)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			own := ironic.For(t)
			own.Wipe()
			c.run(t, own)
		})
	}
}

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
