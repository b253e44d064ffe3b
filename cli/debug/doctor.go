package debug

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/app"
	"github.com/trivet-ha/trivet/cli/local"
	"github.com/trivet-ha/trivet/cli/options"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/doctor"
)

// doctorFlags are the words of doctor.
type doctorFlags struct {
	checks []string
	list   bool
	local  bool
}

// Doctor is 'trivet doctor'.
func Doctor(t *term.Terminal, peer term.Peer, set *options.Set) *cobra.Command {
	var f doctorFlags
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what is set up wrongly on the hosts, and say what to do about it",
		Long: "Look for what is set up wrongly on the hosts: each peer looks at its own, the peer here asks the others, and all is judged together.\n" +
			"It needs no quorum and changes nothing. Where no peer runs it looks at this host alone.\n\n" +
			"Each finding has a severity: an error breaks something now or at the next change of leader, a warning may, and what is told for\n" +
			"information is right as it is, or could not be looked at. The lines below a finding are to be pasted on the host that it names;\n" +
			"those with a # are for you. The exit code is 0 where there is neither an error nor a warning, and 1 where there is.",
		Example: "  trivet doctor\n  trivet doctor --check pools --check boot\n  trivet doctor -o json",
	}
	flags := c.Flags()
	flags.StringArrayVar(&f.checks, "check", nil, "make this check alone; may be repeated (see --list)")
	flags.BoolVar(&f.list, "list", false, "list the checks and do nothing")
	flags.BoolVar(&f.local, "local", false, "ask no other peer")
	term.Complete(c, "check", term.Each(doctor.Checks(), func(c doctor.Check) string { return c.Name })...)
	set.Flags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if f.list {
			type check struct {
				Check string `json:"name"`
				Finds string `json:"help"`
			}
			all := term.Each(doctor.Checks(), func(c doctor.Check) check { return check{c.Name, c.Help} })
			return t.Show(all, all)
		}
		return examine(c.Context(), t, peer, set, f)
	}
	return c
}

func examine(ctx context.Context, t *term.Terminal, peer term.Peer, set *options.Set, f doctorFlags) error {
	if _, err := doctor.Judge(nil, f.checks); err != nil {
		return term.Usage("doctor: %w", err)
	}
	hosts, err := facts(ctx, t, peer, set, f.local)
	if err != nil {
		return err
	}
	findings, err := doctor.Judge(hosts, f.checks)
	if err != nil {
		return err
	}
	names := term.Each(findings, func(f doctor.Finding) string { return f.Check })
	err = t.Show(findings, term.Text{Names: names, Print: func() error {
		for i, f := range findings {
			if i > 0 {
				fmt.Fprintln(t.Out)
			}
			fmt.Fprintf(t.Out, "%-7s  %s  %s: %s\n", f.Severity, f.Check, strings.Join(f.Hosts(), ", "), term.Printable(f.Text))
			for _, line := range f.Remedy {
				fmt.Fprintf(t.Out, "    %s\n", term.Printable(line))
			}
		}
		return nil
	}})
	if err != nil {
		return err
	}
	if len(f.checks) == 0 || slices.Contains(f.checks, "dhcp") {
		for _, text := range doctor.NotServed(hosts) {
			t.Say("%s", text)
		}
	}
	errs, warnings := 0, 0
	for _, finding := range findings {
		switch finding.Severity {
		case doctor.Error:
			errs++
		case doctor.Warning:
			warnings++
		}
	}
	if errs+warnings > 0 {
		return term.Fail(term.ExitFailed, "mend what is named, then look again with 'trivet doctor'",
			"%d errors, %d warnings", errs, warnings)
	}
	t.Say("nothing found on %d hosts", len(hosts))
	return nil
}

// facts are those of all hosts or, where no peer runs, of this one.
func facts(ctx context.Context, t *term.Terminal, peer term.Peer, set *options.Set, alone bool) ([]doctor.Facts,
	error) {
	var hosts []doctor.Facts
	err := peer.Call(ctx, "GET", term.OnAll("/v1/doctor", !alone), nil, &hosts)
	if !errors.Is(err, term.ErrNoPeerHere) {
		return hosts, err
	}
	conf, err := set.Peruse()
	if err != nil {
		return nil, err
	}
	facts := app.OfflineFacts(ctx, conf, t.Wall)
	facts.Absent, facts.Join = local.Absence(set)
	return []doctor.Facts{facts}, nil
}
