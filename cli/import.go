package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/config/inspectorconf"
	"github.com/trivet-ha/trivet/inspector/hooks"
)

func (p *program) importCommand() *cobra.Command {
	conf := &cobra.Command{
		Use:   "inspector-conf FILE",
		Short: "Turn the configuration of ironic-inspector into one of Trivet",
		Long: "Turn the configuration of ironic-inspector into one of Trivet, on standard output: what differs from Trivet's defaults, the original's defaults too.\n" +
			"Every option that cannot be carried over as it is, is named on standard error with its line and the reason, in three groups: lost, changed,\n" +
			"not needed. Look at each of the first two before the move.\n" +
			"FILE is - for standard input. A password in it is in the output too: redirect it to a file that only root and the user trivet can read.",
		Example: "  umask 027\n  trivet import inspector-conf /etc/ironic-inspector/inspector.conf > trivet.yaml",
		RunE:    func(_ *cobra.Command, args []string) error { return p.importInspectorConf(args[0]) },
	}
	return term.Group("import", "Take over the configuration or the data of an ironic-inspector", conf, p.importInspectorDB())
}

func (p *program) importInspectorConf(file string) error {
	text, err := p.fileToImport(file)
	if err != nil {
		return err
	}
	out, err := inspectorconf.Convert(inspectorconf.Input{File: file, Text: text, Hooks: hooks.Names()})
	var problems config.Problems
	if errors.As(err, &problems) {
		return &term.Failure{Code: term.ExitUsage, Err: err, Hint: "nothing was written; mend the lines, which ironic-inspector would not read either"}
	}
	if err != nil {
		return err
	}
	p.warnLeft(out.Left)
	_, err = p.Out.Write(out.YAML)
	return err
}

// warnLeft names what was not carried over, worst group first.
func (p *program) warnLeft(left []inspectorconf.Left) {
	for _, group := range inspectorconf.Groups() {
		headed := false
		for _, l := range left {
			if l.Group != group {
				continue
			}
			if !headed {
				p.Warn("%v:", group)
				headed = true
			}
			p.Warn("  %v", l.Problem)
		}
	}
}

// fileToImport reads a file whole, or standard input; one byte more than is
// allowed is enough to refuse it.
func (p *program) fileToImport(name string) ([]byte, error) {
	source := p.In
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, term.Fail(term.ExitUsage, "name the inspector.conf of the host that you move away from", "%w", err)
		}
		defer f.Close()
		source = f
	}
	text, err := io.ReadAll(io.LimitReader(source, config.MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return text, nil
}
