// Package importer is the command line of trivet-import.
package importer

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/cli/term"
)

// Name is the program's.
const Name = "trivet-import"

// Main runs one command and returns its exit code. args are the words after the
// program's name.
func Main(args []string, in io.Reader, out, errw io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return Run(ctx, &term.Terminal{In: in, Out: out, Err: errw, Program: Name, Env: os.Environ(), Wall: time.Now,
		Random: rand.Reader}, args)
}

// Run is Main on a terminal that is given.
func Run(ctx context.Context, t *term.Terminal, args []string) int {
	root := Commands(t)
	root.SetArgs(args)
	ran, err := root.ExecuteContextC(ctx)
	if f, ok := errors.AsType[*term.Failure](err); ok && f.Hint == term.GeneralHint {
		f.Hint = term.UsageHint(ran)
	}
	if err != nil {
		t.Complain(err)
	}
	return term.ExitOf(err)
}

// Commands are all of them, for programs that describe them.
func Commands(t *term.Terminal) *cobra.Command {
	root := &cobra.Command{
		Use:   Name,
		Short: "Take a site over from ironic-inspector",
		Long: "Take a site over from ironic-inspector: its configuration, and its rules,\nrecords and stored data. docs/migrate.md has the order of steps.\n\n" +
			term.ExitCodes,
		Example:       "trivet-import config inspector.conf > trivet.yaml\ntrivet-import database URL > inspector.jsonl\ntrivet-import load inspector.jsonl --dry-run",
		SilenceErrors: true, SilenceUsage: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return term.Fail(term.ExitUsage, "see 'trivet-import --help'", "unknown command %q", args[0])
			}
			return nil
		},
		RunE:              func(c *cobra.Command, _ []string) error { return c.Help() },
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetIn(t.In)
	root.SetOut(t.Out)
	root.SetErr(t.Err)
	flags := root.PersistentFlags()
	flags.StringVarP(&t.Format, "output", "o", "table", "table, wide, json, yaml or name")
	flags.StringVar(&t.Color, "color", term.ColorAuto, "auto, always or never")
	flags.BoolVarP(&t.Quiet, "quiet", "q", false, "only what a script needs")
	root.SetFlagErrorFunc(term.FlagError)
	root.AddCommand(configCommand(t), databaseCommand(t), loadCommand(t))
	term.Understand(root)
	for _, c := range root.Commands() {
		c.Example = term.Indented(c.Example)
	}
	root.Example = term.Indented(root.Example)
	return root
}
