package ironic

import (
	"context"
	"errors"
	"net/http"
	"net/url"
)

var errNoTrait = errors.New("the node has no such trait")

// AddTrait implements inspector.RuleClient.
func (c *Client) AddTrait(ctx context.Context, node, trait string) error {
	return c.now.Load().trait(ctx, http.MethodPut, node, trait)
}

// RemoveTrait implements inspector.RuleClient.
func (c *Client) RemoveTrait(ctx context.Context, node, trait string) error {
	err := c.now.Load().trait(ctx, http.MethodDelete, node, trait)
	if errors.Is(err, errNoTrait) {
		return nil
	}
	return err
}

func (l *line) trait(ctx context.Context, method, node, trait string) error {
	k, err := nodeCall(method, node, "/traits/"+url.PathEscape(trait))
	if err != nil {
		return err
	}
	// "Node X doesn't have a trait 'T'" begins like the sentence about a node
	// that is not there.
	k.meanings = append([]meaning{{http.StatusNotFound, " trait", errNoTrait}}, k.meanings...)
	k.limit = 0
	_, err = l.do(ctx, k)
	return err
}
