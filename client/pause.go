package client

import (
	"context"
	"encoding/binary"
	"io"
	"time"
)

// pause waits before the next round, longer each time and of random length, so that
// clients do not repeat together. It returns false, at once, when there is no time
// for it.
func (c *endpoints) pause(ctx context.Context, round int, wish time.Duration) bool {
	d := max(spread(c.options.Random, min(firstPause<<min(round, 10), lastPause)), min(wish, maxRetryAfter))
	if end, bounded := ctx.Deadline(); bounded && time.Until(end) <= d {
		return false
	}
	return sleep(ctx, d)
}

// Wait waits for about d, of random length, and returns whether ctx let it. It is
// for a program that asks again and again.
func (c *Client) Wait(ctx context.Context, d time.Duration) bool {
	return sleep(ctx, spread(c.options.Random, d))
}

// sleep returns whether ctx let it wait for d.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// spread returns a duration between d/2 and 3d/2, so that many programs that
// failed together do not come back together.
func spread(random io.Reader, d time.Duration) time.Duration {
	var b [8]byte
	if _, err := io.ReadFull(random, b[:]); err != nil || d <= 0 {
		return d
	}
	return d/2 + time.Duration(binary.BigEndian.Uint64(b[:])%uint64(d))
}
