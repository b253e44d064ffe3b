package cluster

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/cli/term"
)

// Upgrade is 'trivet upgrade'.
func Upgrade(t *term.Terminal, peer term.Peer) *cobra.Command {
	status := term.Verb[admin.UpgradeState]{
		Use:   "status",
		Short: "Show whether hosts may still go back to the version before, and what waits for the end of the upgrade",
		Long: "Show which log version is in force, which version each host runs and knows, what is held back until the upgrade is finalized,\n" +
			"and which hosts are missing. All hosts are asked, at most 2 s each; it needs a leader.",
		Example: "trivet upgrade status",
		Method:  "GET", Path: "/v1/upgrade",
		Show: func(s admin.UpgradeState, _ []string) error {
			return t.Show(s, func() error { return printUpgrade(t, s) })
		},
	}.Command(peer)
	var dry bool
	finalize := term.Verb[admin.UpgradeState]{
		Use:   "finalize",
		Short: "Write the newest log version from now on: no host goes back after that",
		Long: "Have every member announce the newest log version, which this host's program knows. From then on the log may hold what the version\n" +
			"before cannot read: a host that goes back stops with exit code 8 until it is upgraded again. It is refused while a member is down\n" +
			"or runs an older version, and names it. Repeat it if it fails half-way.",
		Example: "trivet upgrade finalize --dry-run\ntrivet upgrade finalize",
		Method:  "POST", Path: "/v1/upgrade/finalize", Limit: term.ShapeLimit,
		Input: func([]string) any { return admin.Finalize{DryRun: dry} },
		Show: func(s admin.UpgradeState, _ []string) error {
			if dry {
				return t.Show(s, func() error { return t.PrintDiff("log version", upgradeLines(s, false), upgradeLines(s, true)) })
			}
			if s.Finalized {
				t.Say("the upgrade is finalized already: log version %d is in force", s.LogVersion)
				return nil
			}
			t.Say("log version %d is in force; no host goes back to the version before", s.Newest)
			return nil
		},
	}.Command(peer)
	term.DryRunFlag(finalize, &dry)
	return term.Group("upgrade", "End an upgrade of all hosts; until then each may go back", status, finalize)
}

// printUpgrade is the state of an upgrade for people.
func printUpgrade(t *term.Terminal, s admin.UpgradeState) error {
	line := func(title, format string, args ...any) {
		fmt.Fprintf(t.Out, "%-12s "+format+"\n", append([]any{title}, args...)...)
	}
	if s.Finalized {
		line("log version", "%d, finalized", s.LogVersion)
	} else {
		line("log version", "%d, not finalized: each host may go back; version %d is known here", s.LogVersion, s.Newest)
	}
	line("running for", "%s", term.Dash(s.RunningFor))
	for _, text := range s.HeldBack {
		line("held back", "%s", text)
	}
	fmt.Fprintln(t.Out)
	type row struct{ Host, Version, Knows, Announced, Problem string }
	err := t.Table(term.Each(s.Hosts, func(h admin.UpgradeHost) row {
		knows := ""
		if h.Knows > 0 {
			knows = fmt.Sprint(h.Knows)
		}
		return row{h.Name, h.Binary, knows, fmt.Sprint(h.Announced), h.Problem}
	}))
	if err == nil && !s.Finalized && len(s.Missing) == 0 {
		t.Say("\nwhen all is well, and no host needs to go back: 'trivet upgrade finalize'")
	}
	return err
}

// upgradeLines are the log versions that members have announced, or would have.
func upgradeLines(s admin.UpgradeState, after bool) string {
	at := func(version int) int {
		if after {
			return s.Newest
		}
		return version
	}
	var out strings.Builder
	fmt.Fprintf(&out, "in force %d\n", at(s.LogVersion))
	for _, h := range s.Hosts {
		fmt.Fprintf(&out, "%s %d\n", h.Name, at(h.Announced))
	}
	return out.String()
}
