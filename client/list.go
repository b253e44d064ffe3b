package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

const (
	pageLimit   = 1000 // introspections of a page; servers may be configured for fewer
	maxPages    = 1000 // of one listing
	maxRestarts = 3    // of a listing whose marker was deleted meanwhile
)

// ListOptions choose introspections.
type ListOptions struct {
	States []string // only those in one of them; nil: all
	Marker string   // only those after this one, a node's UUID; "": from the first
	Limit  int      // at most so many; 0: all
}

// List yields introspections, those started last first, until the caller stops
// or there are no more. It reads page after page; one that moves meanwhile is
// yielded once. An error is the last thing yielded.
func (c *Client) List(ctx context.Context, o ListOptions) iter.Seq2[Introspection, error] {
	return func(yield func(Introspection, error) bool) {
		seen := make(map[string]bool)
		p := pager{client: c, from: o.Marker, marker: o.Marker, size: pageLimit}
		if len(o.States) > 0 {
			p.query = url.Values{"state": {strings.Join(o.States, ",")}}
		}
		if o.Limit > 0 {
			p.size = min(o.Limit, pageLimit)
		}
		for range maxPages {
			page, err := p.next(ctx)
			if err != nil {
				yield(Introspection{}, err)
				return
			}
			for _, i := range page {
				if seen[i.UUID] {
					continue
				}
				seen[i.UUID] = true
				if !yield(i, nil) || len(seen) == o.Limit {
					return
				}
			}
			if len(page) == 0 {
				return
			}
		}
		yield(Introspection{}, fmt.Errorf("the listing has more than %d pages", maxPages))
	}
}

// pager reads the pages of one listing in turn.
type pager struct {
	client   *Client
	query    url.Values
	from     string // the caller's marker
	marker   string // the last UUID of the page before
	size     int    // introspections asked for; 0: as many as the server gives
	restarts int
}

// next returns the next page; after the last one it is empty. There is no other
// sign of the end, since the server's own limit is not known.
func (p *pager) next(ctx context.Context) ([]Introspection, error) {
	type answer struct {
		Introspection []Introspection `json:"introspection"`
	}
	for {
		page, err := asked(ctx, p.client.endpoints, p.client.reading(p.parameters(), "introspection"),
			func(a answer) bool { return a.Introspection != nil })
		var e *Error
		switch {
		case err == nil:
			if n := len(page.Introspection); n > 0 {
				p.marker = page.Introspection[n-1].UUID
			}
			return page.Introspection, nil
		case HasStatus(err, http.StatusNotFound) && p.marker != p.from && p.restarts < maxRestarts:
			p.marker = p.from // deleted meanwhile; what was seen is passed over
			p.restarts++
		case errors.As(err, &e) && p.size > 0 && strings.Contains(e.Message, "Limit over"):
			p.size = 0
		default:
			return nil, err
		}
	}
}

func (p *pager) parameters() url.Values {
	q := p.query
	if p.marker != "" {
		q = withParameter(q, "marker", p.marker)
	}
	if p.size > 0 {
		q = withParameter(q, "limit", strconv.Itoa(p.size))
	}
	return q
}
