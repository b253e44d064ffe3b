package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/fsm/ruleset"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/accept"
	"github.com/trivet-ha/trivet/inspector/hardware"
	"github.com/trivet-ha/trivet/inspector/rules"
)

// MaxRuleBody is the greatest length of a rule as it is sent, in bytes. What is
// stored of it must be shorter still.
const MaxRuleBody = 1 << 20

// RuleReader knows the rules.
type RuleReader interface {
	Rules(ctx context.Context, r inspector.Reading) ([]ruleset.Rule, error)
	Rule(ctx context.Context, id string, r inspector.Reading) (ruleset.Rule, error)
}

// RuleWriter changes the rules.
type RuleWriter interface {
	// CreateRule takes a body that package rules has checked, and mints a UUID if
	// it is given none.
	CreateRule(ctx context.Context, id string, body []byte) (ruleset.Rule, error)
	DeleteRule(ctx context.Context, id string) error
	DeleteRules(ctx context.Context) error
}

// RuleKeeper keeps the rules.
type RuleKeeper interface {
	RuleReader
	RuleWriter
}

func (h handlers) listRules(ctx context.Context, c echo.Context) (any, error) {
	all, err := h.Service.Rules(ctx, h.reading(c))
	if err != nil {
		return nil, err
	}
	list := make([]shownRule, 0, len(all))
	for _, rule := range all {
		shown, err := decodeRule(rule, prefixOf(c.Request()))
		if err != nil {
			return nil, err
		}
		shown.Actions, shown.Conditions = nil, nil // as lists show it
		list = append(list, shown)
	}
	return map[string]any{"rules": list}, nil
}

func (h handlers) createRule(ctx context.Context, c echo.Context, body []byte) error {
	definition, err := rules.Parse(body)
	if err != nil {
		return err
	}
	rule, err := h.Service.CreateRule(ctx, definition.UUID, definition.Body)
	if err != nil {
		return err
	}
	shown, err := decodeRule(rule, prefixOf(c.Request()))
	if err != nil {
		return err
	}
	// This status is the one thing that a version changes.
	const since = 6 // 1.6
	if _, minor, ok := parseVersion(strings.Join(c.Request().Header[versionHeader], ",")); ok && minor < since {
		return replyValue(c, http.StatusOK, shown)
	}
	return replyValue(c, http.StatusCreated, shown)
}

func (h handlers) showRule(ctx context.Context, c echo.Context) (any, error) {
	rule, err := h.Service.Rule(ctx, c.Param("rule"), h.reading(c))
	if err != nil {
		return nil, err
	}
	return decodeRule(rule, prefixOf(c.Request()))
}

// shownRule is a rule as answers show it, its names in order.
type shownRule struct {
	Actions     json.RawMessage `json:"actions,omitempty"`
	Conditions  json.RawMessage `json:"conditions,omitempty"`
	Description json.RawMessage `json:"description"`
	Links       [1]link         `json:"links"` // without a host
	Scope       json.RawMessage `json:"scope"`
	UUID        string          `json:"uuid"`
}

func decodeRule(rule ruleset.Rule, prefix string) (shown shownRule, err error) {
	if err := json.Unmarshal(rule.Body, &shown); err != nil {
		return shown, fmt.Errorf("rule %s: %w", rule.UUID, err)
	}
	shown.UUID, shown.Links = rule.UUID, selfLink(prefix+"/v1/rules/"+rule.UUID)
	return shown, nil
}

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
	CreateRule        json.RawMessage `json:"create_rule,omitempty"`     // as POST /v1/rules has it
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
func (h handlers) dryRun(ctx context.Context, c echo.Context, body []byte) error {
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
	run, err := h.Service.DryRun(ctx)
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
	case p.PutExpectation != nil:
		e, err := hardware.ReadExpectation(p.PutExpectation)
		if err != nil {
			return refuse(http.StatusBadRequest, "%v", err)
		}
		return run.PutExpectation(ctx, e)
	case p.DeleteExpectation != "":
		return run.DeleteExpectation(ctx, p.DeleteExpectation)
	}
	return refuse(http.StatusBadRequest, "the change has none of create_rule, put_expectation and delete_expectation")
}
