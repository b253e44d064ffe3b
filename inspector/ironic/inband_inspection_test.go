package ironic

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"

	"github.com/trivet-ha/trivet/test/testwait"
)

// What comes is sent as it came, in the version in which Ironic answers it.
func TestHandOver(t *testing.T) {
	f := serve(t, answer{http.StatusAccepted, `{"uuid":"x"}`}, fault(http.StatusNotFound, "Nobody waits."))
	c := dial(t, conf(f.URL))
	got, err := c.Continue(t.Context(), InbandCall{Body: []byte(`{"a" : 1}`)})
	if err != nil || got.Status != http.StatusAccepted || string(got.Body) != `{"uuid":"x"}` || got.Reason != "" {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = c.Continue(t.Context(), InbandCall{Body: []byte(`{}`), Node: node1, Version: "1.84"})
	if err != nil || got.Status != http.StatusNotFound || got.Reason != "Nobody waits." {
		t.Errorf("%+v, %v", got, err)
	}
	for i, want := range []struct{ line, version, body string }{
		{"POST /v1/continue_inspection", "1.1", `{"a" : 1}`},
		{"POST /v1/continue_inspection?node_uuid=" + node1, "1.84", `{}`},
	} {
		r := f.seen()[i]
		if r.line != want.line || r.header.Get("X-Openstack-Ironic-Api-Version") != want.version || r.body != want.body {
			t.Errorf("%d: %s in %s: %s", i, r.line, r.header.Get("X-Openstack-Ironic-Api-Version"), r.body)
		}
	}
}

// A 404 is Ironic's word about a document only if Ironic itself says it.
func TestHandOverTellsWhose404ItIs(t *testing.T) {
	for name, c := range map[string]struct {
		answer answer
		absent bool
	}{
		"Ironic":                       {fault(404, "Resource could not be found."), true},
		"Ironic, in another status":    {fault(400, "No lookup information provided"), false},
		"an API without the version":   {fault(404, "API version 1.84 or newer is required"), false},
		"no conductor for the node":    {fault(404, "No valid host was found. Reason: none"), false},
		"an API without the path":      {answer{404, `{"error_message": "{\"title\": \"Not Found\"}"}`}, false},
		"a web framework with words":   {answer{404, `{"error_message": "{\"description\": \"No such path\"}"}`}, false},
		"ingress-nginx":                {answer{404, "default backend - 404"}, false},
		"HAProxy":                      {answer{404, "<html><body><h1>404 Not Found</h1></body></html>"}, false},
		"Envoy without configuration":  {answer{404, ""}, false},
		"Traefik, or a page as JSON":   {answer{404, `"404 page not found"`}, false},
		"a proxy with JSON of its own": {answer{404, `{"error": {"message": "no route"}}`}, false},
	} {
		got, err := dial(t, conf(serve(t, c.answer).URL)).Continue(t.Context(), InbandCall{Body: []byte("{}")})
		if err != nil || got.Absent != c.absent {
			t.Errorf("whose-404: %s: %+v, %v", name, got, err)
		}
	}
}

// Whether Ironic may have taken it is told: a connection that was refused has
// carried nothing, one that broke may have.
func TestHandOverTellsWhatWasSent(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, conf("http://"+listener.Addr().String()))
	broken := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			_, _ = conn.Read(make([]byte, 1)) // whatever came
			err = conn.Close()
		}
		broken <- errors.Join(err, listener.Close())
	}()
	if _, err := c.Continue(t.Context(), InbandCall{Body: []byte("{}")}); err == nil || errors.Is(err, ErrNotSent) {
		t.Errorf("broken: %v", err)
	}
	if err := testwait.Receive(t, broken, "the connection is closed"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Continue(t.Context(), InbandCall{Body: []byte("{}")}); !errors.Is(err, ErrNotSent) {
		t.Errorf("refused: %v", err)
	}
	denied := WithGuard(context.Background(), func() error { return ErrNotAllowed })
	if _, err := c.Continue(denied, InbandCall{Body: []byte("{}")}); !errors.Is(err, ErrNotAllowed) {
		t.Errorf("denied: %v", err)
	}
}
