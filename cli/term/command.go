package term

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Gone answers a command of an earlier release, named with those above it, with what to do
// instead.
func Gone(name, instead string) *cobra.Command {
	return &cobra.Command{
		Use: name[strings.LastIndexByte(name, ' ')+1:], Short: "Say what to do instead", Hidden: true,
		DisableFlagParsing: true, Args: cobra.ArbitraryArgs,
		RunE: func(*cobra.Command, []string) error {
			return Fail(ExitUsage, instead, "there is no 'trivet %s' any more", name)
		},
	}
}

// Group is a command that only holds others.
func Group(use, short string, children ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs}
	c.AddCommand(children...)
	c.RunE = func(c *cobra.Command, args []string) error {
		var names []string
		for _, child := range children {
			if !child.Hidden {
				names = append(names, child.Name())
			}
		}
		hint := "see '" + c.CommandPath() + " --help'"
		if len(args) > 0 {
			return Fail(ExitUsage, hint, "%s: unknown command %q; it is one of %v", c.CommandPath(), args[0], names)
		}
		return Fail(ExitUsage, hint, "%s: which? One of %v", c.CommandPath(), names)
	}
	return c
}

// Complete names the values of a flag to the shell.
func Complete(c *cobra.Command, flag string, values ...string) {
	CompleteWith(c, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// CompleteWith has f complete a flag.
func CompleteWith(c *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic("cli: " + err.Error()) // a slip in this package; any test finds it
	}
}

// Indented is how cobra's help shows examples.
func Indented(text string) string {
	if text = strings.TrimSpace(text); text == "" {
		return ""
	}
	return "  " + strings.ReplaceAll(text, "\n", "\n  ")
}

// StaleFlag adds --stale of a command that asks the peer on this host.
func StaleFlag(c *cobra.Command, stale *bool) {
	c.Flags().BoolVar(stale, "stale", false, "answer from this peer's own state, also without a quorum")
}

// Stale asks for what the peer itself knows.
func Stale(path string, stale bool) string {
	if stale {
		return path + "?stale=1"
	}
	return path
}

// OnAll asks the other peers, too.
func OnAll(path string, all bool) string {
	if all {
		return path + "?all=1"
	}
	return path
}

// OnlyArg is the one argument, "" where there is none.
func OnlyArg(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// PrintJoin prints the command to run on other hosts, or the token alone.
func (t *Terminal) PrintJoin(address, token string) {
	if t.Quiet {
		fmt.Fprintln(t.Out, token)
		return
	}
	// A here-document: arguments are shown to every user of the host, by ps.
	fmt.Fprintf(t.Out, "trivet join %s --token-file - <<END\n%s\nEND\n", address, token)
}
