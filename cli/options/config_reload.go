package options

import (
	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/cli/term"
)

// reloadedKey is one line of what reload prints.
type reloadedKey struct {
	Key    string `json:"key"`
	Counts string `json:"counts"` // now, or after a restart
}

func configReload(t *term.Terminal, peer term.Peer) *cobra.Command {
	return term.Verb[admin.Reloaded]{
		Use:   "reload",
		Short: "Let the peer on this host read its configuration again",
		Long: "Let the peer on this host read its configuration again: the file, variables and flags with which it was started.\n" +
			"Keys whose values have changed are listed: those that count now, and those that need a restart. A configuration that will not do\n" +
			"changes nothing; all that is wrong with it is told, with lines. 'trivet config reference' says which keys need a restart.\n\n" +
			"The exit code is 0 when all that has changed counts, 2 for a configuration that will not do, and 4 when something needs a restart.\n" +
			"'systemctl reload trivet' does the same. With --dry-run the keys are printed as a diff with their values, and the exit code is 0 or 2.",
		Example: "  trivet config check && trivet config reload",
		Method:  "POST", Path: "/v1/config/reload", Limit: term.ShapeLimit, Dry: t, Of: "configuration",
		Show: func(done admin.Reloaded, _ []string) error {
			var rows []reloadedKey
			for _, key := range done.Applied {
				rows = append(rows, reloadedKey{key, "now"})
			}
			for _, key := range done.Restart {
				rows = append(rows, reloadedKey{key, "after a restart"})
			}
			for _, w := range done.Warnings {
				t.Warn("%s", w)
			}
			if len(rows) == 0 && (t.Format == "table" || t.Format == "wide") {
				t.Say("nothing has changed")
				return nil
			}
			if err := t.Show(rows, rows); err != nil || len(done.Restart) == 0 {
				return err
			}
			for _, problem := range done.Together {
				t.Warn("next to what needs a restart it would not do: %s", problem)
			}
			return term.Fail(term.ExitConflict,
				"'systemctl restart trivet', one host after the other and each when 'trivet status' says that one may be lost",
				"%d keys need a restart", len(done.Restart))
		},
	}.Command(peer)
}
