package cli

import (
	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/cli/options"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/config"
)

func (p *program) configCommand() *cobra.Command {
	check := &cobra.Command{
		Use:   "check",
		Short: "Say everything that is wrong with the configuration",
		Long: "Say everything that is wrong with the configuration, with file and line, and whether 'trivet serve' would start with it.\n" +
			"The exit code is 2 if anything is.",
		RunE: func(*cobra.Command, []string) error {
			if _, err := p.set.LoadServable(); err != nil {
				return err
			}
			p.Say("the configuration will do")
			return nil
		},
	}
	template := &cobra.Command{
		Use:   "template",
		Short: "Print a commented configuration file; options given as flags are written into it",
		Long:  "Print a commented configuration file: every key with its meaning, bounds and default. Options given as flags are written into it.",
		RunE: func(*cobra.Command, []string) error {
			text, err := config.Template(p.set.Values)
			if err != nil {
				return options.Error(err)
			}
			_, err = p.Out.Write(text)
			return err
		},
	}
	show := p.configShow()
	reload, reference := p.configReload(), p.configReference()
	for _, c := range []*cobra.Command{check, show, template} {
		p.set.Flags(c)
	}
	return term.Group("config", "Check, show and reload the configuration", check, reference, reload, show, template)
}

// setting is config.Setting for scripts.
type setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

func (p *program) configShow() *cobra.Command {
	var effective bool
	c := &cobra.Command{
		Use:   "show",
		Short: "Show what is configured, and where; secrets are hidden",
		Long:  "Show what is configured, and where: a flag, a variable, or a line of the file. Secrets are hidden. With --effective defaults are shown too.",
	}
	c.Flags().BoolVar(&effective, "effective", false, "show every option, defaults too")
	c.RunE = func(*cobra.Command, []string) error {
		conf, err := p.set.Load()
		if err != nil {
			return err
		}
		var rows []setting
		for _, s := range conf.Effective() {
			if effective || s.Origin.Kind != config.FromDefault {
				rows = append(rows, setting{Key: s.Key, Value: s.Value, Origin: s.Origin.String()})
			}
		}
		type row struct {
			Key, Value, From string
		}
		return p.Show(rows, term.Each(rows, func(s setting) row {
			return row{s.Key, s.Value, s.Origin}
		}))
	}
	return c
}
