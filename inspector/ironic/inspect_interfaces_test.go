package ironic

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestInspectInterfaces(t *testing.T) {
	f := serve(t,
		answer{200, `{"drivers":[{"name":"ipmi","enabled_inspect_interfaces":["no-inspect","agent"]},
			{"name":"redfish","enabled_inspect_interfaces":["agent","redfish",""]}]}`},
		answer{200, `{"nodes":[{"inspect_interface":"agent"},{"inspect_interface":"redfish"},{"inspect_interface":"agent"},
			{"inspect_interface":null},{"inspect_interface":"no\u001b name"}]}`},
	)
	got, err := dial(t, conf(f.URL)).InspectInterfaces(t.Context())
	if err != nil || !slices.Equal(got.Enabled, []string{"agent", "no-inspect", "redfish"}) ||
		!maps.Equal(got.Nodes, map[string]int{"agent": 2, "redfish": 1}) {
		t.Errorf("got %+v (%v)", got, err)
	}
	want := []string{"GET /v1/drivers?detail=true", "GET /v1/nodes?limit=1000&fields=inspect_interface"}
	if !slices.Equal(f.lines(), want) {
		t.Errorf("sent %q, want %q", f.lines(), want)
	}
}

// TestInspectInterfacesInPart: a user who may not list drivers may still list nodes, and what
// was refused is told.
func TestInspectInterfacesInPart(t *testing.T) {
	f := serve(t, fault(403, "Access was denied"), answer{200, `{"nodes":[{"inspect_interface":"agent"}]}`})
	got, err := dial(t, conf(f.URL)).InspectInterfaces(t.Context())
	if err == nil || !strings.Contains(err.Error(), "Access was denied") || len(got.Enabled) > 0 ||
		got.Nodes["agent"] != 1 {
		t.Errorf("got %+v (%v)", got, err)
	}
}

// TestInspectInterfacesAreBounded: an Ironic that makes names up costs little.
func TestInspectInterfacesAreBounded(t *testing.T) {
	var names, nodes []string
	for i := range 10 * maxInterfaces {
		name := strconv.Quote("i" + strconv.Itoa(i))
		names, nodes = append(names, name), append(nodes, `{"inspect_interface":`+name+`}`)
	}
	f := serve(t, answer{200, `{"drivers":[{"enabled_inspect_interfaces":[` + strings.Join(names, ",") + `]}]}`},
		answer{200, `{"nodes":[` + strings.Join(nodes, ",") + `]}`})
	got, err := dial(t, conf(f.URL)).InspectInterfaces(t.Context())
	if err != nil || len(got.Enabled) != maxInterfaces || len(got.Nodes) != maxInterfaces {
		t.Errorf("unbounded: %d enabled, %d of nodes (%v)", len(got.Enabled), len(got.Nodes), err)
	}
}
