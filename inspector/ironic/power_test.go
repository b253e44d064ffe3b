package ironic

import (
	"net/http"
	"testing"
)

func TestFindNode(t *testing.T) {
	for _, c := range []struct {
		ref    string
		answer answer
		line   string // of the request, "" for none
		uuid   string
		fails  bool
	}{
		{node1, answer{http.StatusOK, `{"uuid":"` + node1 + `"}`}, "GET /v1/nodes/" + node1 + "?fields=uuid", node1, false},
		{"web", fault(http.StatusNotFound, "Node web could not be found."), "GET /v1/nodes/web?fields=uuid", "", false},
		{"web", fault(http.StatusForbidden, "no"), "GET /v1/nodes/web?fields=uuid", "", true},
		{"a/b", answer{}, "", "", false},
		{"52:54:00:AA:00:01", answer{http.StatusOK, `{"ports":[{"uuid":"p","node_uuid":"` + node1 + `"}]}`},
			"GET /v1/ports?address=52%3A54%3A00%3Aaa%3A00%3A01&fields=uuid,address,node_uuid", node1, false},
		{"52:54:00:aa:00:01", answer{http.StatusOK, `{"ports":[]}`},
			"GET /v1/ports?address=52%3A54%3A00%3Aaa%3A00%3A01&fields=uuid,address,node_uuid", "", false},
		{"52:54:00:aa:00:01", answer{http.StatusOK, `{"ports":[{"uuid":"p","node_uuid":"a"},{"uuid":"q","node_uuid":"b"}]}`},
			"GET /v1/ports?address=52%3A54%3A00%3Aaa%3A00%3A01&fields=uuid,address,node_uuid", "", true},
	} {
		f := serve(t, c.answer)
		uuid, found, err := dial(t, conf(f.URL)).FindNode(t.Context(), c.ref)
		if uuid != c.uuid || found != (c.uuid != "") || (err != nil) != c.fails {
			t.Errorf("%s: %q, %t, %v", c.ref, uuid, found, err)
		}
		if lines := f.lines(); c.line == "" && len(lines) != 0 || c.line != "" && (len(lines) != 1 || lines[0] != c.line) {
			t.Errorf("%s: asked %q", c.ref, lines)
		}
	}
}

func TestPowerState(t *testing.T) {
	for _, c := range []struct{ body, state, doing, trouble string }{
		{`{"power_state":"power on","target_power_state":null,"reservation":null,"last_error":null}`, "power on", "", ""},
		{`{"power_state":"power off","target_power_state":"power off","reservation":"c1"}`, "power off", "power off", ""},
		{`{"power_state":"power off","reservation":"c1","last_error":"bmc"}`, "power off", "something else: c1 holds it",
			"bmc"},
		{`{"power_state":null}`, "", "", ""},
	} {
		f := serve(t, answer{http.StatusOK, c.body})
		state, doing, trouble, err := dial(t, conf(f.URL)).PowerState(t.Context(), node1)
		if state != c.state || doing != c.doing || trouble != c.trouble || err != nil {
			t.Errorf("%s: %q, %q, %q, %v", c.body, state, doing, trouble, err)
		}
	}
	f := serve(t, fault(http.StatusNotFound, "Node x could not be found."))
	if _, _, _, err := dial(t, conf(f.URL)).PowerState(t.Context(), node1); err == nil {
		t.Error("a node that is gone has a power state")
	}
}
