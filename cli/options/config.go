package options

import (
	"errors"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/config"
)

// Config is 'trivet config'.
func Config(t *term.Terminal, peer term.Peer, set *Set) *cobra.Command {
	check := &cobra.Command{
		Use:   "check",
		Short: "Say everything that is wrong with the configuration",
		Long: "Say everything that is wrong with the configuration, with file and line, and whether 'trivet serve' would start with it.\n" +
			"Options that are right one by one and of no use together are wrong here and for 'trivet init' and 'trivet join'; 'trivet serve' and a\n" +
			"reload warn of them, so that a peer that ran with them starts after an upgrade. The exit code is 2 if anything is wrong.",
		Example: "trivet config check\ntrivet config check --config ./trivet.yaml",
		RunE: func(*cobra.Command, []string) error {
			conf, err := set.LoadUseful()
			if err != nil {
				return err
			}
			// Who may not look judges a file that is perhaps for another host.
			if err := Unfinished(conf.DataDir); err != nil && !errors.Is(err, fs.ErrPermission) {
				return err
			}
			for _, w := range renamed(conf) { // no error: peers run with one
				t.Warn("%v", w)
			}
			t.Say("the configuration will do")
			return nil
		},
	}
	template := &cobra.Command{
		Use:     "template",
		Short:   "Print a commented configuration file; options given as flags are written into it",
		Long:    "Print a commented configuration file: every key with its meaning, bounds and default. Options given as flags are written into it.",
		Example: "umask 027\ntrivet config template > trivet.yaml",
		RunE: func(*cobra.Command, []string) error {
			text, err := config.Template(set.Values)
			if err != nil {
				return Error(err)
			}
			_, err = t.Out.Write(text)
			return err
		},
	}
	show := configShow(t, set)
	reference := &cobra.Command{
		Use:   "reference",
		Short: "Print the reference of the configuration: every key, what it may be, and when it counts",
		Long: "Print the reference of the configuration, as Markdown: every key with its meaning, type, default and bounds, its variable and flag,\n" +
			"whether a running peer takes a new value, and whether it has to be the same on all peers.",
		Example: "trivet config reference > configuration.md",
		RunE: func(*cobra.Command, []string) error {
			_, err := t.Out.Write(config.Reference())
			return err
		},
	}
	for _, c := range []*cobra.Command{check, show, template} {
		set.Flags(c)
	}
	return term.Group("config", "Check, show and reload the configuration", check, reference,
		configReload(t, peer), show, template)
}

// setting is config.Setting for scripts.
type setting struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	From  string `json:"origin"`
}

func configShow(t *term.Terminal, set *Set) *cobra.Command {
	var effective bool
	c := &cobra.Command{
		Use:     "show",
		Short:   "Show what is configured, and where; secrets are hidden",
		Long:    "Show what is configured, and where: a flag, a variable, or a line of the file. Secrets are hidden. With --effective defaults are shown too.",
		Example: "trivet config show --effective",
	}
	c.Flags().BoolVar(&effective, "effective", false, "show every option, defaults too")
	c.RunE = func(*cobra.Command, []string) error {
		conf, err := set.Load()
		if err != nil {
			return err
		}
		var rows []setting
		for _, s := range conf.Effective() {
			if effective || s.Origin.Kind != config.FromDefault {
				rows = append(rows, setting{s.Key, s.Value, s.Origin.String()})
			}
		}
		return t.Show(rows, rows)
	}
	return c
}
