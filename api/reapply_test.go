package api

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/inspector/accept"

	"github.com/trivet-ha/trivet/fsm/introspection"
)

func TestReapply(t *testing.T) {
	const path = "/v1/introspection/" + node + "/data/unprocessed"
	f := &fake{}
	h := public(f, NoAuth())
	for _, c := range []struct {
		body   string
		err    error
		status int
		want   string
	}{
		{"", nil, 202, "{}\n"},
		{`{"a": 1.50}`, nil, 202, "{}\n"},
		{"", refuse(http.StatusConflict, "Node locked, please, try again later"), 409,
			errorBody("Node locked, please, try again later")},
		{"[]", refuse(http.StatusBadRequest, "Invalid data: expected a JSON object, got list"), 400,
			errorBody("Invalid data: expected a JSON object, got list")},
	} {
		f.err = c.err
		w := answer(t, h, "POST", path, c.body)
		if w.Code != c.status || w.Body.String() != c.want {
			t.Errorf("%q: %d %s, want %d %s", c.body, w.Code, w.Body, c.status, c.want)
		}
		if got := f.bodies[len(f.bodies)-1]; got != c.body {
			t.Errorf("the service got %q, sent was %q", got, c.body)
		}
	}
	f.err = nil
	if w := answer(t, h, "POST", path, strings.Repeat(" ", MaxDocument+1)); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := answer(t, h, "POST", "/v1/introspection/a%2Fb/data/unprocessed", ""); w.Code != http.StatusNotFound {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// doorway leaves documents to the real service, which has nothing to go on: it
// must refuse them before it asks anybody.
type doorway struct {
	*fake
	real *accept.Service
}

func (d doorway) Continue(ctx context.Context, body []byte) (string, error) {
	return d.real.Continue(ctx, body)
}

func (d doorway) Reapply(ctx context.Context, ref string, body []byte) error {
	return d.real.Reapply(ctx, ref, body)
}

// Hostile documents are refused in the contract's shape, and go no further.
func TestHostileBodies(t *testing.T) {
	i := &Inspector{Service: doorway{&fake{}, accept.NewService(accept.Options{})}, Auth: NoAuth(), MaxLimit: 4,
		Logger: slog.New(slog.DiscardHandler)}
	h := i.Handler()
	for name, body := range map[string]string{
		"depth":         strings.Repeat(`{"a":`, 1_000_000),
		"10^6 keys":     "{" + strings.Repeat(`"a":1,`, 1_000_000) + `"b":1}`,
		"keys twice":    `{"a":1,"a":1}`,
		"invalid UTF-8": "{\"a\":\"\xff\"}",
		"NaN":           `{"a":NaN}`,
		"huge number":   `{"a":1e999}`,
		"long string":   `{"a":"` + strings.Repeat("x", 7<<20) + `"}`,
		"nothing":       " ",
		"a list":        "[]",
	} {
		for _, path := range []string{"/v1/continue", "/v1/introspection/" + node + "/data/unprocessed"} {
			w := answer(t, h, "POST", path, body)
			if w.Code != http.StatusBadRequest || !strings.HasPrefix(w.Body.String(), `{"error":{"message":"Invalid data: `) ||
				w.Body.Len() > 500 {
				t.Errorf("%s to %s: %d %.500s", name, path, w.Code, w.Body)
			}
		}
	}
}

// The status names who keeps the ramdisk's logs, in a header: its keys are the
// contract's.
func TestStatusNamesLogs(t *testing.T) {
	for want, kept := range map[string]introspection.RamdiskLogs{"": {},
		"h2:/var/log/x.tar.gz": {Peer: "h2", Path: "/var/log/x.tar.gz"}} {
		rec := underWay()
		rec.Logs = kept
		i := &Inspector{Service: &fake{records: []introspection.Record{rec}}, Auth: NoAuth(), MaxLimit: 4,
			Logger: slog.New(slog.DiscardHandler)}
		if got := answer(t, i.Handler(), "GET", "/v1/introspection/"+rec.Node,
			"").Header().Get("X-Trivet-Ramdisk-Logs"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
