package health

import (
	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/internal/logs"
)

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
