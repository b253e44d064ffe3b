package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/uuid"
)

// Rule is an introspection rule: actions that are done to a node if all
// conditions hold for its data. Numbers in conditions and actions are read as
// json.Number, so that no digit is lost.
type Rule struct {
	UUID        string           `json:"uuid,omitempty"` // "": the client makes one
	Description *string          `json:"description,omitempty"`
	Scope       *string          `json:"scope,omitempty"`
	Conditions  []map[string]any `json:"conditions"` // field, op, value, invert, multiple
	Actions     []map[string]any `json:"actions"`    // action, and what it needs
	Links       []Link           `json:"links,omitempty"`
}

// RuleHead is what a list tells of a rule.
type RuleHead struct {
	UUID        string  `json:"uuid"`
	Description *string `json:"description"`
	Scope       *string `json:"scope"`
	Links       []Link  `json:"links,omitempty"`
}

// Rules lists the rules, the oldest first: the order in which they are applied.
func (c *Client) Rules(ctx context.Context) ([]RuleHead, error) {
	return listed[RuleHead](ctx, c, "rules", "rules")
}

// Rule reads one rule.
func (c *Client) Rule(ctx context.Context, id string) (Rule, error) {
	return asked(ctx, c.endpoints, c.reading(nil, "rules", id), isRule)
}

func isRule(r Rule) bool { return r.UUID != "" && r.Actions != nil }

// CreateRule adds a rule: a Rule, or anything else that encodes to the JSON of
// one. A rule without a UUID gets one here, so that no lost answer makes two of
// it; where the answer about a rule with a UUID was lost, the refusal 409 may
// mean the rule that this call made.
func (c *Client) CreateRule(ctx context.Context, rule any) (Rule, error) {
	body, err := json.Marshal(rule)
	if err != nil {
		return Rule{}, fmt.Errorf("encode the rule: %w", err)
	}
	minted := ""
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) == nil && fields != nil { // what is no object the server refuses
		if given, has := fields["uuid"]; !has || string(given) == "null" {
			minted = uuid.NewString()
			fields["uuid"] = json.RawMessage(`"` + minted + `"`)
			if body, err = json.Marshal(fields); err != nil {
				return Rule{}, fmt.Errorf("encode the rule: %w", err)
			}
		}
	}
	r := acting(http.MethodPost, "rules")
	r.body, r.once = body, false // the UUID makes it one
	made, err := asked(ctx, c.endpoints, r, isRule)
	if minted != "" && HasStatus(err, http.StatusConflict) {
		return c.Rule(ctx, minted) // an answer was lost
	}
	return made, err
}

// DeleteRule deletes one rule.
func (c *Client) DeleteRule(ctx context.Context, id string) error { return c.deleted(ctx, "rules", id) }

// deleted deletes what stands at a path. Where an answer was lost it asks again.
func (c *endpoints) deleted(ctx context.Context, path ...string) error {
	r := acting(http.MethodDelete, path...)
	_, err := c.ask(ctx, r)
	var none *NoAnswerError
	if !errors.As(err, &none) || !none.Arrived() {
		return err
	}
	r.once = false // from here on "not found" means that it was done
	if _, err = c.ask(ctx, r); HasStatus(err, http.StatusNotFound) {
		return nil
	}
	return err
}

// DeleteRules deletes all rules. Deleting none is no error.
func (c *Client) DeleteRules(ctx context.Context) error {
	r := acting(http.MethodDelete, "rules")
	r.once = false
	_, err := c.ask(ctx, r)
	return err
}
