package ironic

import (
	"context"
	"encoding/json"
	"net/http"
)

// maxVersion bounds Ironic's first page, in bytes.
const maxVersion = 64 << 10

// firstNode is what Ironic answers to those alone whose credentials it takes.
const firstNode = "nodes?limit=1&fields=uuid"

// Version returns the newest version of its API that Ironic offers, "" if it does
// not say, and proves on the way that our credentials are taken: unlike Ping it
// asks something that Ironic does not tell everybody. It asks no guard.
func (c *Client) Version(ctx context.Context) (string, error) {
	ctx = WithGuard(ctx, func() error { return nil })
	if _, err := c.now.Load().do(ctx,
		call{method: http.MethodGet, path: firstNode, limit: maxVersion}); err != nil {
		return "", err
	}
	page, err := c.now.Load().do(ctx, call{method: http.MethodGet, limit: maxVersion})
	if err != nil {
		return "", err
	}
	var first struct {
		Version struct {
			Version string `json:"version"`
		} `json:"version"`
	}
	if json.Unmarshal(page, &first) != nil {
		return "", nil // something between us and Ironic has a first page of its own
	}
	return first.Version.Version, nil
}
