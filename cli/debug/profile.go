package debug

import (
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/cli/term"
)

// profileAnswer is what a profile may take beyond the time that it is taken for.
const profileAnswer = 10 * time.Second

func profileCommand(t *term.Terminal, peer term.Peer) *cobra.Command {
	c := &cobra.Command{
		Use:   "profile KIND",
		Short: "Write a profile of this host's peer, for 'go tool pprof'",
		Long: "Write a profile of this host's peer to standard output, for 'go tool pprof':\n" +
			"where processor time goes from now on (cpu), where memory was taken that is in\n" +
			"use (heap) or ever was (allocs), or where its goroutines stand (goroutine).",
		Example:   "trivet debug profile cpu --seconds 30 > cpu.pprof",
		Args:      cobra.ExactArgs(1),
		ValidArgs: admin.Profiles(),
	}
	seconds := c.Flags().Int("seconds", int(admin.ProfileTime.Seconds()), "how long the processor is looked at, 1 to 60")
	c.RunE = func(c *cobra.Command, args []string) error {
		query := url.Values{"kind": args, "seconds": {fmt.Sprint(*seconds)}}
		asked := peer.Within(time.Duration(*seconds)*time.Second + profileAnswer)
		return printAnswer(c.Context(), t, asked, "/v1/debug/profile?"+query.Encode(), "read the "+args[0]+" profile")
	}
	return c
}
