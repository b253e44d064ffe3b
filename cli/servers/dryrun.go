package servers

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/client"
)

// DryRun prints what changes would do of what name calls, and makes none. With goOn a
// refused one is left out and the others are tried, as a verb does that is given several
// arguments. The errors are those of the changes, nil for one that would be made or was not
// tried.
func (f *Flags) DryRun(ctx context.Context, name string, changes []client.Change, goOn bool) ([]error, error) {
	web, err := f.Client()
	if err != nil {
		return nil, err
	}
	errs := make([]error, len(changes))
	tried := make([]int, len(changes)) // places in changes
	for i := range tried {
		tried[i] = i
	}
	for { // each round ends or leaves a change out
		plan, err := client.DryRun(ctx, web, changes)
		if err != nil {
			return nil, err
		}
		if plan.Refused != nil {
			errs[tried[plan.RefusedAt]] = plan.Refused
		}
		if plan.Refused == nil || !goOn {
			return errs, f.term.ShowPlan(name, term.Plan{Before: plan.Before, After: plan.After})
		}
		changes = slices.Delete(slices.Clone(changes), plan.RefusedAt, plan.RefusedAt+1)
		tried = slices.Delete(tried, plan.RefusedAt, plan.RefusedAt+1)
	}
}

// Dry gives a verb that changes each of its arguments --dry-run, which prints what it would
// change of what name calls.
func (f *Flags) Dry(c *cobra.Command, name string, change func(arg string) client.Change) *cobra.Command {
	var dry bool
	term.DryRunFlag(c, &dry)
	carryOut := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if !dry {
			return carryOut(c, args)
		}
		errs, err := f.DryRun(c.Context(), name, term.Each(args, change), true)
		for i, refused := range errs {
			if refused != nil {
				errs[i] = fmt.Errorf("%s: %w", args[i], refused)
			}
		}
		return errors.Join(err, term.Failures(errs))
	}
	return c
}
