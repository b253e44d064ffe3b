package client

import (
	"context"
	"fmt"
	"net/http"
)

// Change is a change of rules or expectations, of which one field is set.
type Change struct {
	CreateRule        any    `json:"create_rule,omitempty"`     // as CreateRule takes it
	PutExpectation    any    `json:"put_expectation,omitempty"` // as PutExpectation takes it
	DeleteExpectation string `json:"delete_expectation,omitempty"`
}

// Plan is what changes would do: the rules and expectations that differ, before and after,
// for a person to compare.
type Plan struct {
	Before, After string
	// Refused is the refusal of the first change that is refused, and RefusedAt its place
	// among the changes, from 0. Those after it were not tried. nil: all would be made.
	Refused   *Error
	RefusedAt int
}

// DryRun asks a server what changes would do, one after the other, and makes none. A server that has
// no dry run refuses the request.
func DryRun(ctx context.Context, c *Client, changes []Change) (Plan, error) {
	type answer struct {
		Before  *string `json:"before"`
		After   *string `json:"after"`
		Refused *struct {
			Change  int    `json:"change"`
			Status  int    `json:"status"`
			Message string `json:"message"`
		} `json:"refused"`
	}
	r, err := repeatable("the changes", map[string]any{"changes": changes}, http.MethodPost, "dry-run")
	if err != nil {
		return Plan{}, err
	}
	a, err := asked(ctx, c.endpoints, r, func(a answer) bool {
		return a.Before != nil && a.After != nil && (a.Refused == nil || a.Refused.Change < len(changes))
	})
	if HasStatus(err, http.StatusNotFound) {
		return Plan{}, fmt.Errorf("the server has no dry run, nothing was changed: %w", err)
	}
	if err != nil {
		return Plan{}, err
	}
	plan := Plan{Before: *a.Before, After: *a.After}
	if a.Refused != nil {
		plan.RefusedAt = a.Refused.Change
		plan.Refused = &Error{Status: a.Refused.Status, Message: a.Refused.Message, About: changes[plan.RefusedAt].about()}
	}
	return plan, nil
}

// about is what the request of the change itself would be about.
func (c Change) about() string {
	if c.PutExpectation != nil || c.DeleteExpectation != "" {
		return "expectations"
	}
	return "rules"
}
