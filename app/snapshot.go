package app

import (
	"context"
	"fmt"
	"io"
)

// Save writes a linearizable copy of the state to w. It implements
// api.Snapshots.
func (c *Core) Save(ctx context.Context, w io.Writer) error {
	v, err := c.Store.Read(ctx)
	if err != nil {
		return err
	}
	if _, err := v.WriteTo(w); err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	return nil
}
