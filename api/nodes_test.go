package api

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/inspector/ironic"
)

// fakeNames knows one node, unless Ironic is away.
type fakeNames struct{ away bool }

func (f fakeNames) All(context.Context) ([]ironic.NodeName, error) {
	if f.away {
		return nil, refuse(http.StatusServiceUnavailable, "Ironic did not tell the names of nodes: refused")
	}
	return []ironic.NodeName{{UUID: node, Name: "node-1"}}, nil
}

func (f fakeNames) Of(_ context.Context, ref string) (ironic.NodeName, error) {
	switch {
	case f.away:
		return ironic.NodeName{}, refuse(http.StatusServiceUnavailable, "Ironic did not tell the names of nodes: refused")
	case ref != node && ref != "node-1":
		return ironic.NodeName{}, refuse(http.StatusNotFound, "Node %s was not found in Ironic", ref)
	}
	return ironic.NodeName{UUID: node, Name: "node-1"}, nil
}

func naming(names Names) http.Handler {
	i := &Inspector{Service: &fake{}, Names: names, Auth: NoAuth(), MaxLimit: 4, Logger: slog.New(slog.DiscardHandler),
		StaleFor: func() time.Duration { return 0 }}
	return i.Handler()
}

func TestNodesHaveNames(t *testing.T) {
	h := naming(fakeNames{})
	for path, want := range map[string]string{
		"/v1/nodes":                      `{"nodes":[{"uuid":"` + node + `","name":"node-1"}]}`,
		"/v1/nodes/node-1":               `{"uuid":"` + node + `","name":"node-1"}`,
		"/v1/nodes/" + node:              `{"uuid":"` + node + `","name":"node-1"}`,
		"/v1/nodes/" + node + "?stale=1": `{"uuid":"` + node + `","name":"node-1"}`,
	} {
		if w := answer(t, h, "GET", path, ""); w.Code != http.StatusOK || strings.TrimSpace(w.Body.String()) != want {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if w := answer(t, h, "GET", "/v1/nodes/nobody", ""); w.Code != http.StatusNotFound {
		t.Errorf("of no node: %d %s", w.Code, w.Body)
	}
	if w := answer(t, naming(fakeNames{away: true}), "GET", "/v1/nodes", ""); w.Code != http.StatusServiceUnavailable ||
		w.Header().Get("Retry-After") == "" {
		t.Errorf("while Ironic is away: %d %s", w.Code, w.Body)
	}
}
