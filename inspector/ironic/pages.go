package ironic

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strings"
)

// maxPages bounds a list: ten million nodes at Ironic's thousand a page.
const maxPages = 10_000

// listTries is how often a list is begun that changes while it is read.
const listTries = 3

// pages reads a list from its first page, which k asks for, to its last. read takes a page and
// returns its items and its link to the next one, "" from the last. A page that cannot be had is an
// error of the whole: half a list is no list, and neither are pages by two configurations. Where
// the item behind which a page begins was deleted meanwhile, the list begins again; if that does
// not help, the error is that of an Ironic that is busy, and no verdict.
func pages[T any](ctx context.Context, l *line, k call, read func(raw []byte) ([]T, string, error)) ([]T, error) {
	var gone *Error
	for range listTries {
		items, n, err := pagesOnce(ctx, l, k, read)
		if err == nil {
			return items, nil
		}
		// The list begins again only if Ironic has the last item of the page before no more; a node whose ports are
		// listed is no such item.
		e, ok := errors.AsType[*Error](err)
		if n == 0 || !ok || e.Status != http.StatusNotFound || Unjudged(err) || errors.Is(err, ErrNoNode) {
			return nil, err
		}
		gone = e
	}
	return nil, &Error{Call: gone.Call, Status: http.StatusServiceUnavailable, Own: true,
		Message: "Ironic's list changed each time that it was read: " + gone.Message}
}

// pagesOnce returns the items of a list, and how many pages of it were read.
func pagesOnce[T any](ctx context.Context, l *line, k call, read func(raw []byte) ([]T, string, error)) (items []T,
	n int, err error) {
	resource, asked, _ := strings.Cut(k.path, "?")
	filters, err := url.ParseQuery(asked)
	if err != nil {
		return nil, 0, err
	}
	seen := map[string]bool{filters.Encode(): true}
	for n := range maxPages {
		raw, err := l.do(ctx, k)
		if err != nil {
			return nil, n, err
		}
		page, next, err := read(raw)
		items = append(items, page...)
		if err != nil || next == "" {
			return items, n, err
		}
		query, ok := nextQuery(next, filters)
		if !ok {
			return nil, n, garbled(k.name(), "Ironic's link to the next page cannot be followed: %.200q", next)
		}
		if seen[query] {
			return nil, n, garbled(k.name(), "Ironic's links to the next page lead in a circle: %.200q", next)
		}
		k.path, seen[query] = resource+"?"+query, true
	}
	return nil, maxPages, garbled(k.name(), "Ironic's list has more than %d pages", maxPages)
}

// nextQuery returns the query of a link to a next page, with all that the first page was asked
// by: Ironic's links repeat neither provision_state nor node, so that by them alone the next
// page is one of all nodes, or of all ports. The link's host is what Ironic believes its own
// to be, which behind a proxy may be out of reach, or must be shown a token.
func nextQuery(next string, filters url.Values) (query string, ok bool) {
	link, err := url.Parse(next)
	if err != nil {
		return "", false
	}
	values, err := url.ParseQuery(link.RawQuery)
	if err != nil || len(values) == 0 {
		return "", false
	}
	maps.Copy(values, filters)
	return values.Encode(), true
}
