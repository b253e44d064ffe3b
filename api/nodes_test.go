package api

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/expectations"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/accept"
	"github.com/trivet-ha/trivet/inspector/hardware"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

// fakeNames knows one node, unless Ironic is away.
type fakeNames struct{ away bool }

func (f fakeNames) All(context.Context) ([]ironic.NodeName, error) {
	if f.away {
		return nil, refuse(http.StatusServiceUnavailable, "Ironic did not tell the names of nodes: refused")
	}
	return []ironic.NodeName{{UUID: node, Name: "node-1"}}, nil
}

func (f fakeNames) Of(_ context.Context, ref string) (ironic.NodeName, error) {
	switch {
	case f.away:
		return ironic.NodeName{}, refuse(http.StatusServiceUnavailable, "Ironic did not tell the names of nodes: refused")
	case ref != node && ref != "node-1":
		return ironic.NodeName{}, refuse(http.StatusNotFound, "Node %s was not found in Ironic", ref)
	}
	return ironic.NodeName{UUID: node, Name: "node-1"}, nil
}

func naming(names Names) http.Handler {
	i := &Inspector{Service: &fake{}, Nodes: Nodes{Names: names}, Auth: NoAuth(), MaxLimit: 4,
		Logger: slog.New(slog.DiscardHandler), StaleFor: func() time.Duration { return 0 }}
	return i.Handler()
}

