package api

import (
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

// appendPage writes what comes first, as an array, and reports whether there is more.
func appendPage[T any](b []byte, all iter.Seq[T], limit int, write func([]byte, T) []byte) (page []byte, more bool) {
	b = append(b, '[')
	begin, n := len(b), 0
	for one := range all {
		if n == limit || len(b)-begin >= maxPageBytes {
			more = true
			break
		}
		if n > 0 {
			b = append(b, ',')
		}
		b = write(b, one)
		n++
	}
	return append(b, ']'), more
}
