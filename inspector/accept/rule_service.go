package accept

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/google/uuid"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/ruleset"
	"github.com/trivet-ha/trivet/inspector"
)

// Rules returns the rules, oldest first.
func (s *Service) Rules(ctx context.Context, r inspector.Reading) ([]ruleset.Rule, error) {
	v, err := inspector.ReadView(ctx, s.o.Log, r)
	if err != nil {
		return nil, err
	}
	return slices.Collect(v.Rules()), nil
}

// Rule returns a rule by its UUID, spelled as when it was created.
func (s *Service) Rule(ctx context.Context, id string, r inspector.Reading) (ruleset.Rule, error) {
	v, err := inspector.ReadView(ctx, s.o.Log, r)
	if err != nil {
		return ruleset.Rule{}, err
	}
	rule, ok := v.Rule(id)
	if !ok {
		return ruleset.Rule{}, noRule(id)
	}
	return rule, nil
}

// CreateRule adds a rule whose body was checked; with id "" it gets a UUID.
func (s *Service) CreateRule(ctx context.Context, id string, body []byte) (rule ruleset.Rule, err error) {
	if len(body) > ruleset.MaxRule {
		return rule, inspector.Refuse(http.StatusBadRequest, "The rule has %d bytes, allowed are %d", len(body),
			ruleset.MaxRule)
	}
	if id == "" {
		id = uuid.NewString()
	}
	res, err := inspector.Commit(ctx, s.o.Do, ruleset.Create{UUID: id, Body: body})
	if err != nil {
		return rule, err
	}
	return rule, res.Decode(&rule)
}

// DeleteRule removes a rule.
func (s *Service) DeleteRule(ctx context.Context, id string) error {
	command := ruleset.Delete{UUID: id}
	if command.Validate() != nil {
		return noRule(id) // no rule has such a UUID
	}
	_, err := inspector.Commit(ctx, s.o.Do, command)
	if errors.Is(err, fsm.NotFound) {
		return noRule(id)
	}
	return err
}

// DeleteRules removes all rules.
func (s *Service) DeleteRules(ctx context.Context) error {
	_, err := inspector.Commit(ctx, s.o.Do, ruleset.DeleteAll{})
	return err
}

func noRule(id string) error {
	return inspector.Refuse(http.StatusNotFound, "Rule %s was not found", id)
}
