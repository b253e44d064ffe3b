package api

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/inspector/accept"
	"github.com/trivet-ha/trivet/inspector/ironic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
)

// node is one that the fake knows.
const node = "00000000-0000-4000-8000-000002000000"

// underWay is what is known of node while its ramdisk is awaited.
func underWay() introspection.Record {
	return introspection.Record{Node: node, State: introspection.NodeWaiting,
		Times: introspection.Times{StartedMillis: begun}}
}

// fake answers for a service and remembers what it was asked.
type fake struct {
	records []introspection.Record
	data    []byte
	err     error  // of everything, if set
	hook    func() // runs inside each call, if set

	mu      sync.Mutex
	started []bool // manage_boot of each
	refs    []string
	bodies  []string
	pages   []accept.Page
	reading []inspector.Reading

	successor []ironic.InbandCall
}

func (f *fake) asked(ref string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refs = append(f.refs, ref)
	if f.hook != nil {
		f.hook()
	}
	return f.err
}

func (f *fake) Start(_ context.Context, ref string, manageBoot bool) error {
	err := f.asked(ref)
	f.started = append(f.started, manageBoot)
	return err
}

func (f *fake) Current(context.Context) error { return f.err }

func (f *fake) Abort(_ context.Context, ref string) error { return f.asked(ref) }

func (f *fake) Reapply(_ context.Context, ref string, body []byte) error {
	f.mu.Lock()
	f.bodies = append(f.bodies, string(body))
	f.mu.Unlock()
	return f.asked(ref)
}

func (f *fake) Continue(_ context.Context, body []byte) (string, error) {
	f.mu.Lock()
	f.bodies = append(f.bodies, string(body))
	f.mu.Unlock()
	return node, f.asked("")
}

func (f *fake) ContinueInspection(_ context.Context, c ironic.InbandCall) (ironic.InbandAnswer, error) {
	f.mu.Lock()
	f.bodies = append(f.bodies, string(c.Body))
	f.successor = append(f.successor, c)
	f.mu.Unlock()
	return ironic.InbandAnswer{Status: http.StatusAccepted, Body: []byte(`{"uuid":"` + node + `"}`)}, f.asked("")
}

func (f *fake) Status(_ context.Context, ref string, r inspector.Reading) (introspection.Record, error) {
	f.reading = append(f.reading, r)
	if err := f.asked(ref); err != nil {
		return introspection.Record{}, err
	}
	for _, rec := range f.records {
		if rec.Node == ref {
			return rec, nil
		}
	}
	return introspection.Record{}, refuse(http.StatusNotFound, "Could not find node %s in cache", ref)
}

func (f *fake) List(_ context.Context, p accept.Page, r inspector.Reading) ([]introspection.Record, error) {
	f.reading = append(f.reading, r)
	f.pages = append(f.pages, p)
	return f.records, f.asked("")
}

func (f *fake) Data(_ context.Context, ref string, processed bool, r inspector.Reading) ([]byte, error) {
	f.reading = append(f.reading, r)
	if err := f.asked(ref); err != nil {
		return nil, err
	}
	if processed {
		return f.data, nil
	}
	return []byte(`{"raw":true}`), nil
}

// public returns what a peer serves, in front of f.
func public(f *fake, auth Auth) http.Handler {
	i := &Inspector{
		Service: f, Inband: f, Auth: auth, MaxLimit: 4, Logger: slog.New(slog.DiscardHandler),
		StaleFor: func() time.Duration { return 1500 * time.Millisecond },
		Proxies: []netip.Prefix{ // where requests of httptest come from
			netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("192.0.2.1/32"),
		},
	}
	return Public(Health{Checks: func() []HealthCheck { return nil }, Metrics: prometheus.NewRegistry(),
		Healthcheck: true}, i)
}

// answer sends one request to the public API, headers in pairs, and holds the
// answer against its description.
func answer(t testing.TB, h http.Handler, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	return send(checked(t, h), method, target, body, headers...)
}

// send is answer for what is not public.
func send(h http.Handler, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	for n := 0; n+1 < len(headers); n += 2 {
		r.Header.Set(headers[n], headers[n+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// errorBody is the body of a refusal.
func errorBody(message string) string {
	return string(appendText([]byte(`{"error":{"message":`), message)) + "}}\n"
}

// benched answers at once and remembers nothing.
type benched struct {
	Service
	records []introspection.Record
}

func (b *benched) Status(context.Context, string, inspector.Reading) (introspection.Record, error) {
	return b.records[0], nil
}

func (b *benched) List(context.Context, accept.Page, inspector.Reading) ([]introspection.Record, error) {
	return b.records, nil
}

// doing answers every command the same way.
type doing struct {
	res fsm.Result
	err error
}

func (d doing) Do(context.Context, string, fsm.Command) (fsm.Result, error) { return d.res, d.err }
