package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/inspector/accept"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/trivet-ha/trivet/api/events"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
	"github.com/trivet-ha/trivet/lease"
)

// TestEachRouteHasAClass holds the class of every route against a list that a reader
// of a change sees; those of the control interface are in package app/admin.
// UPDATE_GOLDEN=1 writes the list.
func TestEachRouteHasAClass(t *testing.T) {
	var all []string
	add := func(server, method, path string, class admission.Class) {
		if class == 0 {
			t.Errorf("route-class: %s %s has no class", method, path)
		}
		all = append(all, fmt.Sprintf("%-8s %-7s %-42s %v", server, method, path, class))
	}
	i := &Inspector{Service: &fake{}, Inband: &fake{}, Auth: NoAuth(), Lending: &lease.Service{},
		Nodes:        Nodes{struct{ Names }{}, struct{ Hardware }{}, struct{ Boots }{}, struct{ NodeWaits }{}},
		ClusterReads: ClusterReads{&events.Hub{}, func() Status { return Status{} }},
		Logger:       slog.New(slog.DiscardHandler)}
	for _, r := range i.resources() {
		for method, h := range map[string]echo.HandlerFunc{"GET": r.get, "POST": r.post, "PUT": r.put, "DELETE": r.remove} {
			if h != nil {
				add("public", method, r.path, r.class(method))
			}
		}
	}
	for _, path := range []string{pathLive, pathReady, pathHealth, pathCheck, pathMetrics} {
		add("health", "GET", path, admission.Probe)
	}
	slices.Sort(all)
	text := strings.Join(all, "\n") + "\n"
	name := filepath.Join("testdata", "classes.txt")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil || string(want) != text {
		t.Errorf("route-class: %v; the classes of routes are not those of %s, but\n%s", err, name, text)
	}
}

// counting is a gatherer that counts how often it was asked.
type counting struct{ asked atomic.Int64 }

func (c *counting) Gather() ([]*dto.MetricFamily, error) {
	c.asked.Add(1)
	r := prometheus.NewRegistry()
	up := prometheus.NewGauge(prometheus.GaugeOpts{Name: "up_test"})
	r.MustRegister(up)
	return r.Gather()
}

// Metrics are gathered once a second, however many ask for them.
func TestMetricsAreSharedByAllWhoAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := new(counting)
		h := Health{Checks: func() []HealthCheck { return nil }, Metrics: metrics}.Handler()
		get := func() string {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", http.NoBody))
			return w.Header().Get("Content-Type") + w.Body.String()
		}
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() {
				if text := get(); !strings.Contains(text, "up_test 0") || !strings.HasPrefix(text, "text/plain") {
					t.Errorf("metrics-shared: %q", text)
				}
			})
		}
		all.Wait()
		if n := metrics.asked.Load(); n != 1 {
			t.Errorf("metrics-shared: gathered %d times for 200 who asked at once", n)
		}
		time.Sleep(sharedFor) // in a bubble
		get()
		if n := metrics.asked.Load(); n != 2 {
			t.Errorf("metrics-shared: gathered %d times in two seconds", n)
		}
	})
}

// leaderless is a service that waits for a leader.
type leaderless struct{ *fake }

func (leaderless) Current(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (l leaderless) List(ctx context.Context, p accept.Page, r inspector.Reading) ([]introspection.Record, error) {
	if r == inspector.Linearizable {
		return nil, l.Current(ctx)
	}
	return l.fake.List(ctx, p, r)
}

// While there is no leader, lists that wait for one keep no place from those that do not.
func TestListsThatWaitForALeaderHoldNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &Inspector{Service: leaderless{&fake{}}, Auth: NoAuth(), MaxLimit: 4, Logger: slog.New(slog.DiscardHandler),
			StaleFor: func() time.Duration { return 0 }}
		h := i.Handler()
		ask := func(path string) int {
			r := httptest.NewRequest("GET", path, http.NoBody)
			r.RemoteAddr = "192.0.2.1:1"
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code
		}
		for range 100 {
			go ask("/v1/introspection")
		}
		synctest.Wait()
		if in, waiting := i.Admission.Taken(admission.Dear); in+waiting != 0 {
			t.Errorf("dear-waits: %d lists are in and %d wait while there is no leader", in, waiting)
		}
		if code := ask("/v1/introspection?stale=1"); code != http.StatusOK {
			t.Errorf("dear-waits: a list of this peer's own view: %d", code)
		}
		time.Sleep(requestLimit) // in a bubble
	})
}

