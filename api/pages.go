package api

import (
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
)

// Bounds of a page of leases, values, or members of a group.
const (
	maxPage      = 1000
	maxPageBytes = 256 << 10 // the one that goes beyond it is the last one
)

// pageLimit reads ?limit= of a page.
func pageLimit(q url.Values) (int, error) {
	text := q.Get("limit")
	if text == "" {
		return maxPage, nil
	}
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 {
		return 0, refuse(http.StatusBadRequest, badRequest+"limit is a number from 1 on, not %q", bounded(text))
	}
	return min(limit, maxPage), nil
}

// pageOf encodes what comes first, as shown shows it, and reports whether there is more.
func pageOf[T, S any](all iter.Seq[T], limit int, shown func(T) S) (page []json.RawMessage, more bool, err error) {
	page, length := []json.RawMessage{}, 0
	for one := range all {
		if len(page) == limit || length >= maxPageBytes {
			return page, true, nil
		}
		text, err := encode(shown(one))
		if err != nil {
			return nil, false, fmt.Errorf("encode an entry of a page: %w", err)
		}
		page, length = append(page, text), length+len(text)
	}
	return page, false, nil
}
