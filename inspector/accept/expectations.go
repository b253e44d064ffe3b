package accept

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/expectations"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/hardware"
)

// Expectations returns what machines were ordered with, in the order of the names.
func (h Hardware) Expectations(ctx context.Context, r inspector.Reading) ([]expectations.Expectation, error) {
	v, err := inspector.ReadView(ctx, h.service.o.Log, r)
	if err != nil {
		return nil, err
	}
	return slices.Collect(v.Expectations()), nil
}

// PutExpectation writes an expectation that was checked, in the place of one of its name.
// The leader judges the machines of both.
func (h Hardware) PutExpectation(ctx context.Context, e hardware.Expectation) error {
	body, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("expectation %s: %w", e.Name, err)
	}
	command := expectations.Put{Name: e.Name, Body: body}
	if err := command.Validate(); err != nil {
		return inspector.Refuse(http.StatusBadRequest, "%v", err)
	}
	_, err = inspector.Commit(ctx, h.service.o.Do, command)
	return err
}

// DeleteExpectation removes an expectation.
func (h Hardware) DeleteExpectation(ctx context.Context, name string) error {
	command, err := expectations.Delete{Name: name}, error(fsm.NotFound)
	if command.Validate() == nil {
		_, err = inspector.Commit(ctx, h.service.o.Do, command)
	}
	if errors.Is(err, fsm.NotFound) {
		return inspector.Refuse(http.StatusNotFound, "Expectation %s was not found", name)
	}
	return err
}

// Verdict returns how a node's machine was judged. One that was not judged yet has no
// Document.
func (h Hardware) Verdict(ctx context.Context, ref string, r inspector.Reading) (expectations.Verdict, error) {
	node, v, err := h.service.Locate(ctx, ref, r)
	if err != nil {
		return expectations.Verdict{}, err
	}
	verdict, _ := v.Verdict(node)
	verdict.Node = node
	return verdict, nil
}

// Unexpected lists the machines that are not as ordered, in the order of their nodes,
// after a page's marker.
func (h Hardware) Unexpected(ctx context.Context, p Page, r inspector.Reading) ([]expectations.Verdict, error) {
	v, err := inspector.ReadView(ctx, h.service.o.Log, r)
	if err != nil {
		return nil, err
	}
	var list []expectations.Verdict
	for verdict := range v.UnexpectedAfter(p.Marker) {
		if len(list) == p.Limit {
			break
		}
		list = append(list, verdict)
	}
	return list, nil
}
