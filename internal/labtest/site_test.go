//go:build e2e

package labtest

import (
	"testing"
)

// TestIronic is everything that needs a real Ironic; the subtests share one,
// wiped in between.
func TestIronic(t *testing.T) {
	ironic := StartIronic(t, 5)
	for _, c := range []struct {
		name string
		run  func(*testing.T, *Ironic)
	}{
		{"Golden", golden},
		{"Inspects", ironicInspects},
		{"Gophercloud", gophercloudClient},
		{"OpenStackSDK", openstackSDK},
		{"LeaderKilled", leaderKilled},
		{"PausedWorker", pausedWorker},
		{"PartitionedWorker", partitionedWorker},
		{"StoppedWorker", stoppedWorker},
		{"DoubtfulLists", doubtfulLists},
		{"Unreachable", unreachable},
		{"BadAnswers", badAnswers},
		{"LostAnswer", lostAnswer},
		{"Poison", poison},
	} {
		t.Run(c.name, func(t *testing.T) {
			own := ironic.For(t)
			own.Wipe()
			c.run(t, own)
		})
	}
}
