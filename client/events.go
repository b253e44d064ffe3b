package client

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// MaxEventsWait is the longest that Events waits: less than a try at one server may
// take, since a server that waits cannot be told from one that hangs.
const MaxEventsWait = 8 * time.Second

// Event is something that happened to the cluster or to a node.
type Event struct {
	ID     string            `json:"id"`
	Index  uint64            `json:"index"`
	Seq    uint32            `json:"seq"`
	Time   string            `json:"time"` // when it happened, RFC 3339
	Kind   string            `json:"kind"`
	Action string            `json:"action"`
	Peer   string            `json:"peer"` // name of the host, or ""
	Node   string            `json:"node"` // UUID, or ""
	Text   string            `json:"text"` // one sentence; it may hold what machines wrote
	Fields map[string]string `json:"fields,omitempty"`
}

// EventPage is what a server tells of events.
type EventPage struct {
	Events []Event `json:"events"`
	// Last is the position after them: the After of the next question, to any server.
	Last string `json:"last"`
	// Reset says that events after the position that was asked for are gone; Events
	// begins with the first there is. nil mostly.
	Reset *EventReset `json:"reset"`
}

// EventReset says from where on events are known.
type EventReset struct {
	First  string `json:"first"` // ID of the first event that there is
	Reason string `json:"reason"`
}

// EventQuery chooses events.
type EventQuery struct {
	After string        // a position; "0": from the first that there is; "": the newest
	Kinds []string      // nil: all
	Node  string        // UUID; "": all
	Wait  time.Duration // for the first one, at most MaxEventsWait; needs After
	Limit int           // at most so many; 0: 1,000
}

// Events reads events, oldest first. All servers of a cluster know the same ones: a
// position that one gave is good at each.
func (c *Client) Events(ctx context.Context, q EventQuery) (EventPage, error) {
	query := url.Values{}
	set := func(name, value string) {
		if value != "" {
			query.Set(name, value)
		}
	}
	set("after", q.After)
	set("kind", strings.Join(q.Kinds, ","))
	set("node", q.Node)
	if q.Wait > 0 {
		set("wait", min(q.Wait, MaxEventsWait).String())
	}
	if q.Limit > 0 {
		set("limit", strconv.Itoa(q.Limit))
	}
	a, err := c.ask(ctx, c.reading(query, "events"))
	if err != nil {
		return EventPage{}, fmt.Errorf("read events: %w", err)
	}
	var page EventPage
	err = a.decode(&page, func() bool { return page.Events != nil && page.Last != "" })
	return page, err
}
