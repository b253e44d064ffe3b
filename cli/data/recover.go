package data

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/cli/local"
	"github.com/trivet-ha/trivet/cli/options"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// Recover is 'trivet recover'.
func Recover(t *term.Terminal, set *options.Set) *cobra.Command {
	var lost []string
	var dry bool
	c := &cobra.Command{
		Use:   "recover",
		Short: "Go on with this peer alone after a majority was lost for ever",
		Long: "Make this peer, which must be stopped, the only one of its cluster, for the day on which a majority of the peers is lost for ever.\n" +
			"What only the lost ones knew is gone. Every token, lease and join token granted before is void. The others stop by themselves if they come back and meet this peer.\n\n" +
			"Every other peer is asked whether it runs, at the peers' port and by gossip; while one runs this is refused. Name the hosts that are lost with --lost: at least\n" +
			"those that do not answer, and so many that the others are no majority. It cannot be fenced: if the lost merely seem to be gone and run on, two clusters act on\n" +
			"the same machines until they meet.\n\n" +
			"The old state of this host stays in its data directory, as before-recover-DATE, until 'trivet datadir clean'. A recovery that was interrupted is repeated.",
		Example: "  trivet recover --dry-run\n  trivet recover --lost h2,h3",
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "only show what would happen")
	c.Flags().StringSliceVar(&lost, "lost", nil, "hosts that are lost for ever and will not be started again")
	term.GoneFlag(c, "yes-i-lost-the-majority", "name the lost hosts: --lost NAME,NAME")
	set.Flags(c)
	c.RunE = func(c *cobra.Command, _ []string) error { return recover(c.Context(), t, set, lost, dry) }
	return c
}

func recover(ctx context.Context, t *term.Terminal, set *options.Set, lost []string, dry bool) (err error) {
	conf, err := set.Load()
	if err != nil {
		return err
	}
	if _, _, err := datadir.Peek(conf.DataDir); err != nil {
		return local.DirError(err) // before the directory is made
	}
	dir, done, err := local.Use(conf.DataDir, dry)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }() // after a failure, too
	host := hostOf(t, conf)
	plan, err := host.PlanRecover(dir)
	if err != nil {
		return local.DirError(err)
	}
	if dry {
		return dryRecovery(ctx, t, host, plan)
	}
	if err := askLostHosts(ctx, t, host, plan, lost); err != nil {
		return err
	}
	founded, err := refound(t, host, dir, plan)
	if err != nil {
		return err
	}
	if plan.Uncommitted > 0 {
		t.Say("the last %d entries of the log were applied, too; nothing here proves that they were committed",
			plan.Uncommitted)
	}
	if plan.LeftOut > 0 {
		t.Say("the %d entries after these were left out: the first of them removes this host, and nothing here proves that a majority had it",
			plan.LeftOut)
	}
	t.Say("%s goes on alone. Next: '%s' here, then 'trivet token create' for the others", plan.Self.Name, nextCommand(set))
	return printRecovery(t, plan, founded)
}

// dryRecovery shows what recover would do with all others lost, and what they
// answer.
func dryRecovery(ctx context.Context, t *term.Terminal, host datadir.Host, plan *datadir.Refounding) error {
	asked, err := host.Ask(ctx, plan)
	if err != nil {
		return fmt.Errorf("recover: ask the other peers: %w", err)
	}
	for _, a := range asked {
		t.Say("%v: %s", a.FormerMember, a.Detail)
	}
	if plan.LeftOut > 0 {
		t.Say("the last %d entries of the log would be left out: the first of them removes this host", plan.LeftOut)
	}
	plan.Lost = plan.Others
	return preview(t, host, plan)
}

func names(members []membership.FormerMember) string {
	return strings.Join(term.Each(members, membership.FormerMember.String), ", ")
}

// recovery is what recover and restore did, for scripts.
type recovery struct {
	Peer        string   `json:"peer"`
	Cluster     string   `json:"cluster_id"`
	Incarnation uint64   `json:"incarnation"`
	LastIndex   uint64   `json:"last_index"`
	Uncommitted uint64   `json:"uncommitted"`
	Base        string   `json:"token_base"`
	Lost        []string `json:"lost"`
	Former      []string `json:"former"`
	Old         string   `json:"old_state,omitempty"`
}

func printRecovery(t *term.Terminal, r *datadir.Refounding, done *datadir.Refounded) error {
	former := slices.DeleteFunc(slices.Clone(r.Others), func(m membership.FormerMember) bool {
		return slices.ContainsFunc(r.Lost, func(l membership.FormerMember) bool { return l.ID == m.ID })
	})
	name := func(m membership.FormerMember) string { return m.Name }
	out := recovery{
		Peer: r.Self.Name, Cluster: r.Self.Cluster, Incarnation: done.Incarnation, LastIndex: r.Last,
		Uncommitted: r.Uncommitted, Base: fmt.Sprint(done.Base), Lost: term.Each(r.Lost, name),
		Former: term.Each(former, name), Old: done.Old,
	}
	return t.Show(out, struct {
		Peer, Cluster                       string
		Incarnation, LogUpTo, Uncommitted   uint64
		TokensFrom, Lost, MayJoin, OldState string
	}{
		out.Peer, out.Cluster, out.Incarnation, out.LastIndex, out.Uncommitted,
		out.Base, cmp.Or(names(r.Lost), "none"), cmp.Or(names(former), "none"), cmp.Or(done.Old, "none"),
	})
}
