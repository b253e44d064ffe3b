package health

import (
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/raftstore/ballast"
)

// TestDiskRemedyNamesTheDirectory: who reads that a disk is full knows which one.
func TestDiskRemedyNamesTheDirectory(t *testing.T) {
	for name, s := range map[string]ballast.State{
		"full":         {Space: ballast.Space{Size: 1 << 30}, Dropped: true},
		"all but full": {Space: ballast.Space{Free: 1 << 20, Size: 1 << 40}},
		"low":          {Space: ballast.Space{Free: 100 << 20, Size: 1 << 40}},
	} {
		if w := diskWarnings(s, "/srv/trivet"); len(w) != 1 || !strings.Contains(w[0].Remedy, "/srv/trivet") {
			t.Errorf("disk-is-named: %s: %+v", name, w)
		}
	}
}
