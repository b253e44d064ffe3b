package ironic

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/url"
	"strings"
)

// maxPages bounds a list: ten million nodes at Ironic's thousand a page.
const maxPages = 10_000

// pages reads a list from its first page, which k asks for, to its last. each
// takes a page and returns its link to the next, "" from the last. A page that
// cannot be had is an error of the whole: half a list is no list, and neither are pages
// by two configurations.
func (l *line) pages(ctx context.Context, k call, each func(raw []byte) (next string, err error)) error {
	resource, asked, _ := strings.Cut(k.path, "?")
	filters, err := url.ParseQuery(asked)
	if err != nil {
		return err
	}
	seen := map[string]bool{filters.Encode(): true}
	for range maxPages {
		raw, err := l.do(ctx, k)
		if err != nil {
			return err
		}
		next, err := each(raw)
		if err != nil || next == "" {
			return err
		}
		query, err := nextQuery(next, filters)
		if err != nil {
			return garbled(k.name(), "Ironic's link to the next page cannot be followed: %.200q", next)
		}
		if seen[query] {
			return garbled(k.name(), "Ironic's links to the next page lead in a circle: %.200q", next)
		}
		k.path, seen[query] = resource+"?"+query, true
	}
	return garbled(k.name(), "Ironic's list has more than %d pages", maxPages)
}

// nextQuery returns the query of a link to a next page, with all that the first page was asked
// by: Ironic's links repeat neither provision_state nor node, so that by them alone the next
// page is one of all nodes, or of all ports. The link's host is what Ironic believes its own
// to be, which behind a proxy may be out of reach, or must be shown a token.
func nextQuery(next string, filters url.Values) (query string, err error) {
	link, err := url.Parse(next)
	if err != nil {
		return "", err
	}
	values, err := url.ParseQuery(link.RawQuery)
	if err != nil || len(values) == 0 {
		return "", cmp.Or(err, errNoQuery)
	}
	maps.Copy(values, filters)
	return values.Encode(), nil
}

var errNoQuery = errors.New("the link has no query")
