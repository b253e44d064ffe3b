package inspector

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"github.com/trivet-ha/trivet/fsm"
)

// Rules returns the rules, oldest first.
func (s *Service) Rules(ctx context.Context, r Reading) ([]fsm.Rule, error) {
	v, err := view(ctx, s.o.Log, r)
	if err != nil {
		return nil, err
	}
	return slices.Collect(v.Rules()), nil
}

// Rule returns a rule by its UUID, spelled as when it was created.
func (s *Service) Rule(ctx context.Context, id string, r Reading) (fsm.Rule, error) {
	v, err := view(ctx, s.o.Log, r)
	if err != nil {
		return fsm.Rule{}, err
	}
	rule, ok := v.Rule(id)
	if !ok {
		return fsm.Rule{}, noRule(id)
	}
	return rule, nil
}

// CreateRule adds a rule whose body was checked; with id "" it gets a UUID.
func (s *Service) CreateRule(ctx context.Context, id string, body []byte) (rule fsm.Rule, err error) {
	if len(body) > fsm.MaxRule {
		return rule, refuse(http.StatusBadRequest, "The rule has %d bytes, allowed are %d", len(body), fsm.MaxRule)
	}
	if id == "" {
		id = uuid.NewString()
	}
	res, err := s.o.Do.Do(ctx, "", fsm.CreateRule{UUID: id, Body: body})
	if err == nil {
		err = res.Err()
	}
	if err != nil {
		return rule, err
	}
	return rule, res.Decode(&rule)
}

// DeleteRule removes a rule.
func (s *Service) DeleteRule(ctx context.Context, id string) error {
	command := fsm.DeleteRule{UUID: id}
	if command.Validate() != nil {
		return noRule(id) // no rule has such a UUID
	}
	res, err := s.o.Do.Do(ctx, "", command)
	if err == nil {
		err = res.Err()
	}
	if errors.Is(err, fsm.NotFound) {
		return noRule(id)
	}
	return err
}

// DeleteRules removes all rules.
func (s *Service) DeleteRules(ctx context.Context) error {
	res, err := s.o.Do.Do(ctx, "", fsm.DeleteRules{})
	if err != nil {
		return err
	}
	return res.Err()
}

func noRule(id string) error { return refuse(http.StatusNotFound, "Rule %s was not found", id) }
