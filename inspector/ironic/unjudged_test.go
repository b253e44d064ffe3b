package ironic

import (
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
		"failure":                  {fault(500, "oops"), false, false},
	} {
		f := serve(t, c.answer)
		_, err := dial(t, conf(f.URL)).PatchNode(t.Context(), node1, nil)
		if Unjudged(err) != c.unjudged || Busy(err) != c.busy || c.unjudged && errors.Is(err, ErrNoNode) {
			t.Errorf("judged: %s: unjudged %t, busy %t: %v", name, Unjudged(err), Busy(err), err)
		}
	}
}

// A password that Ironic refuses, though it shows its first page to everybody, is seen by a ping once a call
// has met it, and until it is taken: this peer claims nothing meanwhile.
func TestPingShowsWhatACallShowed(t *testing.T) {
	var refuses bool
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		if refuses && r.URL.Path != "/v1/" {
			w.WriteHeader(http.StatusUnauthorized)
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
				t.Errorf("ping-credentials: a refused password is a verdict: %v", err)
			}
		}
		err := c.Ping(t.Context())
		if path := asked[len(asked)-1]; (err == nil) != step.there || path != step.path {
			t.Errorf("ping-credentials: refused %t: asked %s, %v", step.refuses, path, err)
		}
	}
	if err := c.Ping(t.Context()); err != nil || asked[len(asked)-1] != "/v1/" {
		t.Errorf("ping-credentials: once they are taken: asked %s, %v", asked[len(asked)-1], err)
	}
}
