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
	"github.com/trivet-ha/trivet/fsm"
)

// consent is how an operator says that the majority is lost for ever: by the
// names of the hosts, or twice.
type consent struct {
	names   []string // --lost
	lost    bool     // --yes-i-lost-the-majority
	confirm string   // --confirm: the name of the peer that goes on
}

const lostForEver = "lost for ever"

// Recover is 'trivet recover'.
func Recover(t *term.Terminal, set *options.Set) *cobra.Command {
	var yes consent
	var dry bool
	c := &cobra.Command{
		Use:   "recover",
		Short: "Go on with this peer alone after a majority was lost for ever",
		Long: "Make this peer, which must be stopped, the only one of its cluster, for the day on which a majority of the peers is lost for ever.\n" +
			"What only the lost ones knew is gone. Every token, lease and join token granted before is void. The others stop by themselves if they come back and meet this peer.\n\n" +
			"Every other peer is asked whether it runs, at the peers' port and by gossip; while one runs this is refused. Name the hosts that are lost with --lost: at least\n" +
			"those that do not answer, and so many that the others are no majority. Or confirm that all others are: --yes-i-lost-the-majority and --confirm NAME, the name\n" +
			"of this peer; on a terminal you are asked. It cannot be fenced: if the lost merely seem to be gone and run on, two clusters act on the same machines until they meet.\n\n" +
			"The old state of this host stays in its data directory, as before-recover-DATE, until 'trivet datadir clean'. A recovery that was interrupted is repeated.",
		Example: "  trivet recover --dry-run\n  trivet recover --lost h2,h3",
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "only show what would happen")
	c.Flags().StringSliceVar(&yes.names, "lost", nil, "hosts that are lost for ever and will not be started again")
	c.Flags().BoolVar(&yes.lost, "yes-i-lost-the-majority", false, "all other peers are lost for ever and will not be started again")
	c.Flags().StringVar(&yes.confirm, "confirm", "", "the name of this peer")
	set.Flags(c)
	c.RunE = func(c *cobra.Command, _ []string) error { return recover(c.Context(), t, set, yes, dry) }
	return c
}

func recover(ctx context.Context, t *term.Terminal, set *options.Set, yes consent, dry bool) (err error) {
	conf, err := set.Load()
	if err != nil {
		return err
	}
	if _, _, err := datadir.Peek(conf.DataDir); err != nil {
		return local.DirError(err) // before the directory is made
	}
	dir, err := local.OpenDir(conf.DataDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	defer func() { err = errors.Join(err, local.HandOver(conf.DataDir)) }()
	host := hostOf(t, conf)
	plan, err := host.PlanRecover(dir)
	if err != nil {
		return local.DirError(err)
	}
	if dry {
		return dryRecovery(ctx, t, host, plan)
	}
	if len(yes.names) == 0 {
		if err := askTwice(t, plan, yes); err != nil {
			return err
		}
	}
	if err := askLostHosts(ctx, t, host, plan, datadir.Loss{Names: yes.names, All: len(yes.names) == 0}); err != nil {
		return err
	}
	done, err := refound(t, host, dir, plan)
	if err != nil {
		return err
	}
	if plan.Uncommitted > 0 {
		t.Say("the last %d entries of the log were applied, too; nothing here proves that they were committed", plan.Uncommitted)
	}
	t.Say("%s goes on alone. Next: '%s' here, then 'trivet token create' for new peers", plan.Self.Name, nextCommand(set))
	return printRecovery(t, plan, done)
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
	plan.Lost = plan.Others
	return preview(t, host, plan)
}

// askTwice has the operator confirm: by two flags or two answers.
func askTwice(t *term.Terminal, plan *datadir.Refounding, yes consent) error {
	name := plan.Self.Name
	if yes.lost && yes.confirm == name {
		return nil
	}
	if yes.confirm != "" && yes.confirm != name {
		return term.Usage("--confirm %s: this peer is called %s", yes.confirm, name)
	}
	if !term.IsTerminal(t.In) {
		return term.Fail(term.ExitUsage, fmt.Sprintf("look first: 'trivet recover --dry-run'; then 'trivet recover --lost NAME,NAME', or for all others '--yes-i-lost-the-majority --confirm %s'", name),
			"recover: this cannot be undone, and standard input is not a terminal to confirm it")
	}
	gone := cmp.Or(names(plan.Others), "none, this peer is the only member already")
	fmt.Fprintf(t.Err, "This peer, %s, will be the only one of cluster %s. Gone are: %s.\n", name, plan.Self.Cluster, gone)
	const question = "If none of them runs or will ever be started again, type: " + lostForEver + "\n> "
	if !t.Ask(question, lostForEver) || !t.Ask("To go on with this peer alone, type its name: ", name) {
		return term.Fail(term.ExitUsage, "nothing was changed", "recover: that was not the answer asked for")
	}
	return nil
}

func names(members []fsm.FormerMember) string {
	out := make([]string, len(members))
	for i, m := range members {
		out[i] = m.String()
	}
	return strings.Join(out, ", ")
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
	out := recovery{
		Peer: r.Self.Name, Cluster: r.Self.Cluster, Incarnation: done.Incarnation, LastIndex: r.Last, Uncommitted: r.Uncommitted,
		Base: fmt.Sprint(done.Base), Lost: []string{}, Former: []string{}, Old: done.Old,
	}
	former := slices.DeleteFunc(slices.Clone(r.Others), func(m fsm.FormerMember) bool {
		return slices.ContainsFunc(r.Lost, func(l fsm.FormerMember) bool { return l.ID == m.ID })
	})
	for _, m := range r.Lost {
		out.Lost = append(out.Lost, m.Name)
	}
	for _, m := range former {
		out.Former = append(out.Former, m.Name)
	}
	return t.Show(out, struct {
		Peer, Cluster                         string
		Incarnation, LogUpTo, Uncommitted     uint64
		TokensFrom, Lost, MayRejoin, OldState string
	}{
		out.Peer, out.Cluster, out.Incarnation, out.LastIndex, out.Uncommitted,
		out.Base, cmp.Or(names(r.Lost), "none"), cmp.Or(names(former), "none"), cmp.Or(done.Old, "none"),
	})
}
