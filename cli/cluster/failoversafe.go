package cluster

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/cli/term"
)

// FailoverSafe is 'trivet failover-safe'.
func FailoverSafe(t *term.Terminal, peer term.Peer) *cobra.Command {
	return term.Verb[admin.Verdict]{
		Use:   "failover-safe [PEER]",
		Short: "Say whether a peer may be stopped now, for scripts",
		Long: "Say in one sentence how many voters the cluster can lose, and whether a peer, by name or ID, may be stopped now; without one this peer.\n" +
			"The leader is asked, at most 1 s: it proves that it leads, and knows who keeps up with the log and who would lead.\n\n" +
			"The exit code is 0 if it is safe, 4 if it is not, 5 if no leader says so in time.",
		Example: "trivet failover-safe && systemctl restart trivet\ntrivet failover-safe h2",
		Method:  "GET", Path: "/v1/safe?peer={PEER}",
		Show: func(v admin.Verdict, _ []string) error {
			err := t.Show(v, func() error {
				if v.Safe {
					t.Say("%s", v.Sentence)
				}
				return nil
			})
			if err == nil && !v.Safe {
				err = &term.Failure{Code: term.ExitConflict, Err: errors.New(v.Sentence),
					Hint: "see 'trivet peers' and 'trivet status'"}
			}
			return err
		},
	}.Command(peer)
}
