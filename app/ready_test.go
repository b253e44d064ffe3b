package app

import (
	"context"
	"fmt"
	"time"

	"github.com/trivet-ha/trivet/internal/pace"
)

// Ready returns once the peer can serve linearizable reads and has a session.
func (p *Peer) Ready(ctx context.Context) error {
	for range pace.Every(ctx, 20*time.Millisecond) {
		if _, err := p.core.Store.Read(ctx); err == nil && !p.core.Session.ID().IsZero() {
			return nil
		}
	}
	return fmt.Errorf("the peer is not ready: %w", context.Cause(ctx))
}
