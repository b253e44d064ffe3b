package app

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// TestPublicServersNameRequests demands a request ID in the answers of each server
// that callers from elsewhere reach: the API's and the webhook's are made alike.
func TestPublicServersNameRequests(t *testing.T) {
	server := newPeer(Options{Logger: slog.New(slog.DiscardHandler)}).serving.public(admission.Public,
		http.NotFoundHandler(), nil)
	asked := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	asked.Header.Set("X-Request-Id", "of-the-caller")
	got := httptest.NewRecorder()
	server.Handler.ServeHTTP(got, asked)
	for _, header := range []string{"X-Request-Id", "X-Openstack-Request-Id"} {
		if id := got.Header().Get(header); id != "of-the-caller" {
			t.Errorf("%s: %q, want the caller's own", header, id)
		}
	}
}
