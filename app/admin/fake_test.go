package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/trivet-ha/trivet/inspector/ironic"

	"github.com/trivet-ha/trivet/inspector"
)

// node is one that the fakes know.
const node = "00000000-0000-4000-8000-000002000000"

// send sends one request, headers in pairs.
func send(h http.Handler, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	for n := 0; n+1 < len(headers); n += 2 {
		r.Header.Set(headers[n], headers[n+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func refusal(status int, format string, args ...any) error {
	return &inspector.Refusal{Status: status, Message: fmt.Sprintf(format, args...)}
}

// fakeNames knows one node, unless Ironic is away.
type fakeNames struct{ away bool }

func (f fakeNames) All(context.Context) ([]ironic.NodeName, error) {
	if f.away {
		return nil, refusal(http.StatusServiceUnavailable, "Ironic did not tell the names of nodes: refused")
	}
	return []ironic.NodeName{{UUID: node, Name: "node-1"}}, nil
}

func (f fakeNames) Of(_ context.Context, ref string) (ironic.NodeName, error) {
	switch {
	case f.away:
		return ironic.NodeName{}, refusal(http.StatusServiceUnavailable, "Ironic did not tell the names of nodes: refused")
	case ref != node && ref != "node-1":
		return ironic.NodeName{}, refusal(http.StatusNotFound, "Node %s was not found in Ironic", ref)
	}
	return ironic.NodeName{UUID: node, Name: "node-1"}, nil
}
