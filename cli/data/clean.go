package data

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/cli/local"
	"github.com/trivet-ha/trivet/cli/options"
	"github.com/trivet-ha/trivet/cli/term"
)

// DataDir is 'trivet datadir'.
func DataDir(t *term.Terminal, set *options.Set) *cobra.Command {
	var dry bool
	clean := &cobra.Command{
		Use:   "clean",
		Short: "Remove the old states that recover, snapshot restore and join left",
		Long: "Remove the folders before-recover-DATE, before-restore-DATE and before-join-DATE from the data directory, which hold the state and the keys that this host had before, and print\n" +
			"their paths. The peer may run. With --dry-run nothing is removed.",
		Example: "  trivet datadir clean --dry-run",
	}
	clean.Flags().BoolVar(&dry, "dry-run", false, "only show what would be removed")
	set.Flags(clean)
	clean.RunE = func(*cobra.Command, []string) error {
		conf, err := set.Load()
		if err != nil {
			return err
		}
		removed, err := datadir.Clean(conf.DataDir, dry)
		for _, path := range removed {
			if _, err := fmt.Fprintln(t.Out, path); err != nil {
				return err
			}
		}
		return local.DirError(err)
	}
	return term.Group("datadir", "Remove what foundings left in the data directory", clean)
}
