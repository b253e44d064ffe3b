package ironic

import (
	"errors"
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
