package simironic

import (
	"bytes"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// query is what the parameters of a request ask for.
type query struct {
	fields []string // nil: not given
	limit  int      // 0: none
	marker string
	detail bool
	state  string
	values url.Values
}

// listed are the parameters that each list takes. Lists are in the order of creation, which
// Ironic's links name.
func listed(more ...string) []string {
	return append(more, "fields", "limit", "marker", "sort_key", "sort_dir")
}

// readQuery refuses every parameter that is not among allowed: what a client
// misspells must show here as it would in Ironic.
func readQuery(r *http.Request, allowed ...string) (q query, err error) {
	q.values = r.URL.Query()
	for key := range q.values {
		if !slices.Contains(allowed, key) {
			return q, refuse(http.StatusBadRequest, "Unknown argument: %q", key)
		}
	}
	if f := q.values.Get("fields"); f != "" {
		q.fields = strings.Split(f, ",")
	}
	if text := q.values.Get("limit"); text != "" {
		if q.limit, err = strconv.Atoi(text); err != nil || q.limit < 0 {
			return q, refuse(http.StatusBadRequest, "Limit must be positive, received %s", text)
		}
	}
	q.marker, q.state = q.values.Get("marker"), q.values.Get("provision_state")
	q.detail = strings.HasSuffix(r.URL.Path, "/detail")
	return q, nil
}

// page is a list under construction: {"nodes": […], "next": "…"}.
type page struct {
	request *http.Request
	kind    string // nodes or ports
	query   query
	most    int // entries

	body  bytes.Buffer
	count int
	last  string // UUID of the newest entry
	err   error
}

func newPage(r *http.Request, kind string, q query) *page {
	most := maxPage
	if q.limit > 0 && q.limit < most {
		most = q.limit
	}
	p := &page{request: r, kind: kind, query: q, most: most}
	p.body.WriteString(`{"` + kind + `":[`)
	return p
}

// add appends an entry and reports whether a further one may follow.
func (p *page) add(uuid string, doc document) bool {
	if p.count == p.most {
		return false
	}
	var encoded []byte
	if encoded, p.err = doc.selected(p.query.fields); p.err != nil {
		return false
	}
	if p.count > 0 {
		p.body.WriteByte(',')
	}
	p.body.Write(encoded)
	p.count++
	p.last = uuid
	return true
}

func (p *page) write(w http.ResponseWriter) error {
	if p.err != nil {
		return p.err
	}
	p.body.WriteByte(']')
	if p.count == p.most {
		// As in Ironic a full page has a link, also if it is the last one, and the link has
		// none of the filters: not provision_state, node or address.
		q := url.Values{"sort_key": {"id"}, "sort_dir": {"asc"}, "limit": {strconv.Itoa(p.most)}, "marker": {p.last}}
		if p.query.fields != nil {
			q.Set("fields", strings.Join(p.query.fields, ","))
		}
		p.body.WriteString(`,"next":`)
		p.body.Write(marshal(base(p.request) + p.request.URL.Path + "?" + q.Encode()))
	}
	p.body.WriteByte('}')
	writeBody(w, http.StatusOK, p.body.Bytes())
	return nil
}
