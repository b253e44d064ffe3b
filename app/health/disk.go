package health

import (
	"fmt"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/raftstore/ballast"
)

// diskWarnings are what is wrong with the disk of the data directory.
func diskWarnings(s ballast.State, directory string) []api.Warning {
	free := fmt.Sprintf("%s free of %s", ballast.Size(s.Free), ballast.Size(s.Size))
	remedy := "make room on the disk of " + directory + " ('df " + directory +
		"' shows it); this peer goes on by itself then"
	var out warningList
	switch {
	case s.Err != nil: // doctor tells it; nothing is known to be wrong
	case s.Dropped:
		out.add("disk_full", remedy,
			"the disk of the data directory is full, %s: this peer takes no entries of the log and cannot lead", free)
	case s.Free < s.Floor():
		out.add("disk_full", remedy, "the disk of the data directory is all but full, %s: this peer hands leadership on", free)
	case s.Free < s.Low():
		out.add("disk_low", remedy, "the disk of the data directory fills, %s", free)
	}
	return out
}
