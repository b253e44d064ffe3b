package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/cli/cluster"
	"github.com/trivet-ha/trivet/cli/daemon"
	"github.com/trivet-ha/trivet/cli/data"
	"github.com/trivet-ha/trivet/cli/debug"
	"github.com/trivet-ha/trivet/cli/kube"
	"github.com/trivet-ha/trivet/cli/lease"
	"github.com/trivet-ha/trivet/cli/local"
	"github.com/trivet-ha/trivet/cli/node"
	"github.com/trivet-ha/trivet/cli/options"
	"github.com/trivet-ha/trivet/cli/pxe"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/firewall/pxe/install"
)

// Main runs one trivet command and returns its exit code. args are the words
// after the program's name.
func Main(args []string, in io.Reader, out, errw io.Writer) int {
	t := &term.Terminal{
		In: in, Out: term.OnScreen(out), Err: term.OnScreen(daemon.TalkOn(errw, os.Getenv("JOURNAL_STREAM"))),
		Env: os.Environ(), Wall: time.Now, Random: rand.Reader,
	}
	p := &program{Terminal: t, exit: os.Exit}
	return p.run(context.Background(), args)
}

// program is one run of the command.
type program struct {
	*term.Terminal
	set    *options.Set
	peer   term.Peer
	exit   func(code int) // ends the process at once; only the daemon uses it
	server *install.Host  // that dnsmasq-config --install changes; nil: this one
	parsed bool           // the words were understood; what fails now is no usage error
}

func (p *program) run(ctx context.Context, args []string) int {
	p.Version = thisBuild().Version
	root := p.root()
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		completion{p.peer}.completeArguments(root) // it is most of the work, and cobra keeps it for ever
	}
	root.SetArgs(args)
	ran, err := root.ExecuteContextC(ctx)
	if ended, ok := errors.AsType[*term.ProgramEnded](err); ok {
		return ended.Code
	}
	if _, said := errors.AsType[*term.Failure](err); err != nil && !p.parsed && !said {
		err = term.Usage("%w", err)
	}
	if f, ok := errors.AsType[*term.Failure](err); ok && f.Hint == term.GeneralHint && ran != nil && ran != root {
		f.Hint = term.UsageHint(ran)
	}
	if err != nil {
		p.Complain(err)
	}
	return term.ExitOf(err)
}

// Commands returns every command, for programs that describe them.
func Commands() *cobra.Command {
	p := &program{Terminal: new(term.Terminal)}
	return p.root()
}

func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "trivet",
		Short: "Highly available bare-metal introspection: three peers, one replicated log",
		Long: "Trivet makes bare-metal introspection highly available with one package on three hosts.\n\n" +
			"Start with 'trivet init' on the first host, for an Ironic of 33 or later with '--inspection ironic', and 'trivet serve' on each; 'trivet status'\n" +
			"shows how it stands.\n\n" +
			term.ExitCodes,
		Example:                    "trivet init\ntrivet status\ntrivet help introspection start",
		SilenceErrors:              true,
		SuggestionsMinimumDistance: 2, // letters
		SilenceUsage:               true,
		Args:                       knownCommand,
	}
	// Not cobra's: its template for the version keeps the linker from leaving out
	// methods that nothing calls, and 6 MB of them are in the binary then.
	version := root.Flags().BoolP("version", "v", false, "print the version")
	root.RunE = func(c *cobra.Command, _ []string) error {
		if *version {
			return p.printVersion()
		}
		return c.Help()
	}
	root.SetIn(p.In)
	root.SetOut(p.Out) // before the completion commands are made, which keep it
	root.SetErr(p.Err)
	root.PersistentPreRunE = func(*cobra.Command, []string) error { // when words and flags were parsed
		if !slices.Contains(term.Formats, p.Format) {
			return term.Usage("-o %s: it is one of table, wide, json, yaml, name", p.Format)
		}
		if !slices.Contains(term.ColorModes, p.Color) {
			return term.Usage("--color %s: it is one of %s", p.Color, strings.Join(term.ColorModes, ", "))
		}
		p.parsed = true
		return nil
	}
	flags := root.PersistentFlags()
	p.set = options.New(p.Terminal, flags)
	p.peer = term.Chosen(p.set.Peer)
	flags.StringVarP(&p.Format, "output", "o", p.Variable("TRIVET_OUTPUT", "table"), "table, wide, json, yaml or name")
	term.Complete(root, "output", term.Formats...)
	flags.StringVar(&p.Color, "color", term.ColorAuto,
		"auto, always or never: auto colours what is wrong on a terminal, unless $NO_COLOR is set")
	term.Complete(root, "color", term.ColorModes...)
	flags.BoolVarP(&p.Quiet, "quiet", "q", false, "only what a script needs")
	root.SetFlagErrorFunc(term.FlagError)
	root.SetHelpCommand(helpCommand(root))
	p.addCommands(root)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	term.Understand(root)
	present(root)
	return root
}

