package api

import (
	"net/http"
	"regexp"

	"github.com/google/uuid"

	"github.com/trivet-ha/trivet/internal/logs"
)

// The headers that name a request, as net/http spells what it reads. An answer
// has both, with one value.
const (
	requestIDHeader   = "X-Request-Id"
	openStackIDHeader = "X-Openstack-Request-Id"
)

// maxRequestID bounds what a caller calls its request, in bytes.
const maxRequestID = 128

// openStackID is the form of an ID that OpenStack's services take from each
// other; other values of X-Openstack-Request-Id are ignored.
var openStackID = regexp.MustCompile(`^req-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// Identified names each request before next sees it: by the caller's own
// X-Request-Id, else by a new ID of OpenStack's form. Answer, log and audit carry
// it. An X-Openstack-Request-Id of the caller names the operation that the
// request is a part of; the log carries it as global_request_id. A request that
// an outer handler has named keeps its name.
func Identified(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		named := logs.RequestOf(r.Context())
		if named.ID == "" {
			named = logs.Request{ID: requestID(r.Header)}
			if id := r.Header.Get(openStackIDHeader); openStackID.MatchString(id) {
				named.Global = id
			}
			r = r.WithContext(logs.WithRequest(r.Context(), named))
		}
		w.Header().Set(requestIDHeader, named.ID)
		w.Header().Set(openStackIDHeader, named.ID)
		next.ServeHTTP(w, r)
	})
}

// NewRequestID returns an ID for a request, in OpenStack's form.
func NewRequestID() string { return "req-" + uuid.NewString() }

// requestID is what the caller calls the request, or a new name for it. What
// would break a line of the log or a header is no name.
func requestID(h http.Header) string {
	id := h.Get(requestIDHeader)
	if id == "" || len(id) > maxRequestID || !consistsOf(id, isVisible) {
		return NewRequestID()
	}
	return id
}
