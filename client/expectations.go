package client

import (
	"context"
	"net/http"
)

// Expectation is what a group of machines was ordered with, as files have it.
type Expectation struct {
	Name  string              `json:"name"`
	Nodes []string            `json:"nodes,omitempty"` // UUIDs, names, patterns of names
	Where []map[string]string `json:"where,omitempty"` // kind, number and facts of parts
	Parts []map[string]string `json:"parts"`
}

// Verdict is how a node's machine was judged.
type Verdict struct {
	UUID         string   `json:"uuid"`
	Judged       bool     `json:"judged"` // false: no document of it was judged yet
	Expectations []string `json:"expectations"`
	Differences  []string `json:"differences"`
}

// Expectations lists the expectations in the order of their names.
func (h Hardware) Expectations(ctx context.Context) ([]Expectation, error) {
	return listed[Expectation](ctx, h.c, "expectations", "expectations")
}

// Expectation reads one of them.
func (h Hardware) Expectation(ctx context.Context, name string) (Expectation, error) {
	return asked(ctx, h.c.endpoints, h.c.reading(nil, "expectations", name), isExpectation)
}

func isExpectation(e Expectation) bool { return e.Name != "" && e.Parts != nil }

// PutExpectation writes an expectation: anything that encodes to the JSON of one.
func (h Hardware) PutExpectation(ctx context.Context, name string, expectation any) error {
	r, err := repeatable("expectation "+name, expectation, http.MethodPut, "expectations", name)
	if err != nil {
		return err
	}
	_, err = asked(ctx, h.c.endpoints, r, isExpectation)
	return err
}

// DeleteExpectation deletes an expectation.
func (h Hardware) DeleteExpectation(ctx context.Context, name string) error {
	return h.c.deleted(ctx, "expectations", name)
}

// Verdict reads how a node's machine was judged.
func (h Hardware) Verdict(ctx context.Context, node string) (Verdict, error) {
	return asked(ctx, h.c.endpoints, h.c.reading(nil, "nodes", node, "verdict"),
		func(v Verdict) bool { return v.UUID != "" && v.Differences != nil })
}

// Unexpected lists the machines that are not as ordered, in the order of their nodes.
func (h Hardware) Unexpected(ctx context.Context) (all []Verdict, err error) {
	return listNodes(ctx, h, "unexpected", func(v Verdict) (string, bool) { return v.UUID, true })
}