// addCommands adds every command to the group in which the help shows it.
func (p *program) addCommands(root *cobra.Command) {
	t, peer, set := p.Terminal, p.peer, p.set
	version := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this binary and of the log entries it knows",
		Example: "trivet version\ntrivet version -o json",
		RunE:    func(*cobra.Command, []string) error { return p.printVersion() },
	}
	for _, g := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"start", "Start:", []*cobra.Command{data.Init(t, set), data.Join(t, set), daemon.Serve(t, set, p.exit),
			options.Config(t, peer, set)}},
		{"look", "Look:", []*cobra.Command{cluster.Status(t, peer, set), cluster.Watch(t, peer, set),
			cluster.Top(t, set), cluster.Members(t, peer),
			cluster.Peers(t, peer), debug.Doctor(t, peer, set),
			cluster.FailoverSafe(t, peer)}},
		{"cluster", "Cluster:", []*cobra.Command{cluster.Maintenance(t, peer), cluster.Transfer(t, peer),
			cluster.Leave(t, peer, set), cluster.Remove(t, peer),
			data.Recover(t, set), term.Gone("rejoin", local.HintAnew), cluster.Token(t, peer), cluster.Cert(t, peer, set),
			cluster.Gossip(t, peer), cluster.Upgrade(t, peer)}},
		{"introspection", "Introspection:",
			[]*cobra.Command{node.Introspection(t, set.APIServer), node.Rule(t, set.APIServer),
				node.Node(t, peer, set.APIServer)}},
		{"pxe", "PXE:", []*cobra.Command{pxe.Firewall(t, peer, set), pxe.Dnsmasq(t, peer, set, p.server)}},
		{"failover", "Failover of kube nodes, and components in Kubernetes:",
			[]*cobra.Command{kube.Failover(t, peer), kube.HAConfig(t, set)}},
		{"leases", "Leases and elections for other programs:",
			[]*cobra.Command{lease.Lease(t, set.APIServer),
				lease.Elector(t, set.APIServer, func() (*slog.Logger, func()) { return daemon.NewLog(t) })}},
		{"data", "Data:", []*cobra.Command{data.Snapshot(t, peer, set), data.DataDir(t, set)}},
		{"debugging", "Debugging, and about this program:",
			[]*cobra.Command{cluster.Drill(t, peer), debug.Debug(t, peer, set), version}},
	} {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.id
			root.AddCommand(c)
		}
	}
	root.SetHelpCommandGroupID("debugging")
	root.SetCompletionCommandGroupID("debugging")
}

// knownCommand refuses a word that is no command, and names the nearest ones.
func knownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "see 'trivet help'"
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		hint = fmt.Sprintf("did you mean %s?", strings.Join(near, ", or "))
	}
	return term.Fail(term.ExitUsage, hint, "unknown command %q", args[0])
}
