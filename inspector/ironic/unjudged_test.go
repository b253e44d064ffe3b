package ironic

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// What Ironic, or what stands before it, answers: whether the call is judged by it, or waits.
func TestWhatIronicHasNotJudged(t *testing.T) {
	const noHost = "No valid host was found. Reason: No conductor service registered which supports driver ipmi."
	const noWorkers = "Requested action cannot be performed due to lack of free conductor workers."
	for name, c := range map[string]struct {
		answer         answer
		unjudged, busy bool
	}{
		"no conductor, to a PUT":   {fault(404, noHost), true, true},
		"no conductor, to a PATCH": {fault(400, noHost), true, true},
		"no free workers":          {fault(503, noWorkers), true, true},
		"too many requests":        {answer{429, ""}, true, true},
		"credentials refused":      {answer{401, ""}, true, false},
		"forbidden by a proxy":     {answer{403, "<html>Forbidden</html>"}, true, false},
		"forbidden by its policy":  {fault(403, "Access was denied"), false, false},
		"a gateway's 503":          {answer{503, "<html>Service Unavailable</html>"}, true, false},
		"a gateway":                {answer{502, ""}, true, false},
		"a proxy's limit of time":  {answer{408, ""}, true, false},
		"a proxy without a route":  {answer{404, "default backend - 404"}, true, false},
		"a proxy with its words":   {answer{404, "Node or path not found"}, true, false},
		"an API without the path":  {answer{404, `{"error_message": "{\"title\": \"Not Found\"}"}`}, true, false},
		"no node":                  {fault(404, "Node x could not be found."), false, false},
		"bad request":              {fault(400, "Nonsense"), false, false},
		"locked":                   {fault(409, "Node x is locked by host y"), false, false},
		"failure":                  {fault(500, "oops"), true, false}, // no BMC is behind a PATCH
	} {
		f := serve(t, c.answer)
		_, err := dial(t, conf(f.URL)).PatchNode(t.Context(), node1, nil)
		if Unjudged(err) != c.unjudged || Busy(err) != c.busy || c.unjudged && errors.Is(err, ErrNoNode) {
			t.Errorf("judged: %s: unjudged %t, busy %t: %v", name, Unjudged(err), Busy(err), err)
		}
	}
}

// A 500 is a verdict where a BMC may have failed, unless Ironic says that it was its database, or the way from its
// API to a conductor.
func TestFailureInsideIronicIsNoVerdict(t *testing.T) {
	calls := map[string]func(context.Context, *Client) error{
		"read":   func(ctx context.Context, c *Client) error { _, err := c.Node(ctx, node1); return err },
		"port":   func(ctx context.Context, c *Client) error { _, err := c.CreatePort(ctx, Port{}); return err },
		"delete": func(ctx context.Context, c *Client) error { return c.DeletePort(ctx, port1) },
		"trait":  func(ctx context.Context, c *Client) error { return c.AddTrait(ctx, node1, "CUSTOM_A") },
		"boot":   func(ctx context.Context, c *Client) error { return c.SetBootDevice(ctx, node1, BootPXE, false) },
		"reset":  func(ctx context.Context, c *Client) error { return c.SetPower(ctx, node1, PowerReboot) },
		"off":    func(ctx context.Context, c *Client) error { return c.SetPower(ctx, node1, PowerOff) },
	}
	for said, c := range map[string]struct{ inner, busy bool }{
		"IPMI call failed: power on.": {false, false},
		"(pymysql.err.OperationalError) (2013, 'Lost connection to MySQL server during query')": {true, true},
		"(sqlite3.OperationalError) database is locked":                                         {true, true},
		"Unable to establish connection to http://host:8089: Connection refused":                {true, true},
		"Timed out waiting for a reply to message ID 5f0c":                                      {true, false},
	} {
		for name, do := range calls {
			f := serve(t, fault(500, said))
			err := do(t.Context(), dial(t, conf(f.URL)))
			bmc := name == "boot" || name == "reset" || name == "off"
			if Unjudged(err) != (c.inner || !bmc) || Busy(err) != c.busy {
				t.Errorf("inside: %s: unjudged %t, busy %t: %v", name, Unjudged(err), Busy(err), err)
			}
		}
	}
}

// A password that Ironic refuses, or its database that fails, though it shows its first page to everybody, is seen by
// a ping once a call has met it, and until it is over: this peer claims nothing meanwhile.
func TestPingShowsWhatACallShowed(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusInternalServerError} {
		pingShows(t, status)
	}
}

func pingShows(t *testing.T, status int) {
	t.Helper()
	var refuses bool
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		if refuses && r.URL.Path != "/v1/" {
			w.WriteHeader(status)
			return
		}
		_, _ = io.WriteString(w, aNode) // the client checks
	}))
	t.Cleanup(server.Close)
	base := conf(server.URL)
	base.AuthType, base.Username, base.Password = "http_basic", "trivet", "old"
	c := dial(t, base)
	for _, step := range []struct {
		refuses, there bool
		path           string // of the ping
	}{{false, true, "/v1/"}, {true, false, "/v1/nodes"}, {false, true, "/v1/nodes"}} {
		refuses = step.refuses
		if step.refuses {
			if _, err := c.Node(t.Context(), node1); !Unjudged(err) || Busy(err) {
				t.Errorf("ping-credentials: %d is a verdict: %v", status, err)
			}
		}
		err := c.Ping(t.Context())
		if path := asked[len(asked)-1]; (err == nil) != step.there || path != step.path {
			t.Errorf("ping-credentials: %d, met %t: asked %s, %v", status, step.refuses, path, err)
		}
	}
	if err := c.Ping(t.Context()); err != nil || asked[len(asked)-1] != "/v1/" {
		t.Errorf("ping-credentials: once it is over: asked %s, %v", asked[len(asked)-1], err)
	}
}
