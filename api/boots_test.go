package api

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/boots"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/test/memlog"
)

// fakeBoots reads a log.
type fakeBoots struct{ log *memlog.Log }

func (f fakeBoots) Locate(ctx context.Context, ref string, r inspector.Reading) (string, fsm.View, error) {
	if ref != node && ref != "node-1" && ref != silentNode {
		return "", fsm.View{}, refuse(http.StatusNotFound, "Node %s was not found in Ironic", ref)
	}
	v, err := f.State(ctx, r)
	if ref == "node-1" {
		ref = node
	}
	return ref, v, err
}

func (f fakeBoots) State(context.Context, inspector.Reading) (fsm.View, error) {
	return f.log.View(), nil
}

const silentNode = "ffffffff-0000-4000-8000-000000000001"

// TestBoots asks how machines boot: of one that stops, of one of which nothing is heard, and of
// one that nobody knows.
func TestBoots(t *testing.T) {
	log := memlog.New(t)
	commit := func(c fsm.Command) {
		t.Helper()
		if _, err := log.DoAsLeader(c); err != nil {
			t.Fatal(err)
		}
	}
	commit(introspection.Start{Node: node, Event: introspection.EventStart, Timeout: time.Hour,
		Attributes: introspection.Attributes{MACs: []string{"52:54:00:00:00:01"}}})
	rec, _ := log.View().Record(node)
	commit(introspection.PutInspected{Nodes: []introspection.Inspected{
		{Node: silentNode, MACs: []string{"52:54:00:00:00:02"}}}})
	commit(boots.Note{
		Heard: []boots.Heard{{Node: node, Begun: rec.Begun, Step: boots.Step{Kind: boots.Asked, Peer: "a",
			Client: boots.PXEClient, MAC: "52:54:00:00:00:01",
			Times: boots.Times{FirstMillis: 1, LastMillis: 12_001, Count: 4}}}},
		Judged: []boots.Judged{{Node: node, Begun: rec.Begun,
			Findings: []entry.Finding{{Code: "no-offer", Text: "no server offered it an address"}}}},
	})
	const findings = `"findings":[{"code":"no-offer","text":"no server offered it an address",` +
		`"remedy":"'trivet doctor --check dhcp --check pools' looks at dnsmasq and its pools; 'nft list ruleset' and 'iptables-save' show the host's own firewall; ` +
		`'Operation not permitted' in dnsmasq's log is an offer of an address that another machine was offered (docs/pxe.md#offers)"}]`
	i := &Inspector{Service: &fake{}, Nodes: Nodes{Names: fakeNames{}, Boots: fakeBoots{log}}, Auth: NoAuth(), MaxLimit: 4,
		Logger: slog.New(slog.DiscardHandler), StaleFor: func() time.Duration { return 0 }}
	h := i.Handler()
	for _, c := range []struct {
		path   string
		status int
		want   string
	}{
		{"/node-1/boot", 200, `{"node":"` + node + `","state":"starting","awaited":false,"steps":[` +
			`{"time":"1970-01-01T00:00:00.001Z","until":"1970-01-01T00:00:12.001Z","count":4,"peer":"h1","kind":"asked",` +
			`"mac":"52:54:00:00:00:01","text":"asked for an address by DHCP, as PXE, 4 times in 12s"}],` + findings + `}`},
		{"/" + silentNode + "/boot?stale=1", 200,
			`{"node":"` + silentNode + `","state":"","awaited":true,"steps":[],"findings":[]}`},
		{"/nobody/boot", 404, `{"error":{"message":"Node nobody was not found in Ironic"}}`},
		{"?stopped=true", 200, `{"nodes":[{"uuid":"` + node + `",` + findings + `}]}`},
		{"?stopped=true&marker=" + node, 200, `{"nodes":[]}`},
		{"?stopped=true&limit=0x", 400, ""},
		{"?stopped=perhaps", 400, `{"error":{"message":"stopped is true or false, not \"perhaps\""}}`},
		{"?stopped=true&unexpected=true", 400,
			`{"error":{"message":"ask for unexpected or for stopped nodes, not for both at once"}}`},
	} {
		w := answer(t, h, "GET", "/v1/nodes"+c.path, "")
		if got := strings.TrimSpace(w.Body.String()); w.Code != c.status || c.want != "" && got != c.want {
			t.Errorf("%s: %d %s, want %d %s", c.path, w.Code, got, c.status, c.want)
		}
	}
}
