package term

import (
	"fmt"

	"github.com/rogpeppe/go-internal/diff"
)

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
