package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/fsm/ruleset"
	"github.com/trivet-ha/trivet/inspector/accept"
	"github.com/trivet-ha/trivet/inspector/hardware"
	"github.com/trivet-ha/trivet/inspector/rules"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

const pathDryRun = "/v1/dry-run"

// Bounds of a dry run. What is larger would be refused as a change, too: rules have
// ruleset.MaxBytes together.
const (
	MaxDryRunBody    = MaxDocument
	MaxDryRunChanges = 2 * ruleset.MaxRules
)

// DryRunner judges changes without making them.
type DryRunner interface {
	DryRun(ctx context.Context) (*accept.DryRun, error)
}

// plannedChange is one change, of which one field is set.
type plannedChange struct {
	CreateRule        json.RawMessage `json:"create_rule,omitempty"` // as POST /v1/rules has it
	DeleteRule        string          `json:"delete_rule,omitempty"` // its UUID
	DeleteRules       bool            `json:"delete_rules,omitempty"`
	PutExpectation    json.RawMessage `json:"put_expectation,omitempty"` // as files have it
	DeleteExpectation string          `json:"delete_expectation,omitempty"`
}

// planned is the answer to a dry run.
type planned struct {
	Before string `json:"before"`
	After  string `json:"after"`
	// Refused is the change that would be refused, none of those after which was tried.
	Refused *refusedChange `json:"refused,omitempty"`
}

type refusedChange struct {
	Change  int    `json:"change"` // from 0
	Status  int    `json:"status"` // with which the change itself would be answered
	Message string `json:"message"`
}

// dryRun says what changes would do, made in turn until one would be refused.
func dryRun(by DryRunner, documents bodies) echo.HandlerFunc {
	return func(c echo.Context) error {
		body, release, err := documents.readBody(c, MaxDryRunBody)
		defer release()
		if err != nil {
			return err
		}
		var in struct {
			Changes []plannedChange `json:"changes"`
		}
		d := json.NewDecoder(bytes.NewReader(body))
		d.DisallowUnknownFields()
		if err := d.Decode(&in); err != nil {
			return refuse(http.StatusBadRequest, "the body is not an object with a list of changes: %v", err)
		}
		if n := len(in.Changes); n > MaxDryRunChanges {
			return refuse(http.StatusBadRequest, "%d changes, allowed are %d", n, MaxDryRunChanges)
		}
		ctx, cancel := limited(c)
		defer cancel()
		run, err := by.DryRun(ctx)
		if err != nil {
			return err
		}
		var out planned
		for i, change := range in.Changes {
			if err := errors.Join(ctx.Err(), change.try(ctx, run)); err != nil {
				why := translate(err)
				out.Refused = &refusedChange{Change: i, Status: why.Status, Message: why.Message}
				break
			}
		}
		if out.Before, out.After, err = run.Differences(); err != nil {
			return fmt.Errorf("compare the state before and after the changes: %w", err)
		}
		return replyValue(c, http.StatusOK, out)
	}
}

// try makes a change on the copy of the state, as its own request would.
func (p plannedChange) try(ctx context.Context, run *accept.DryRun) error {
	switch {
	case p.CreateRule != nil:
		if len(p.CreateRule) > MaxRuleBody {
			return refuse(http.StatusRequestEntityTooLarge, "the rule has %d bytes, allowed are %d", len(p.CreateRule),
				MaxRuleBody)
		}
		definition, err := rules.Parse(p.CreateRule)
		if err != nil {
			return err
		}
		return run.CreateRule(ctx, definition.UUID, definition.Body)
	case p.DeleteRule != "":
		return run.DeleteRule(ctx, p.DeleteRule)
	case p.DeleteRules:
		return run.DeleteRules(ctx)
	case p.PutExpectation != nil:
		e, err := hardware.ReadExpectation(p.PutExpectation)
		if err != nil {
			return refuse(http.StatusBadRequest, "%v", err)
		}
		return run.PutExpectation(ctx, e)
	case p.DeleteExpectation != "":
		return run.DeleteExpectation(ctx, p.DeleteExpectation)
	}
	return refuse(http.StatusBadRequest, "the change has none of create_rule, delete_rule, delete_rules, "+
		"put_expectation and delete_expectation")
}

func dryRunResource(by DryRunner, documents bodies) resource {
	return resource{path: pathDryRun, cost: admission.Request, post: dryRun(by, documents)}
}
