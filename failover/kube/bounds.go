package kube

import (
	"context"
	"fmt"
	"time"

	"github.com/trivet-ha/trivet/internal/kubeclient"
)

// pageSize is how many objects a page of a list has.
const pageSize = 250

// bound limits a call, and says so in words where it ends one.
func bound(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(kubeclient.Quiet(ctx), limit, tooLate(limit))
}

// tooLate is what ends a call that took longer.
type tooLate time.Duration

// Error implements error.
func (d tooLate) Error() string { return fmt.Sprintf("no answer within %v", time.Duration(d)) }
