package cli

import (
	"errors"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cli/term"
)

func (p *program) failoverSafeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "failover-safe [PEER]",
		Short: "Say whether a peer may be stopped now, for scripts",
		Long: "Say in one sentence how many voters the cluster can lose, and whether a peer, by name or ID, may be stopped now; without one this peer.\n" +
			"The leader is asked, at most 1 s: it proves that it leads, and knows who keeps up with the log and who would lead.\n\n" +
			"The exit code is 0 if it is safe, 4 if it is not, 5 if no leader says so in time.",
		RunE: func(c *cobra.Command, args []string) error {
			var v api.Verdict
			if err := p.peer.Call(c.Context(), "GET", "/v1/safe?peer="+url.QueryEscape(term.OnlyArg(args)), nil, &v); err != nil {
				return err
			}
			err := p.Show(v, func() error {
				if v.Safe {
					p.Say("%s", v.Sentence)
				}
				return nil
			})
			if err == nil && !v.Safe {
				err = &term.Failure{Code: term.ExitConflict, Err: errors.New(v.Sentence), Hint: "see 'trivet peers' and 'trivet status'"}
			}
			return err
		},
	}
}
