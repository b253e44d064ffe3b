package servers

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/client"
)

// NodeID returns the UUID of a node that is named by it or by its name in Ironic.
func NodeID(ctx context.Context, web *client.Client, ref string) (string, error) {
	if id, err := uuid.Parse(ref); err == nil {
		return id.String(), nil
	}
	found, err := web.NodeName(ctx, ref)
	if err != nil {
		return "", fmt.Errorf("%s: %w", term.Printable(ref), err)
	}
	return found.UUID, nil
}

// Moment reads a time of the API; the zero time is of what cannot be read.
func Moment(text string) time.Time {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}
	}
	return at
}

// EventTime is when an event happened, to the millisecond.
func EventTime(e client.Event) string {
	at := Moment(e.Time)
	if at.IsZero() {
		return term.Printable(e.Time)
	}
	return at.UTC().Format("2006-01-02T15:04:05.000Z")
}
