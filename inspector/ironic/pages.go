package ironic

import (
	"context"
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
	seen := map[string]bool{k.path: true}
	for range maxPages {
		raw, err := l.do(ctx, k)
		if err != nil {
			return err
		}
		next, err := each(raw)
		if err != nil || next == "" {
			return err
		}
		// Of the link only the query is followed. Its host is what Ironic believes
		// its own to be, which behind a proxy may be out of reach, or must be shown
		// a token.
		link, err := url.Parse(next)
		if err != nil || link.RawQuery == "" {
			return garbled(k.name(), "Ironic's link to the next page cannot be followed: %.200q", next)
		}
		resource, _, _ := strings.Cut(k.path, "?")
		if k.path = resource + "?" + link.RawQuery; seen[k.path] {
			return garbled(k.name(), "Ironic's links to the next page lead in a circle: %.200q", next)
		}
		seen[k.path] = true
	}
	return garbled(k.name(), "Ironic's list has more than %d pages", maxPages)
}
