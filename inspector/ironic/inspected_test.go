package ironic

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
)

func TestInspectedByInterfaces(t *testing.T) {
	const node2, node3 = "00000000-0000-4000-8000-000000000002", "00000000-0000-4000-8000-000000000003"
	f := serve(t,
		answer{200, `{"nodes":[{"uuid":"` + node1 + `","inspect_interface":"agent","provision_state":"inspecting"},
			{"uuid":"` + node2 + `","inspect_interface":"redfish","provision_state":"inspecting"}]}`},
		answer{200, `{"nodes":[{"uuid":"` + node3 + `","inspect_interface":"agent","provision_state":"inspect wait"},
			{"uuid":"` + node1 + `","inspect_interface":"agent","provision_state":"inspect wait"}]}`},
		answer{200, `{"nodes":[]}`},
	)
	got, err := dial(t, conf(f.URL)).Inspected(t.Context(), []string{"agent"})
	if err != nil || !slices.Equal(got, []string{node1, node3}) {
		t.Errorf("inspected are %v (%v)", got, err)
	}
	want := []string{
		"GET /v1/nodes?provision_state=inspecting&fields=uuid,inspect_interface,provision_state",
		"GET /v1/nodes?provision_state=inspect+wait&fields=uuid,inspect_interface,provision_state",
		"GET /v1/nodes?provision_state=inspecting&fields=uuid,inspect_interface,provision_state",
	}
	if !slices.Equal(f.lines(), want) {
		t.Errorf("sent %q, want %q", f.lines(), want)
	}
}

// A node that goes on to the next state between two lists, or back to the one before, is
// inspected all the time.
func TestInspectedBetweenTheLists(t *testing.T) {
	for _, states := range [][]string{
		{Inspecting, InspectWait, InspectWait}, {InspectWait, Inspecting, Inspecting},
		{InspectWait, InspectWait, Inspecting}, {Inspecting, Inspecting, InspectWait},
	} {
		asked := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			now, body := states[asked], `{"nodes":[]}`
			if r.URL.Query().Get("provision_state") == now {
				body = `{"nodes":[{"uuid":"` + node1 + `","inspect_interface":"agent","provision_state":"` + now + `"}]}`
			}
			asked++
			_, _ = io.WriteString(w, body) // the client checks
		}))
		t.Cleanup(server.Close)
		got, err := dial(t, conf(server.URL)).Inspected(t.Context(), []string{"agent"})
		if err != nil || !slices.Equal(got, []string{node1}) {
			t.Errorf("between-lists: a node in %q as the lists are read: inspected are %v (%v)", states, got, err)
		}
	}
}

// TestInspectedIsAllOrAnError: half a list would take machines in their boot off
// the whitelist.
func TestInspectedIsAllOrAnError(t *testing.T) {
	for name, second := range map[string]answer{
		"a fault": fault(403, "no"), "no list": {200, `{}`},
		"a node without a name": {200, `{"nodes":[{"inspect_interface":"agent"}]}`},
	} {
		f := serve(t, answer{200, `{"nodes":[{"uuid":"` + node1 + `","inspect_interface":"agent"}]}`}, second)
		if got, err := dial(t, conf(f.URL)).Inspected(t.Context(), []string{"agent"}); err == nil || got != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestAddressesOfANode(t *testing.T) {
	port := func(n string, boots string) string {
		return `{"uuid":"p` + n + `","address":"52:54:00:00:00:0` + n + `","node_uuid":"` + node1 +
			`","pxe_enabled":` + boots + `}`
	}
	f := serve(t, answer{200, `{"ports":[` + port("1", "false") + "," + port("2", "true") + `]}`},
		fault(404, "Node "+node1+" could not be found."))
	c := dial(t, conf(f.URL))
	got, err := c.Addresses(t.Context(), node1)
	if err != nil || !slices.Equal(got, []string{"52:54:00:00:00:02", "52:54:00:00:00:01"}) {
		t.Errorf("addresses are %v (%v), want that which boots first", got, err)
	}
	if line := f.lines()[0]; line != "GET /v1/ports?fields=uuid,address,node_uuid,pxe_enabled&node="+node1 {
		t.Errorf("sent %s", line)
	}
	if got, err := c.Addresses(t.Context(), node1); !errors.Is(err, ErrNoNode) || got != nil {
		t.Errorf("of a node that is gone: %v, %v", got, err)
	}
}
