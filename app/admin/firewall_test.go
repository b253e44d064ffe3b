package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/test/memlog"
)

// fakeFilter is the filter of one peer.
type fakeFilter struct{ name string }

func (f fakeFilter) Firewall() api.Firewall {
	return api.Firewall{Peer: f.name, ID: "id-" + f.name, Door: api.Door{Why: "this peer does not lead"}}
}

func (f fakeFilter) Explain(mac string) (api.Explanation, error) {
	address, err := net.ParseMAC(mac)
	if err != nil {
		return api.Explanation{},
			&api.Error{Status: http.StatusBadRequest, Code: api.CodeInvalid, Message: mac + " is not a MAC"}
	}
	return api.Explanation{Peer: f.name, ID: "id-" + f.name, MAC: address.String(), Verdict: "drop",
		Steps: []api.Step{{Rule: "lease", Verdict: "drop", Reached: true}}}, nil
}

// filtering is the host of a peer with a fakeFilter.
func filtering(name string, others *fakeOthers, view func() fsm.View, names api.Names) Host {
	return Host{Firewall: fakeFilter{name}.Firewall, Explain: fakeFilter{name}.Explain, Ask: others.Ask, View: view,
		Names: names}
}

// peersOf is what a peer answers others.
func peersOf(name string) http.Handler {
	return (&Control{Host: filtering(name, nil, nil, nil)}).PeerHandler()
}

// fakeOthers answer through the handler that peers meet, unless wrong has what
// they say instead.
type fakeOthers struct {
	names []string
	wrong map[string]Answer
	asked []string
}

func (f *fakeOthers) Ask(_ context.Context, path string) (out []Answer) {
	for _, name := range f.names {
		f.asked = append(f.asked, name+" "+path)
		a, bad := f.wrong[name]
		if !bad {
			w := httptest.NewRecorder()
			peersOf(name).ServeHTTP(w, httptest.NewRequest("GET", path, nil))
			a.Body = w.Body.Bytes()
		}
		a.Name, a.ID = name, "id-"+name
		out = append(out, a)
	}
	return out
}

func firewallRows[T any](t *testing.T, others *fakeOthers, path string) []T {
	t.Helper()
	w := send((&Control{Host: filtering("h2", others, memlog.New(t).View, nil)}).Handler(), "GET", path, "")
	var rows []T
	if err := json.Unmarshal(w.Body.Bytes(), &rows); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s: %v", path, w.Code, w.Body, err)
	}
	return rows
}

func TestFirewallOfThisPeerAsksNoOther(t *testing.T) {
	others := &fakeOthers{names: []string{"h1"}}
	for _, path := range []string{"/v1/firewall", "/v1/firewall/explain/52:54:00:00:00:01"} {
		if rows := firewallRows[api.Firewall](t, others, path); len(rows) != 1 || rows[0].Peer != "h2" || !rows[0].Self {
			t.Errorf("%s: %+v", path, rows)
		}
	}
	if len(others.asked) > 0 {
		t.Errorf("asked: %v", others.asked)
	}
}

// A peer that says nothing, or nonsense, is a row that says so.
func TestFirewallOfAllPeers(t *testing.T) {
	others := &fakeOthers{names: []string{"h4", "h3", "h1"}, wrong: map[string]Answer{
		"h3": {Err: errors.New("ask h3: connection refused")}, "h4": {Body: []byte("<html>")},
	}}
	rows := firewallRows[api.Firewall](t, others, "/v1/firewall?all=1")
	if len(rows) != 4 {
		t.Fatalf("rows: %+v", rows)
	}
	for i, want := range []struct {
		name, err string
	}{{"h1", ""}, {"h2", ""}, {"h3", "connection refused"}, {"h4", "decode response"}} {
		got := rows[i]
		if got.Peer != want.name || got.ID != "id-"+want.name || got.Self != (want.name == "h2") ||
			(got.Error != "") != (want.err != "") || !strings.Contains(got.Error, want.err) ||
			(got.Door.Why == "") != (want.err != "") {
			t.Errorf("row %d: %+v, want %+v", i, got, want)
		}
	}
}

func TestEveryPeerExplainsOneMAC(t *testing.T) {
	others := &fakeOthers{names: []string{"h1", "h3"}, wrong: map[string]Answer{"h3": {Err: errors.New("no answer")}}}
	rows := firewallRows[api.Explanation](t, others, "/v1/firewall/explain/52:54:00:00:00:AA?all=1")
	if len(rows) != 3 || rows[0].Verdict != "drop" || len(rows[0].Steps) != 1 || rows[2].Error != "no answer" ||
		rows[2].Verdict != "" {
		t.Errorf("rows: %+v", rows)
	}
	for _, row := range rows {
		if row.MAC != "52:54:00:00:00:aa" {
			t.Errorf("%s explains %q", row.Peer, row.MAC)
		}
	}
	w := send((&Control{Host: filtering("h2", others, nil, nil)}).Handler(), "GET", "/v1/firewall/explain/no:mac?all=1",
		"")
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `"code":"invalid"`) {
		t.Errorf("what is no MAC: %d %s", w.Code, w.Body)
	}
	if w := send(peersOf("h2"), "GET", PathPeerFirewall+"/explain/no:mac", ""); w.Code != http.StatusBadRequest {
		t.Errorf("what is no MAC, from a peer: %d", w.Code)
	}
}