func TestNodesHaveNames(t *testing.T) {
	h := naming(fakeNames{})
	for path, want := range map[string]string{
		"/v1/nodes":                      `{"nodes":[{"uuid":"` + node + `","name":"node-1"}]}`,
		"/v1/nodes/node-1":               `{"uuid":"` + node + `","name":"node-1"}`,
		"/v1/nodes/" + node:              `{"uuid":"` + node + `","name":"node-1"}`,
		"/v1/nodes/" + node + "?stale=1": `{"uuid":"` + node + `","name":"node-1"}`,
	} {
		if w := answer(t, h, "GET", path, ""); w.Code != http.StatusOK || strings.TrimSpace(w.Body.String()) != want {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if w := answer(t, h, "GET", "/v1/nodes/nobody", ""); w.Code != http.StatusNotFound {
		t.Errorf("of no node: %d %s", w.Code, w.Body)
	}
	if w := answer(t, naming(fakeNames{away: true}), "GET", "/v1/nodes", ""); w.Code != http.StatusServiceUnavailable ||
		w.Header().Get("Retry-After") == "" {
		t.Errorf("while Ironic is away: %d %s", w.Code, w.Body)
	}
}

// fakeHardware knows one node, which was inspected so many times.
type fakeHardware struct{ inspections int }

func (f fakeHardware) known(ref string) error {
	if ref != node || f.inspections == 0 {
		return refuse(http.StatusNotFound, "Introspection data not found for node %s, processed=False", ref)
	}
	return nil
}

func (f fakeHardware) Changes(_ context.Context, ref string, _ inspector.Reading) (accept.Comparison, error) {
	if err := f.known(ref); err != nil || f.inspections == 1 {
		return accept.Comparison{}, err
	}
	disk := hardware.Part{Kind: "disk", ID: "S1", Place: "slot-1", Facts: map[string]string{"size": "480"}}
	return accept.Comparison{Compared: true, Changes: []hardware.Change{
		{What: hardware.Went, Part: disk},
		{What: hardware.Changed, Part: hardware.Part{Kind: "firmware"}, Fact: "version", Was: "1", Is: "2"},
	}}, nil
}

func (f fakeHardware) Cabling(_ context.Context, ref string, _ inspector.Reading) ([]hardware.Cable, error) {
	return []hardware.Cable{{Interface: "eth0", MAC: "52:54:00:00:00:01", Link: "yes", Port: "Ethernet1/3"}}, f.known(ref)
}

func TestHardware(t *testing.T) {
	for _, c := range []struct {
		inspections int
		path, want  string
		status      int
	}{
		{2, "changes",
			`{"compared":true,"changes":[{"change":"went","part":{"kind":"disk","id":"S1","place":"slot-1","facts":{"size":"480"}},"text":"disk S1 went (at slot-1, size 480)"},` +
				`{"change":"changed","part":{"kind":"firmware"},"fact":"version","was":"1","is":"2","text":"firmware changed: version 1 is 2 now"}]}`,
			200},
		{1, "changes", `{"compared":false,"changes":[]}`, 200},
		{0, "changes", `{"error":{"message":"Introspection data not found for node ` + node + `, processed=False"}}`, 404},
		{1, "cabling",
			`{"cables":[{"interface":"eth0","mac":"52:54:00:00:00:01","link":"yes","speed_mbps":"","switch":"","switch_id":"","port":"Ethernet1/3","vlan":""}]}`,
			200},
		{0, "cabling", `{"error":{"message":"Introspection data not found for node ` + node + `, processed=False"}}`, 404},
	} {
		i := &Inspector{Service: &fake{}, Nodes: Nodes{Hardware: fakeHardware{c.inspections}}, Auth: NoAuth(), MaxLimit: 4,
			Logger: slog.New(slog.DiscardHandler), StaleFor: func() time.Duration { return 0 }}
		w := answer(t, i.Handler(), "GET", "/v1/nodes/"+node+"/"+c.path, "")
		if got := strings.TrimSpace(w.Body.String()); w.Code != c.status || got != c.want {
			t.Errorf("%s after %d inspections: %d %s, want %d %s", c.path, c.inspections, w.Code, got, c.status, c.want)
		}
	}
}

func (f fakeHardware) Verdict(_ context.Context, ref string, _ inspector.Reading) (expectations.Verdict, error) {
	return expectations.Verdict{Node: ref, Document: blobs.Hash{byte(f.inspections)}, By: []string{"compute"},
		Differences: []string{"compute: expected 2 x disk, found 1"}}, f.known(ref)
}

func (f fakeHardware) Unexpected(ctx context.Context, p accept.Page, r inspector.Reading) (
	[]expectations.Verdict, error) {
	if p.Marker >= node {
		return nil, nil
	}
	v, err := f.Verdict(ctx, node, r)
	return []expectations.Verdict{v}, err
}

func (f fakeHardware) Expectations(context.Context, inspector.Reading) ([]expectations.Expectation, error) {
	return []expectations.Expectation{{Name: "compute", Body: []byte(`{"name":"compute","parts":[]}`)}}, nil
}

func (f fakeHardware) PutExpectation(context.Context, hardware.Expectation) error { return nil }

func (f fakeHardware) DeleteExpectation(_ context.Context, name string) error {
	if name != "compute" {
		return refuse(http.StatusNotFound, "Expectation %s was not found", name)
	}
	return nil
}

func TestExpectations(t *testing.T) {
	const compute = "/v1/expectations/compute"
	const body = `{"name":"compute","nodes":["compute-*"],"parts":[{"kind":"disk","size":"480 GB"}]}`
	const verdict = `{"uuid":"` + node + `","judged":true,"expectations":["compute"],` +
		`"differences":["compute: expected 2 x disk, found 1"]}`
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/v1/expectations", "", 200, `{"expectations":[{"name":"compute","parts":[]}]}`},
		{"GET", compute, "", 200, `{"name":"compute","parts":[]}`},
		{"GET", compute + "2", "", 404, `{"error":{"message":"Expectation compute2 was not found"}}`},
		{"PUT", compute, body, 200, body},
		{"PUT", compute, "name: compute\nnodes: [compute-*]\nparts:\n- {kind: disk, size: 480 GB}\n", 200, body},
		{"PUT", compute + "2", body, 400,
			`{"error":{"message":"the expectation is called \"compute\" in its body and \"compute2\" in its path"}}`},
		{"PUT", compute, "name: compute\nnodes: [x]\nparts:\n- kind: disc\n", 400,
			`{"error":{"message":"line 4: expectation \"compute\": parts, row 1: kind: \"disc\" is none of system, firmware, BMC, boot, CPU, memory, memory module, disk, card, interface, cable"}}`},
		{"DELETE", compute, "", 204, ""},
		{"DELETE", compute + "2", "", 404, `{"error":{"message":"Expectation compute2 was not found"}}`},
		{"GET", "/v1/nodes/" + node + "/verdict", "", 200, verdict},
		{"GET", "/v1/nodes?unexpected=true", "", 200, `{"nodes":[` + verdict + `]}`},
		{"GET", "/v1/nodes?unexpected=true&marker=" + node, "", 200, `{"nodes":[]}`},
		{"GET", "/v1/nodes?unexpected=perhaps", "", 400,
			`{"error":{"message":"unexpected is true or false, not \"perhaps\""}}`},
	} {
		i := &Inspector{Service: &fake{}, Nodes: Nodes{Hardware: fakeHardware{2}, Names: fakeNames{}}, Auth: NoAuth(),
			MaxLimit: 4,
			Logger:   slog.New(slog.DiscardHandler), StaleFor: func() time.Duration { return 0 }}
		w := answer(t, i.Handler(), c.method, c.path, c.body)
		if got := strings.TrimSpace(w.Body.String()); w.Code != c.status || got != c.want {
			t.Errorf("%s %s: %d %s, want %d %s", c.method, c.path, w.Code, got, c.status, c.want)
		}
	}
}

// fakeWaits knows one node that waits.
type fakeWaits struct{}

func (fakeWaits) WaitsOf(_ context.Context, ref string) ([]Wait, error) {
	if ref != node {
		return nil, nil
	}
	return []Wait{{Kind: "introspection/waiting", Subject: "node " + node, Count: 1, For: "its machine",
		Until: "2026-01-02T03:04:05Z", Then: "it ends in error", Do: "look at it"}}, nil
}

func TestNodeWaits(t *testing.T) {
	i := &Inspector{Service: &fake{}, Nodes: Nodes{Waits: fakeWaits{}}, Auth: NoAuth(), MaxLimit: 4,
		Logger: slog.New(slog.DiscardHandler), StaleFor: func() time.Duration { return 0 }}
	for path, want := range map[string]string{
		"/v1/nodes/" + node + "/waits": `{"waits":[{"kind":"introspection/waiting","subject":"node ` + node + `","count":1,` +
			`"waits_for":"its machine","until":"2026-01-02T03:04:05Z","then":"it ends in error","do":"look at it"}]}`,
		"/v1/nodes/other/waits?stale=1": `{"waits":[]}`,
	} {
		w := answer(t, i.Handler(), "GET", path, "")
		if got := strings.TrimSpace(w.Body.String()); w.Code != 200 || got != want {
			t.Errorf("%s: %d %s, want %s", path, w.Code, got, want)
		}
	}
}

// A wait is told in one sentence, with what is known of its times.
func TestWaitText(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for want, w := range map[string]Wait{
		"node a waits for its machine; no limit": {Subject: "node a", Count: 1, For: "its machine", Then: "no limit"},
		"node a and 2 more wait for their machines; since 2026-01-02T03:04:00Z (5s); " +
			"until 2026-01-02T03:05:05Z (in 1m0s): they end": {
			Subject: "node a", Count: 3, For: "their machines", Since: "2026-01-02T03:04:00Z", Until: "2026-01-02T03:05:05Z",
			Then: "they end"},
		"node a waits for x; until 2026-01-02T03:04:05Z (over): it ends": {Subject: "node a", Count: 1, For: "x",
			Until: "2026-01-02T03:04:05Z", Then: "it ends"},
	} {
		if got := w.Text(now); got != want {
			t.Errorf("told is %q, want %q", got, want)
		}
	}
}
