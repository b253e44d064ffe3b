package client

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// ClusterStatus reads how the cluster stands into v, as the peer that answers sees it, and returns the time of
// day there, to the second. Only Trivet tells it; docs/api.md names its fields.
func ClusterStatus(ctx context.Context, c *Client, v any) (time.Time, error) {
	a, err := c.ask(ctx, c.reading(nil, "status"))
	if err != nil {
		return time.Time{}, fmt.Errorf("read status: %w", err)
	}
	if err := json.Unmarshal(a.body, v); err != nil {
		return time.Time{}, fmt.Errorf("read status: %w", strange(a.body))
	}
	return a.date(), nil
}
