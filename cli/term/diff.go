package term

import (
	"fmt"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"
)

// DryRunFlag adds --dry-run to a command.
func DryRunFlag(c *cobra.Command, dry *bool) {
	c.Flags().BoolVar(dry, "dry-run", false, "check all, and print what would change, as a diff, without changing it")
}

// PrintDiff prints what a dry run would change of what name calls, as a unified diff
// without colours.
func (t *Terminal) PrintDiff(name, before, after string) error {
	if before == after {
		_, err := fmt.Fprintf(t.Out, "%s: nothing would change\n", name)
		return err
	}
	_, err := t.Out.Write(diff.Diff(name, []byte(before), name+" (would be)", []byte(after)))
	return err
}
