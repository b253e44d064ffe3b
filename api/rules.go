package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/rules"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// MaxRuleBody is the greatest length of a rule as it is sent, in bytes. What is
// stored of it must be shorter still.
const MaxRuleBody = 1 << 20

// RuleReader knows the rules.
type RuleReader interface {
	Rules(ctx context.Context, r inspector.Reading) ([]fsm.Rule, error)
	Rule(ctx context.Context, id string, r inspector.Reading) (fsm.Rule, error)
}

// RuleWriter changes the rules.
type RuleWriter interface {
	// CreateRule takes a body that package rules has checked, and mints a UUID if
	// it is given none.
	CreateRule(ctx context.Context, id string, body []byte) (fsm.Rule, error)
	DeleteRule(ctx context.Context, id string) error
	DeleteRules(ctx context.Context) error
}

// rulesAPI answers the paths of the rules.
type rulesAPI struct {
	rules     Service
	documents bodies
	reading   func(echo.Context) inspector.Reading // how fresh an answer must be
}

func (a rulesAPI) resources() []resource {
	return []resource{
		{path: "/v1/rules", cost: admission.Dear, get: a.listRules, post: a.createRule, remove: a.deleteRules},
		{path: "/v1/rules/:rule", cost: admission.Read, get: a.showRule, remove: a.deleteRule},
	}
}

func (a rulesAPI) listRules(c echo.Context) error {
	ctx, cancel := limited(c)
	defer cancel()
	all, err := a.rules.Rules(ctx, a.reading(c))
	if err != nil {
		return err
	}
	body := []byte(`{"rules":[`)
	for n, rule := range all {
		if n > 0 {
			body = append(body, ',')
		}
		if body, err = appendRule(body, rule, prefixOf(c.Request()), false); err != nil {
			return err
		}
	}
	return replyJSON(c, http.StatusOK, append(body, "]}"...))
}

func (a rulesAPI) createRule(c echo.Context) error {
	body, release, err := a.documents.read(c)
	defer release()
	if err != nil {
		return err
	}
	if len(body) > MaxRuleBody {
		return refuse(http.StatusRequestEntityTooLarge, "The body has more than %d bytes (1 MiB)", MaxRuleBody)
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
	return replyRule(c, createdStatus(c.Request().Header), rule)
}

// createdStatus is what the creation of a rule is answered with: the one thing
// that a version changes.
func createdStatus(h http.Header) int {
	const since = 6 // 1.6
	text := strings.Join(h[versionHeader], ",")
	if _, minor, ok := parseVersion(text); ok && minor < since {
		return http.StatusOK
	}
	return http.StatusCreated
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

func replyRule(c echo.Context, status int, rule fsm.Rule) error {
	body, err := appendRule(nil, rule, prefixOf(c.Request()), true)
	if err != nil {
		return err
	}
	return replyJSON(c, status, body)
}

// appendRule writes a rule, whole or as lists show it, its names in order. Its
// link has no host.
func appendRule(b []byte, rule fsm.Rule, prefix string, whole bool) ([]byte, error) {
	var stored struct{ Actions, Conditions, Description, Scope json.RawMessage }
	if err := json.Unmarshal(rule.Body, &stored); err != nil {
		return nil, fmt.Errorf("rule %s: %w", rule.UUID, err)
	}
	b = append(b, '{')
	if whole {
		b = append(append(append(b, `"actions":`...), stored.Actions...), ',')
		b = append(append(append(b, `"conditions":`...), stored.Conditions...), ',')
	}
	b = append(append(append(b, `"description":`...), stored.Description...), ',')
	b = appendText(append(b, `"links":[{"href":`...), prefix+"/v1/rules/"+rule.UUID)
	b = append(append(append(b, `,"rel":"self"}],"scope":`...), stored.Scope...), ',')
	b = appendText(append(b, `"uuid":`...), rule.UUID)
	return append(b, '}'), nil
}
