package term

import (
	"context"
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"
)

// DryRunFlag adds --dry-run to a command.
func DryRunFlag(c *cobra.Command, dry *bool) {
	c.Flags().BoolVar(dry, "dry-run", false, "check all, and print what would change, as a diff, without changing it")
}

// Edit is what stands at a path before a change and after it; "" is nothing.
type Edit struct {
	Path   string `json:"path"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// ShowEdits shows what a dry run would change, as unified diffs or for a script.
func (t *Terminal) ShowEdits(edits []Edit) error {
	return t.Show(edits, func() error {
		for _, e := range edits {
			if err := t.PrintDiff(e.Path, e.Before, e.After); err != nil {
				return err
			}
		}
		return nil
	})
}

// DryRun has the peer check a change as it would carry it out, and prints what it would
// change of what name calls. The peer answers at a path of its own: a daemon of v0.2.0,
// which may still run, does not know it, and changes nothing.
func (t *Terminal) DryRun(ctx context.Context, peer Peer, name, method, path string, in any) error {
	var plan Plan
	if err := peer.Call(ctx, method, "/v1/dry-run/"+strings.TrimPrefix(path, "/v1/"), in, &plan); err != nil {
		return err
	}
	return t.ShowPlan(name, plan)
}

// Plan is what a dry run would change, before and after.
type Plan struct {
	Before string `json:"before"`
	After  string `json:"after"`
}

// ShowPlan shows what a dry run would change of what name calls.
func (t *Terminal) ShowPlan(name string, p Plan) error {
	return t.Show(p, func() error { return t.PrintDiff(name, p.Before, p.After) })
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
