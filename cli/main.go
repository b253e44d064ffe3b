package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/firewall/pxe/install"
)

// Main runs one trivet command and returns its exit code. args are the words
// after the program's name.
func Main(args []string, in io.Reader, out, errw io.Writer) int {
	p := &program{
		in: in, out: out, errw: talkOn(errw, os.Getenv("JOURNAL_STREAM")),
		env: os.Environ(), wall: time.Now, random: rand.Reader, exit: os.Exit,
	}
	return p.run(context.Background(), args)
}

// program is one run of the command: what it may touch, and the flags that
// every command has.
type program struct {
	in        io.Reader
	out       io.Writer // data
	errw      io.Writer // talk
	env       []string
	wall      func() time.Time
	random    io.Reader
	exit      func(code int)    // ends the process at once; only the daemon uses it
	transport http.RoundTripper // to the introspection API; nil: the network
	server    *install.Host     // that dnsmasq-config --install changes; nil: this one

	remote remoteFlags       // --peer
	config string            // --config
	format string            // --output
	color  string            // --color
	quiet  bool              // --quiet
	values map[string]string // flags that are options: key → value
	parsed bool              // the words were understood; what fails now is no usage error
}

func (p *program) run(ctx context.Context, args []string) int {
	p.values = make(map[string]string)
	root := p.root()
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		p.completeArguments(root) // it is most of the work, and cobra keeps it for ever
	}
	root.SetArgs(args)
	ran, err := root.ExecuteContextC(ctx)
	var f *Failure
	var ended *programEnded
	if errors.As(err, &ended) {
		return ended.code
	}
	if err != nil && !p.parsed && !errors.As(err, &f) {
		err = usage("%w", err)
	}
	if errors.As(err, &f) && f.Hint == generalHint && ran != nil && ran != root {
		f.Hint = usageHint(ran)
	}
	if err != nil {
		complain(p.errw, p.styleOf(p.errw), err)
	}
	return exitOf(err)
}

func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "trivet",
		Short: "Highly available bare-metal introspection: three peers, one replicated log",
		Long: "Trivet makes bare-metal introspection highly available with one package on three hosts.\n\n" +
			"Start with 'trivet init' on the first host and 'trivet serve' on each; 'trivet status' shows how it stands.\n\n" + exitCodes,
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
	root.SetIn(p.in)
	root.SetOut(p.out) // before the completion commands are made, which keep it
	root.SetErr(p.errw)
	root.PersistentPreRunE = func(*cobra.Command, []string) error { return p.understood() }
	flags := root.PersistentFlags()
	flags.StringVar(&p.config, "config", "", "configuration file (default "+defaultConfigFile+", or $TRIVET_CONFIG)")
	flags.StringVarP(&p.format, "output", "o", p.variable("TRIVET_OUTPUT", "table"), "table, wide, json, yaml or name")
	complete(root, "output", formats...)
	flags.StringVar(&p.color, "color", colorAuto, "auto, always or never: auto colours what is wrong on a terminal, unless $NO_COLOR is set")
	complete(root, "color", colorModes...)
	flags.BoolVarP(&p.quiet, "quiet", "q", false, "only what a script needs")
	p.optionFlag(flags, "data_dir", false)
	p.optionFlag(flags, "socket", false)
	p.remoteFlags(flags)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(p.helpCommand(root))
	p.addCommands(root)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	nameArguments(root)
	addExamples(root)
	return root
}

// addCommands adds every command to the group in which the help shows it.
func (p *program) addCommands(root *cobra.Command) {
	for _, g := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"start", "Start:", []*cobra.Command{p.initCommand(), p.joinCommand(), p.serveCommand(), p.configCommand(), p.devCommand()}},
		{"look", "Look:", []*cobra.Command{p.statusCommand(), p.watchCommand(), p.membersCommand(), p.peersCommand(), p.doctorCommand(), p.failoverSafeCommand()}},
		{"cluster", "Cluster:", []*cobra.Command{p.maintenanceCommand(), p.transferCommand(), p.leaveCommand(), p.removeCommand(), p.recoverCommand(), p.rejoinCommand(),
			p.tokenCommand(), p.certCommand(), p.gossipCommand()}},
		{"introspection", "Introspection:", []*cobra.Command{p.introspectionCommand(), p.ruleCommand(), p.nodeCommand()}},
		{"pxe", "PXE:", []*cobra.Command{p.firewallCommand(), p.dnsmasqCommand()}},
		{"failover", "Failover of kube nodes, and components in Kubernetes:", []*cobra.Command{p.failoverCommand(), p.haconfigCommand()}},
		{"leases", "Leases and elections for other programs:", []*cobra.Command{p.leaseCommand(), p.electorCommand()}},
		{"data", "Data:", []*cobra.Command{p.snapshotCommand(), p.dataDirCommand(), p.importCommand()}},
		{"debugging", "Debugging, and about this program:", []*cobra.Command{p.drillCommand(), p.debugCommand(), p.manCommand(), p.versionCommand()}},
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
	return fail(ExitUsage, hint, "unknown command %q", args[0])
}

// understood runs when words and flags were parsed.
func (p *program) understood() error {
	if !slices.Contains(formats, p.format) {
		return usage("-o %s: it is one of table, wide, json, yaml, name", p.format)
	}
	if !slices.Contains(colorModes, p.color) {
		return usage("--color %s: it is one of %s", p.color, strings.Join(colorModes, ", "))
	}
	p.parsed = true
	return nil
}

// complete names the values of a flag to the shell.
func complete(c *cobra.Command, flag string, values ...string) {
	completeWith(c, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// group is a command that only holds others.
func group(use, short string, children ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs}
	c.AddCommand(children...)
	c.RunE = func(c *cobra.Command, args []string) error {
		names := make([]string, len(children))
		for i, child := range children {
			names[i] = child.Name()
		}
		hint := "see '" + c.CommandPath() + " --help'"
		if len(args) > 0 {
			return fail(ExitUsage, hint, "%s: unknown command %q; it is one of %v", c.CommandPath(), args[0], names)
		}
		return fail(ExitUsage, hint, "%s: which? One of %v", c.CommandPath(), names)
	}
	return c
}
