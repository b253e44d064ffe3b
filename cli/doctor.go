package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/app"
	"github.com/trivet-ha/trivet/doctor"
)

// doctorFlags are the words of doctor.
type doctorFlags struct {
	checks []string
	list   bool
	local  bool
}

func (p *program) doctorCommand() *cobra.Command {
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
		Args:    cobra.NoArgs,
	}
	flags := c.Flags()
	flags.StringArrayVar(&f.checks, "check", nil, "make this check alone; may be repeated (see --list)")
	flags.BoolVar(&f.list, "list", false, "list the checks and do nothing")
	flags.BoolVar(&f.local, "local", false, "ask no other peer")
	var names []string
	for _, check := range doctor.Checks() {
		names = append(names, check.Name)
	}
	complete(c, "check", names...)
	p.optionFlags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if f.list {
			return p.printChecks()
		}
		return p.doctor(c.Context(), f)
	}
	return c
}

func (p *program) printChecks() error {
	type row struct {
		Name string `json:"name"`
		Help string `json:"help"`
	}
	var rows []row
	for _, c := range doctor.Checks() {
		rows = append(rows, row{c.Name, c.Help})
	}
	return table(p.out, p.format, rows, func(r row) string { return r.Name },
		column[row]{"CHECK", false, func(r row) string { return r.Name }},
		column[row]{"FINDS", false, func(r row) string { return r.Help }},
	)
}

func (p *program) doctor(ctx context.Context, f doctorFlags) error {
	if _, err := doctor.Judge(nil, f.checks); err != nil {
		return usage("doctor: %w", err)
	}
	hosts, err := p.facts(ctx, f.local)
	if err != nil {
		return err
	}
	findings, err := doctor.Judge(hosts, f.checks)
	if err != nil {
		return err
	}
	if err := p.printDoctor(findings); err != nil {
		return err
	}
	if len(f.checks) == 0 || slices.Contains(f.checks, "dhcp") {
		if text := doctor.NotServed(hosts); text != "" {
			p.say("%s", text)
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
		return fail(ExitFailed, "mend what is named, then look again with 'trivet doctor'", "%d errors, %d warnings", errs, warnings)
	}
	p.say("nothing found on %d hosts", len(hosts))
	return nil
}

// facts are those of all hosts or, where no peer runs, of this one.
func (p *program) facts(ctx context.Context, local bool) ([]doctor.Facts, error) {
	var hosts []doctor.Facts
	err := p.peer().call(ctx, "GET", onAll("/v1/doctor", !local), nil, &hosts)
	if !errors.Is(err, errNoPeerHere) {
		return hosts, err
	}
	conf, err := p.peruse()
	if err != nil {
		return nil, err
	}
	facts := app.OfflineFacts(ctx, conf, p.wall)
	facts.Absent, facts.Join = p.absence()
	return []doctor.Facts{facts}, nil
}

func (p *program) printDoctor(findings []doctor.Finding) error {
	switch p.format {
	case "json", "yaml":
		if findings == nil {
			findings = []doctor.Finding{} // an empty list, not null
		}
		return document(p.out, p.format, findings)
	case "name":
		for _, f := range findings {
			fmt.Fprintln(p.out, f.Check)
		}
		return nil
	}
	for i, f := range findings {
		if i > 0 {
			fmt.Fprintln(p.out)
		}
		fmt.Fprintf(p.out, "%-7s  %s  %s: %s\n", f.Severity, f.Check, strings.Join(f.Hosts(), ", "), printable(f.Text))
		for _, line := range f.Remedy {
			fmt.Fprintf(p.out, "    %s\n", printable(line))
		}
	}
	return nil
}
