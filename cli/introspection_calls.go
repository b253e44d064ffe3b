package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/fsm"
)

const (
	pageLimit   = 1000 // introspections of a page; servers may be configured for fewer
	maxPages    = 1000 // of one listing
	maxRestarts = 3    // of a listing whose marker was deleted meanwhile
	// clockSlack is how far clocks of peers may be apart: one that is 5 s off
	// refuses to lead (design §4).
	clockSlack = 10 * time.Second
	// stampLayout is the contract's: UTC, the zone not written.
	stampLayout = "2006-01-02T15:04:05.999999999"
)

// introspection is the status object of the wire contract (§4).
type introspection struct {
	UUID       string          `json:"uuid"`
	State      string          `json:"state"`
	Finished   bool            `json:"finished"`
	Error      *string         `json:"error"`
	StartedAt  string          `json:"started_at"`
	FinishedAt *string         `json:"finished_at"`
	Links      json.RawMessage `json:"links,omitempty"`
}

// ended goes by the state: finished stays true while stored data is processed
// again.
func (s introspection) ended() bool {
	return s.State == fsm.NodeFinished.String() || s.State == fsm.NodeError.String()
}

func (s introspection) why() string {
	if s.Error == nil {
		return ""
	}
	return *s.Error
}

// startedSince reports whether an introspection that is under way began no
// earlier than so long before now, a reading of a server's clock.
func (s introspection) startedSince(now time.Time, ago time.Duration) bool {
	at, err := time.Parse(stampLayout, s.StartedAt)
	return err == nil && !s.ended() && now.Sub(at) <= ago+clockSlack
}

// staleQuery asks a peer for what it knows by itself.
func staleQuery(stale bool) url.Values {
	if stale {
		return url.Values{"stale": {"1"}}
	}
	return url.Values{}
}

// status reads where a node's introspection stands.
func (c *webClient) status(ctx context.Context, node string, stale bool) (introspection, error) {
	s, _, err := c.statusAt(ctx, node, stale)
	return s, err
}

// statusAt is status with the time of the server's clock.
func (c *webClient) statusAt(ctx context.Context, node string, stale bool) (introspection, time.Time, error) {
	a, err := c.ask(ctx, reading(staleQuery(stale), node))
	if err != nil {
		return introspection{}, time.Time{}, err
	}
	var s introspection
	if err := json.Unmarshal(a.body, &s); err != nil || s.UUID == "" {
		return s, a.date, strangeAnswer(a.body)
	}
	return s, a.date, nil
}

// strangeAnswer is for a server that answers 200 with something else.
func strangeAnswer(body []byte) error {
	const shown = 40
	text := printable(string(body[:min(len(body), shown)]))
	return fail(ExitFailed, "is --server the address of a peer's API, or of something else?", "the server's answer is not that of an introspection API: %q", text)
}

// start begins a node's introspection.
func (c *webClient) start(ctx context.Context, node string, query url.Values) error {
	began := time.Now()
	return c.act(ctx, acting(query, node), node, func(s introspection, now time.Time) bool {
		return s.startedSince(now, time.Since(began))
	})
}

// abort ends a node's introspection in error.
func (c *webClient) abort(ctx context.Context, node string) error {
	return c.act(ctx, acting(nil, node, "abort"), node, func(s introspection, _ time.Time) bool {
		return s.ended() || s.State == fsm.NodeAborting.String()
	})
}

// act sends what changes a node. A lost answer leaves open whether it was
// done, and a start that is done twice switches the machine on twice, so the
// node's status is asked before the request is repeated; done knows what the
// status says of it.
func (c *webClient) act(ctx context.Context, r request, node string, done func(s introspection, now time.Time) bool) error {
	ctx, cancel := context.WithTimeout(ctx, r.patience)
	defer cancel()
	for round := 0; ; round++ {
		_, err := c.ask(ctx, r)
		var none *silence
		lost := errors.As(err, &none) && none.arrived()
		if err == nil || !lost && round == 0 {
			return err
		}
		s, now, lookErr := c.statusAt(ctx, node, false)
		switch {
		case lookErr == nil && done(s, now):
			return nil
		case !lost, lookErr != nil && !isNotFound(lookErr):
			return err
		case !c.pause(ctx, round, none.after()):
			return err
		}
	}
}

func isNotFound(err error) bool {
	var e *api.Error
	return errors.As(err, &e) && e.Code == api.CodeNotFound
}

// data reads the stored document of a node, verbatim.
func (c *webClient) data(ctx context.Context, node string, unprocessed, stale bool) ([]byte, error) {
	path := []string{node, "data"}
	if unprocessed {
		path = append(path, "unprocessed")
	}
	a, err := c.ask(ctx, reading(staleQuery(stale), path...))
	if err != nil {
		return nil, err
	}
	if !json.Valid(a.body) {
		return nil, strangeAnswer(a.body)
	}
	return a.body, nil
}

// list yields introspections, those started last first, until the caller stops
// or there are no more. limit 0 is no limit. One that moves while the pages are
// read is yielded once.
func (c *webClient) list(ctx context.Context, query url.Values, limit int) iter.Seq2[introspection, error] {
	return func(yield func(introspection, error) bool) {
		seen := make(map[string]bool)
		p := pager{web: c, query: query, size: pageLimit}
		if limit > 0 {
			p.size = min(limit, pageLimit)
		}
		for range maxPages {
			page, err := p.next(ctx)
			if err != nil {
				yield(introspection{}, err)
				return
			}
			for _, s := range page {
				if seen[s.UUID] {
					continue
				}
				seen[s.UUID] = true
				if !yield(s, nil) || len(seen) == limit {
					return
				}
			}
			if len(page) == 0 {
				return
			}
		}
		yield(introspection{}, fmt.Errorf("the listing has more than %d pages", maxPages))
	}
}

// pager reads the pages of one listing in turn.
type pager struct {
	web      *webClient
	query    url.Values
	marker   string // the last UUID of the page before
	size     int    // introspections asked for; 0: as many as the server gives
	restarts int
}

// next returns the next page; after the last one it is empty. There is no other
// sign of the end, since the server's own limit is not known.
func (p *pager) next(ctx context.Context) ([]introspection, error) {
	for {
		a, err := p.web.ask(ctx, reading(p.parameters()))
		var e *api.Error
		switch {
		case err == nil:
			return p.decode(a.body)
		case isNotFound(err) && p.marker != "" && p.restarts < maxRestarts:
			p.marker = "" // deleted meanwhile; what was seen is passed over
			p.restarts++
		case errors.As(err, &e) && p.size > 0 && strings.Contains(e.Message, "Limit over"):
			p.size = 0
		default:
			return nil, err
		}
	}
}

func (p *pager) parameters() url.Values {
	q := url.Values{}
	for key, values := range p.query {
		q[key] = values
	}
	if p.marker != "" {
		q.Set("marker", p.marker)
	}
	if p.size > 0 {
		q.Set("limit", strconv.Itoa(p.size))
	}
	return q
}

func (p *pager) decode(body []byte) ([]introspection, error) {
	var page struct {
		Introspection *[]introspection `json:"introspection"`
	}
	if err := json.Unmarshal(body, &page); err != nil || page.Introspection == nil {
		return nil, strangeAnswer(body)
	}
	list := *page.Introspection
	if len(list) > 0 {
		p.marker = list[len(list)-1].UUID
	}
	return list, nil
}