// flushed is a recorder of a stream.
type flushed struct {
	http.ResponseWriter
}

func (flushed) Flush() {}

// ephemeral knows a caller until it is told otherwise.
type ephemeral struct {
	noAuth
	gone atomic.Bool
}

func (e *ephemeral) Identify(*http.Request, netip.Addr) (Caller, error) {
	if e.gone.Load() {
		return Caller{}, errUnauthorized()
	}
	return Caller{Name: "ann", Role: RoleReader}, nil
}

// A stream ends when its user is removed, within two minutes, and goes on until then.
func TestAStreamEndsWithItsUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := events.NewHub(newEventLog(t))
		auth := new(ephemeral)
		i := &Inspector{Service: &fake{}, Auth: auth, MaxLimit: 1, ClusterReads: ClusterReads{Events: hub},
			Logger: slog.New(slog.DiscardHandler)}
		h := i.Handler()
		ended := make(chan struct{})
		go func() {
			r := httptest.NewRequest("GET", "/v1/events", http.NoBody)
			r.Header.Set("Accept", "text/event-stream")
			h.ServeHTTP(flushed{httptest.NewRecorder()}, r)
			close(ended)
		}()
		over := func() bool {
			synctest.Wait()
			select {
			case <-ended:
				return true
			default:
				return false
			}
		}
		time.Sleep(eventsStream / 3) // in a bubble
		if in, _ := i.Admission.Taken(admission.Stream); over() || in != 1 {
			t.Errorf("stream-user: the stream of a known user ended, or is no stream: %d are in", in)
		}
		auth.gone.Store(true)
		time.Sleep(eventsProof + 2*eventsKeepAlive) // in a bubble
		if !over() {
			t.Error("stream-user: the stream of a removed user goes on")
		}
		time.Sleep(eventsStream) // in a bubble
		hub.Close()
	})
}

// What a reader may not do leaves as few lines and events as what a stranger may not.
func TestRefusedChangesOfAReaderDoNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, reported := new(lockedBuffer), 0
		logger := slog.New(slog.NewJSONHandler(log, nil))
		h := (&Inspector{Service: &fake{}, Auth: new(ephemeral), MaxLimit: 1, Logger: logger,
			Report: func(eventring.Report) { reported++ }}).Handler()
		for range 5000 {
			r := httptest.NewRequest("POST", statusPath, http.NoBody)
			r.RemoteAddr = "192.0.2.1:1"
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != http.StatusForbidden {
				t.Fatal(w.Code)
			}
		}
		time.Sleep(unprovedEvery) // in a bubble
		synctest.Wait()
		if lines := len(log.lines(t)); lines > unprovedPerSource+1 || reported > unprovedPerSource {
			t.Errorf("audit-refused: 5000 refusals of a reader left %d lines and %d events", lines, reported)
		}
	})
}

// A flood of changes has not the pace of reads, however soon each is answered; renewals of
// leases have it, of which one entry of the log has many.
func TestChangesArePacedByWhatTheyCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := (&Inspector{Service: &fake{}, Auth: NoAuth(), Lending: &lease.Service{}, MaxLimit: 1,
			Logger: slog.New(slog.DiscardHandler)}).Handler()
		flood := func(method, path, address string) time.Duration {
			began := time.Now()
			for range 30_000 {
				r := httptest.NewRequest(method, path, http.NoBody)
				r.RemoteAddr = address
				h.ServeHTTP(httptest.NewRecorder(), r)
			}
			return time.Since(began)
		}
		reads := flood(http.MethodGet, statusPath, "192.0.2.1:1")
		renewals := flood(http.MethodPost, "/v1/leases/a/renew", "192.0.2.2:1")
		changes := flood(http.MethodPost, statusPath, "192.0.2.3:1")
		if changes < reads+2*time.Second || renewals > reads+time.Second {
			t.Errorf("request-change: 30000 reads were answered within %v, as many renewals within %v, changes within %v",
				reads, renewals, changes)
		}
	})
}
