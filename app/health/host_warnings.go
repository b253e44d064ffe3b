package health

import (
	"fmt"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/internal/logs"
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
		out.add("disk_full", remedy, "the disk of the data directory is all but full, %s: this peer hands leadership on",
			free)
	case s.Free < s.Low():
		out.add("disk_low", remedy, "the disk of the data directory fills, %s", free)
	}
	return out
}

// logWarnings tell that the log of this peer does not reach its readers, the audit among it.
func logWarnings(stream *logs.Queue) []api.Warning {
	var list warningList
	if why := stream.Fault(); why != nil {
		list.add("log_unread", "see to what reads it on this host, systemd-journald or the runtime of the container; "+
			"after \"broken pipe\": systemctl restart trivet. 'trivet watch --log' shows the newest lines meanwhile",
			"the log of this peer, on standard error, is not taken: %v; lines lost: %d", why, stream.Lost())
	}
	return list
}
