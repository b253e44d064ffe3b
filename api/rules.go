package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/fsm/ruleset"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/rules"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
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

// rulesAPI answers the paths of the rules.
type rulesAPI struct {
	rules     RuleKeeper
	documents bodies
	reading   func(echo.Context) inspector.Reading // how fresh an answer must be
}

func (a rulesAPI) resources() []resource {
	return []resource{
		{path: "/v1/rules", cost: admission.Dear, get: a.listRules, post: a.createRule, remove: a.deleteRules},
		{path: "/v1/rules/:rule", cost: admission.Request, get: a.showRule, remove: a.deleteRule},
	}
}

func (a rulesAPI) listRules(c echo.Context) error {
	ctx, cancel := limited(c)
	defer cancel()
	all, err := a.rules.Rules(ctx, a.reading(c))
	if err != nil {
		return err
	}
	list := make([]shownRule, 0, len(all))
	for _, rule := range all {
		shown, err := decodeRule(rule, prefixOf(c.Request()))
		if err != nil {
			return err
		}
		shown.Actions, shown.Conditions = nil, nil // as lists show it
		list = append(list, shown)
	}
	return replyValue(c, http.StatusOK, map[string]any{"rules": list})
}

func (a rulesAPI) createRule(c echo.Context) error {
	body, release, err := a.documents.readBody(c, MaxRuleBody)
	defer release()
	if err != nil {
		return err
	}
	definition, err := rules.Parse(body)
	if err != nil {
		return err
	}
	ctx, cancel := limited(c)
	defer cancel()
	rule, err := a.rules.CreateRule(ctx, definition.UUID, definition.Body)
	if err != nil {
		return err
	}
	// This status is the one thing that a version changes.
	const since = 6 // 1.6
	if _, minor, ok := parseVersion(strings.Join(c.Request().Header[versionHeader], ",")); ok && minor < since {
		return replyRule(c, http.StatusOK, rule)
	}
	return replyRule(c, http.StatusCreated, rule)
}

func (a rulesAPI) showRule(c echo.Context) error {
	ctx, cancel := limited(c)
	defer cancel()
	rule, err := a.rules.Rule(ctx, c.Param("rule"), a.reading(c))
	if err != nil {
		return err
	}
	return replyRule(c, http.StatusOK, rule)
}

func (a rulesAPI) deleteRule(c echo.Context) error {
	ctx, cancel := limited(c)
	defer cancel()
	if err := a.rules.DeleteRule(ctx, c.Param("rule")); err != nil {
		return err
	}
	return reply(c, http.StatusNoContent, plainType, nil)
}

func (a rulesAPI) deleteRules(c echo.Context) error {
	ctx, cancel := limited(c)
	defer cancel()
	if err := a.rules.DeleteRules(ctx); err != nil {
		return err
	}
	return reply(c, http.StatusNoContent, plainType, nil)
}

// plainType is the type of no body at all, as the original has it. It is never
// changed.
var plainType = []string{"text/plain; charset=utf-8"}

func replyRule(c echo.Context, status int, rule ruleset.Rule) error {
	shown, err := decodeRule(rule, prefixOf(c.Request()))
	if err != nil {
		return err
	}
	return replyValue(c, status, shown)
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
