package importer

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/cli/trivet-import/inspectorconf"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/inspector/hooks"
)

func configCommand(t *term.Terminal) *cobra.Command {
	return &cobra.Command{
		Use:   "config FILE",
		Short: "Turn the configuration of ironic-inspector into one of Trivet",
		Long: `Turn the configuration of ironic-inspector into one of Trivet, on standard
output: what differs from Trivet's defaults, the original's defaults too. Every
option that cannot be carried over as it is, is named on standard error with its
line and the reason, in three groups: lost, changed, not needed. Look at each of
the first two before the move.

FILE is - for standard input. A password in it is in the output too: redirect it
to a file that only root and the user trivet can read.`,
		Example: "umask 027\ntrivet-import config /etc/ironic-inspector/inspector.conf > trivet.yaml",
		RunE:    func(_ *cobra.Command, args []string) error { return convert(t, args[0]) },
	}
}

// convert writes the configuration, and names what is left.
func convert(t *term.Terminal, file string) error {
	in, err := t.Input(file)
	if err != nil {
		return term.Fail(term.ExitUsage, "name the inspector.conf of the host that you move away from", "%w", err)
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, config.MaxFile+1)) // one byte more than is allowed is enough to refuse it
	if err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	out, err := inspectorconf.Convert(inspectorconf.Input{File: file, Text: text, Hooks: hooks.Names()})
	if _, misread := errors.AsType[config.Problems](err); misread {
		return &term.Failure{Code: term.ExitUsage, Err: err,
			Hint: "nothing was written; mend the lines, which ironic-inspector would not read either"}
	}
	if err != nil {
		return err
	}
	for _, group := range inspectorconf.Groups() { // the worst first
		headed := false
		for _, l := range out.Left {
			if l.Group != group {
				continue
			}
			if !headed {
				t.Warn("%v:", group)
				headed = true
			}
			t.Warn("  %v", l.Problem)
		}
	}
	_, err = t.Out.Write(out.YAML)
	return err
}
