package api

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/trivet-ha/trivet/fsm/introspection"
)

// nothing is a writer of answers that nobody reads.
type nothing struct{ h http.Header }

func (n nothing) Header() http.Header         { return n.h }
func (n nothing) Write(b []byte) (int, error) { return len(b), nil }
func (n nothing) WriteHeader(int)             {}

func benchmark(b *testing.B, auth Auth, records int, path string) {
	f := &benched{records: make([]introspection.Record, records)}
	for n := range f.records {
		f.records[n] = introspection.Record{Node: node, State: introspection.NodeWaiting,
			Times: introspection.Times{StartedMillis: begun}}
	}
	i := &Inspector{Service: f, Auth: auth, MaxLimit: 1000, Logger: slog.New(slog.DiscardHandler)}
	h := Public(Health{}, i)
	r := httptest.NewRequest("GET", path, nil)
	r.SetBasicAuth("admin", "secret")
	w := nothing{make(http.Header)}
	b.ReportAllocs()
	for b.Loop() {
		clear(w.h)
		h.ServeHTTP(w, r)
	}
}

// The hot path: every client polls it.
func BenchmarkStatus(b *testing.B)          { benchmark(b, NoAuth(), 1, statusPath) }
func BenchmarkStatusBasicAuth(b *testing.B) { benchmark(b, testAuth(b), 1, statusPath) }
func BenchmarkList1000(b *testing.B)        { benchmark(b, NoAuth(), 1000, "/v1/introspection") }
