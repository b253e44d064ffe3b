package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// The states of an introspection.
const (
	StateStarting   = "starting"
	StateWaiting    = "waiting"
	StateProcessing = "processing"
	StateFinished   = "finished"
	StateError      = "error"
	StateReapplying = "reapplying"
	StateEnrolling  = "enrolling"
	StateAborting   = "aborting"
)

// States returns all states, in the order of a life.
func States() []string {
	return []string{StateStarting, StateWaiting, StateProcessing, StateFinished, StateError, StateReapplying,
		StateEnrolling, StateAborting}
}

// clockSlack is how far clocks of servers may be apart. A peer of Trivet that
// is 5 s off refuses to lead.
const clockSlack = 10 * time.Second

// Introspection is where the last introspection of a node stands.
type Introspection struct {
	UUID       string  `json:"uuid"`     // the node's
	State      string  `json:"state"`    // one of States
	Finished   bool    `json:"finished"` // stays true while stored data is processed again: go by Ended
	Error      *string `json:"error"`
	StartedAt  Time    `json:"started_at"`
	FinishedAt *Time   `json:"finished_at"`
	Links      []Link  `json:"links"`

	// RamdiskLogs is PEER:FILE, where the logs are that the ramdisk sent; "" if
	// there are none. Status alone tells it.
	RamdiskLogs string `json:"ramdisk_logs,omitempty"`
}

// Link is a URL of a resource.
type Link struct {
	Rel  string `json:"rel"`
	Href string `json:"href"`
}

// Ended reports whether nothing is under way.
func (i Introspection) Ended() bool { return i.State == StateFinished || i.State == StateError }

// Why returns the text of the error that it ended in, "" for none.
func (i Introspection) Why() string {
	if i.Error == nil {
		return ""
	}
	return *i.Error
}

// Time is a moment as the API writes it: UTC, the zone not written.
type Time struct{ time.Time }

// layout has microseconds, which the API leaves out where they are 0.
const layout = "2006-01-02T15:04:05.000000"

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) { return json.Marshal(t.String()) }

// String returns the moment as the API writes it.
func (t Time) String() string {
	if t.Nanosecond()/int(time.Microsecond) == 0 {
		return t.UTC().Format(layout[:len("2006-01-02T15:04:05")])
	}
	return t.UTC().Format(layout)
}

// UnmarshalJSON implements json.Unmarshaler. A zone that is written counts.
func (t *Time) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	at, err := time.Parse("2006-01-02T15:04:05", s) // reads a fraction as well
	if err != nil {
		at, err = time.Parse(time.RFC3339, s)
	}
	if err != nil {
		return fmt.Errorf("%q is no time of the API", s)
	}
	t.Time = at.UTC()
	return nil
}

// Status reads where the introspection of a node stands. node is its UUID or
// its name in Ironic, here and in all methods.
func (c *Client) Status(ctx context.Context, node string) (Introspection, error) {
	i, _, err := c.statusAt(ctx, node)
	return i, err
}

// statusAt is Status with the time of the server's clock.
func (c *Client) statusAt(ctx context.Context, node string) (Introspection, time.Time, error) {
	a, err := c.ask(ctx, c.reading(nil, "introspection", node))
	if err != nil {
		return Introspection{}, time.Time{}, err
	}
	var i Introspection
	err = a.decode(&i, func() bool { return i.UUID != "" })
	i.RamdiskLogs = a.header.Get(logsHeader)
	return i, a.date(), err
}

// StartOptions say how to begin an introspection.
type StartOptions struct {
	// LeaveBoot leaves boot device and power of the machine to the caller.
	LeaveBoot bool
}

// Start begins a node's introspection. The machine is not switched on twice by one
// call, also if answers are lost.
func (c *Client) Start(ctx context.Context, node string, o StartOptions) error {
	began := time.Now()
	r := acting(http.MethodPost, "introspection", node)
	if o.LeaveBoot {
		r.query = url.Values{"manage_boot": {"false"}}
	}
	return c.act(ctx, r, node, func(i Introspection, now time.Time) bool {
		// by the server's clock, it began since
		return !i.Ended() && now.Sub(i.StartedAt.Time) <= time.Since(began)+clockSlack
	})
}

// Abort ends a node's introspection in error. Where none is under way, nothing
// changes.
func (c *Client) Abort(ctx context.Context, node string) error {
	return c.act(ctx, acting(http.MethodPost, "introspection", node, "abort"), node,
		func(i Introspection, _ time.Time) bool {
			return i.Ended() || i.State == StateAborting
		})
}

// Reapply has the hooks and rules of today work on the data of a node's last
// introspection, or on document, a JSON object that takes its place; nil is
// none. When it is accepted the work has only begun: go by Status.
func (c *Client) Reapply(ctx context.Context, node string, document []byte) error {
	before, err := c.Status(ctx, node)
	known := err == nil // what it is not known of is refused by the server, in its words
	r := acting(http.MethodPost, "introspection", node, "data", "unprocessed")
	r.body = document
	return c.act(ctx, r, node, func(i Introspection, _ time.Time) bool {
		return known && (i.State == StateReapplying || !i.StartedAt.Equal(before.StartedAt.Time))
	})
}

// act sends what changes a node. A lost answer leaves open whether it was
// done, and a start that is done twice switches the machine on twice, so the
// node's status is asked before the request is repeated; done knows what the
// status says of it.
func (c *Client) act(ctx context.Context, r request, node string,
	done func(i Introspection, now time.Time) bool) error {
	fresh := &Client{endpoints: c.endpoints}
	return c.retry(ctx, r.timeout, func(ctx context.Context, n int) (again bool, err error) {
		_, err = c.ask(ctx, r)
		var none *NoAnswerError
		lost := errors.As(err, &none) && none.Arrived()
		if err == nil || !lost && n == 1 {
			return false, err
		}
		i, now, lookErr := fresh.statusAt(ctx, node)
		if lookErr == nil && done(i, now) {
			return false, nil
		}
		return lost && (lookErr == nil || HasStatus(lookErr, http.StatusNotFound)), err
	})
}

// Data reads the document of a node's last introspection, byte for byte as it
// is stored after the hooks.
func (c *Client) Data(ctx context.Context, node string) ([]byte, error) {
	return c.document(ctx, "introspection", node, "data")
}

// UnprocessedData reads what the ramdisk sent.
func (c *Client) UnprocessedData(ctx context.Context, node string) ([]byte, error) {
	return c.document(ctx, "introspection", node, "data", "unprocessed")
}

func (c *Client) document(ctx context.Context, path ...string) ([]byte, error) {
	a, err := c.ask(ctx, c.reading(nil, path...))
	if err != nil {
		return nil, err
	}
	if !json.Valid(a.body) {
		return nil, strange(a.body)
	}
	return a.body, nil
}

// Continue sends what a ramdisk sends, and returns the UUID of the node that
// was found by it. The same document twice is one callback: a lost answer is
// asked for again.
func (c *Client) Continue(ctx context.Context, document []byte) (node string, err error) {
	r := acting(http.MethodPost, "continue")
	r.body, r.try, r.timeout, r.once = document, continueTry, 2*continueTry, false
	type found struct {
		UUID string `json:"uuid"`
	}
	a, err := asked(ctx, c.endpoints, r, func(a found) bool { return a.UUID != "" })
	return a.UUID, err
}
