package options

import (
	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/cli/term"
)

// Unfinished refuses the peer of a data directory whose join was killed, or failed, before the configuration had
// what the cluster told this host: by defaults it would lead without the floating IP, or answer ramdisks with 404.
func Unfinished(dataDir string) error {
	shared, err := datadir.Unconfigured(dataDir)
	if err != nil || shared == nil {
		return err
	}
	return term.Fail(term.ExitUsage,
		"while it is stopped, as root, with any peer as HOST and without a token: 'trivet join HOST --unless-peer', "+
			"which completes the configuration",
		"the join of the peer in %s was not finished: the configuration lacks what the cluster told this host", dataDir)
}
