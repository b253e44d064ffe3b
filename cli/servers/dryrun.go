package servers

import (
	"context"

	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/client"
)

// DryRun prints what changes would do of what name calls, and makes none. The errors are
// those of the changes: one that would be refused ends it.
func (f *Flags) DryRun(ctx context.Context, name string, changes []client.Change) ([]error, error) {
	web, err := f.Client()
	if err != nil {
		return nil, err
	}
	plan, err := client.DryRun(ctx, web, changes)
	if err != nil {
		return nil, err
	}
	errs := make([]error, len(changes))
	if plan.Refused != nil {
		errs[plan.RefusedAt] = plan.Refused
	}
	return errs, f.term.ShowPlan(name, term.Plan{Before: plan.Before, After: plan.After})
}
