package client

import (
	"context"
	"net/url"
)

// Boot is what was heard of a node's newest boot.
type Boot struct {
	Node     string        `json:"node"`
	State    string        `json:"state"`   // of its introspection; "": Trivet has none
	Awaited  bool          `json:"awaited"` // its machine is to boot now
	Steps    []BootStep    `json:"steps"`   // in the order in which they were heard first
	Dropped  int           `json:"dropped"` // steps that made room
	Findings []BootFinding `json:"findings"`
}

// BootStep is what happened once, or several times alike.
type BootStep struct {
	Time  string `json:"time"`  // RFC 3339, of the first time
	Until string `json:"until"` // of the last
	Count int    `json:"count"`
	Peer  string `json:"peer"` // name of the one that heard it
	Kind  string `json:"kind"`
	MAC   string `json:"mac"`
	Text  string `json:"text"`
}

// BootFinding is why a machine has not called, or did not in time.
type BootFinding struct {
	Code   string `json:"code"`
	Text   string `json:"text"`
	Remedy string `json:"remedy"`
}

// StoppedNode is a node whose machine does not come up, or did not in time; what stops it first is
// the first finding.
type StoppedNode struct {
	UUID     string        `json:"uuid"`
	Findings []BootFinding `json:"findings"`
}

// Boot reads what was heard of a node's newest boot.
func (h Hardware) Boot(ctx context.Context, node string) (Boot, error) {
	return asked(ctx, h.c.endpoints, h.c.reading(nil, "nodes", node, "boot"),
		func(b Boot) bool { return b.Node != "" && b.Steps != nil && b.Findings != nil })
}

// Stopped lists the nodes whose machines do not come up, or did not in time, in order.
func (h Hardware) Stopped(ctx context.Context) ([]StoppedNode, error) {
	return listNodes(ctx, h, "stopped", func(n StoppedNode) (string, bool) { return n.UUID, len(n.Findings) > 0 })
}

// maxNodePages bounds the pages of one list: no cluster has more nodes.
const maxNodePages = 1000

// listNodes reads all nodes of which one thing is so, in order; of says which node an element is,
// and whether it is complete.
func listNodes[T any](ctx context.Context, h Hardware, only string, of func(T) (uuid string, ok bool)) (all []T,
	err error) {
	type answer struct {
		Nodes []T `json:"nodes"`
	}
	query := url.Values{only: {"true"}}
	for range maxNodePages {
		page, err := asked(ctx, h.c.endpoints, h.c.reading(query, "nodes"), func(a answer) bool {
			for _, n := range a.Nodes {
				if _, ok := of(n); !ok {
					return false
				}
			}
			return a.Nodes != nil
		})
		if err != nil || len(page.Nodes) == 0 {
			return all, err
		}
		all = append(all, page.Nodes...)
		last, _ := of(all[len(all)-1])
		query = withParameter(query, "marker", last)
	}
	return all, nil
}
