package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/api"
)

func (p *program) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show how this peer and its cluster stand; needs no quorum",
		Long:  "Show how this peer and its cluster stand, as this peer sees it; it asks nobody else and needs no quorum.\nThe exit code is 0 while a leader is known and 5 while none is.",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var s api.Status
			if err := p.peer().call(c.Context(), "GET", "/v1/status", nil, &s); err != nil {
				return err
			}
			if err := p.printStatus(s); err != nil {
				return err
			}
			if s.Leader == "" {
				return fail(ExitNoLeader, "see 'trivet peers', and 'trivet status' on the other hosts", "no leader is known to %s", s.Name)
			}
			return nil
		},
	}
}

func (p *program) printStatus(s api.Status) error {
	switch p.format {
	case "json", "yaml":
		return document(p.out, p.format, s)
	case "name":
		fmt.Fprintln(p.out, s.Name)
		return nil
	}
	line := func(title, format string, args ...any) {
		fmt.Fprintf(p.out, "%-9s "+format+"\n", append([]any{title}, args...)...)
	}
	line("peer", "%s, %s", s.Name, standing(s))
	line("leader", "%s, token %v, term %d", dash(s.Leader), s.Token, s.Term)
	line("quorum", "%s", arithmetic(s.Quorum))
	if s.StaleMS > 0 {
		line("stale", "what this peer knows is as of %v ago", (time.Duration(s.StaleMS) * time.Millisecond).Round(100*time.Millisecond))
	}
	line("door", "%s", doorText(s.Door))
	if p.format == "wide" {
		line("id", "%s", s.ID)
		line("data", "%s", s.Directory)
	}
	line("cluster", "%s", dash(s.Cluster))
	line("log", "applied up to %d", s.Index)
	line("version", "%s", s.Version)
	printWarnings(p.out, s.Warnings)
	return nil
}

func standing(s api.Status) string {
	text := s.Role
	if s.Observer {
		text += ", observer"
	}
	if s.Maintenance {
		text += ", in maintenance"
	}
	if s.Ready {
		return text
	}
	return text + ", not ready"
}

// doorText says whether machines boot from this host.
func doorText(d api.Door) string {
	text := "shut: " + dash(d.Why)
	if d.Open {
		text = fmt.Sprintf("open since %s, token %v", dash(d.Since), d.Token)
	}
	if d.Model {
		text += " (a model of the kernel: nothing is filtered)"
	}
	return text
}

// arithmetic is the sum of votes in words.
func arithmetic(q api.Quorum) string {
	text := fmt.Sprintf("%d of %d voters live, %d needed", q.Live, q.Voters, q.Need)
	switch {
	case !q.HasWrite:
		return text + ": no writes"
	case q.CanLose == 0:
		return text + ": none may be lost"
	default:
		return text + fmt.Sprintf(": %d more may be lost", q.CanLose)
	}
}

func printWarnings(w io.Writer, warnings []api.Warning) {
	for _, warning := range warnings {
		fmt.Fprintf(w, "%-9s %s (%s)\n%-9s %s\n", "warning", warning.Text, warning.Code, "", warning.Remedy)
	}
}
