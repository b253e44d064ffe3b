package api

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// large is a gatherer of some 300 KB, which takes a while.
type large struct{ *prometheus.Registry }

func newLarge() large {
	l := large{prometheus.NewRegistry()}
	for n := range 300 {
		name := fmt.Sprint("test_", n)
		l.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: strings.Repeat("h", 900)}))
	}
	return l
}

func (l large) Gather() ([]*dto.MetricFamily, error) {
	time.Sleep(100 * time.Millisecond) // in a bubble
	return l.Registry.Gather()
}

// Who asks for one path of health again and again, from the same address too, keeps no
// probe of it from its answer: behind NAT or a balancer all have one address.
func TestAFloodOfProbesFailsNoProbe(t *testing.T) {
	const within = time.Second
	paths := []string{pathLive, pathReady, pathHealth, pathCheck, pathMetrics}
	for flooded, flood := range map[string]int{"/no/such/path": 400, pathLive: 1500, pathMetrics: 400} {
		for _, sources := range []int{1, 100} {
			synctest.Test(t, func(t *testing.T) {
				var over atomic.Bool
				i := &Inspector{Service: &fake{}, Auth: NoAuth(), Logger: slog.New(slog.DiscardHandler)}
				i.resources()
				h := Health{Checks: func() []HealthCheck { return nil }, Metrics: newLarge(), Healthcheck: true}
				h.Admission = i.Admission
				all := Visited(i.Admission, admission.Public, func() []netip.Prefix { return nil }, Public(h, i))
				get := func(path, from string) int {
					r := httptest.NewRequest("GET", path, http.NoBody)
					r.RemoteAddr = from
					w := httptest.NewRecorder()
					all.ServeHTTP(w, r)
					return w.Code
				}
				for n := range flood {
					go func() {
						for !over.Load() {
							get(flooded, fmt.Sprintf("192.0.2.%d:1", 1+n%sources))
							time.Sleep(time.Millisecond) // in a bubble
						}
					}()
				}
				time.Sleep(2 * time.Second) // in a bubble
				for range 8 {
					for _, path := range paths {
						if path == pathMetrics && flooded == pathMetrics {
							continue
						}
						began := time.Now()
						code := get(path, "192.0.2.1:2")
						if took := time.Since(began); code != http.StatusOK || took > within {
							const text = "probe-lane: %s next to %d on %s from %d: %d after %v"
							t.Errorf(text, path, flood, flooded, sources, code, took)
						}
					}
					time.Sleep(370 * time.Millisecond) // in a bubble
				}
				over.Store(true)
				time.Sleep(time.Minute) // in a bubble
			})
		}
	}
}
