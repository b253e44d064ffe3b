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
	switch {
	case s.Err != nil:
		return nil // doctor tells it; nothing is known to be wrong
	case s.Dropped:
		return []api.Warning{{Code: "disk_full", Remedy: remedy,
			Text: fmt.Sprintf(
				"the disk of the data directory is full, %s: this peer takes no entries of the log and cannot lead", free)}}
	case s.Free < s.Floor():
		return []api.Warning{{Code: "disk_full", Remedy: remedy,
			Text: fmt.Sprintf("the disk of the data directory is all but full, %s: this peer hands leadership on", free)}}
	case s.Free < s.Low():
		return []api.Warning{{Code: "disk_low", Remedy: remedy,
			Text: fmt.Sprintf("the disk of the data directory fills, %s", free)}}
	}
	return nil
}

// registerDisk adds the figures of the data directory's disk.
func registerDisk(f *Figures, b *ballast.Ballast) {
	f.Gauge("disk_free_bytes", "Free space on the disk of the data directory.",
		func() float64 { return float64(b.State().Free) })
	f.Gauge("disk_size_bytes", "Size of the disk of the data directory.",
		func() float64 { return float64(b.State().Size) })
	f.Gauge("disk_ballast_bytes", "Space held back for when that disk is full.",
		func() float64 { return float64(b.State().Ballast) })
	f.Gauge("disk_full", "1 while the log takes no entries because that disk is full.",
		func() float64 { return BoolValue(b.State().Dropped) })
}
