package cli

import (
	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/config"
)

func (p *program) configCommand() *cobra.Command {
	check := &cobra.Command{
		Use:   "check",
		Short: "Say everything that is wrong with the configuration",
		Long: "Say everything that is wrong with the configuration, with file and line, and whether 'trivet serve' would start with it.\n" +
			"The exit code is 2 if anything is.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if _, err := p.loadServable(); err != nil {
				return err
			}
			p.say("the configuration will do")
			return nil
		},
	}
	template := &cobra.Command{
		Use:   "template",
		Short: "Print a commented configuration file; options given as flags are written into it",
		Long:  "Print a commented configuration file: every key with its meaning, bounds and default. Options given as flags are written into it.",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			text, err := config.Template(p.values)
			if err != nil {
				return configError(err)
			}
			_, err = p.out.Write(text)
			return err
		},
	}
	show := p.configShow()
	reload, reference := p.configReload(), p.configReference()
	for _, c := range []*cobra.Command{check, show, template} {
		p.optionFlags(c)
	}
	return group("config", "Check, show and reload the configuration", check, reference, reload, show, template)
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
		Args:  cobra.NoArgs,
	}
	c.Flags().BoolVar(&effective, "effective", false, "show every option, defaults too")
	c.RunE = func(*cobra.Command, []string) error {
		conf, err := p.load()
		if err != nil {
			return err
		}
		var rows []setting
		for _, s := range conf.Effective() {
			if effective || s.Origin.Kind != config.FromDefault {
				rows = append(rows, setting{Key: s.Key, Value: s.Value, Origin: s.Origin.String()})
			}
		}
		return table(p.out, p.format, rows, func(s setting) string { return s.Key },
			column[setting]{"KEY", false, func(s setting) string { return s.Key }},
			column[setting]{"VALUE", false, func(s setting) string { return dash(s.Value) }},
			column[setting]{"FROM", false, func(s setting) string { return s.Origin }},
		)
	}
	return c
}
