package app

import (
	"log/slog"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/config"
)

// A certificate is for whatever clients may call this peer by, the address that
// is on another host now among it.
func TestServerNames(t *testing.T) {
	c := config.Default()
	c.API.Listen = "[2001:db8::7]:5050"
	c.FloatingIP.Address = "192.0.2.10"
	c.API.TLS.Names = []string{"api.example.org", "h1"}
	id := datadir.Identity{Name: "h1", Address: "192.0.2.1:7350"}
	got := serverNames(c, id)
	for _, want := range []string{"h1", "localhost", "127.0.0.1", "::1", "192.0.2.10", "192.0.2.1", "2001:db8::7",
		"api.example.org"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not among %q", want, got)
		}
	}
	slices.Sort(got)
	if len(slices.Compact(slices.Clone(got))) != len(got) {
		t.Errorf("a name is there twice: %q", got)
	}
	for _, listen := range []string{":5050", "0.0.0.0:5050", "[::]:5050"} {
		c.API.Listen = listen
		for _, name := range serverNames(c, id) {
			if ip := net.ParseIP(name); name == "" || ip != nil && ip.IsUnspecified() {
				t.Errorf("%s: a certificate for %q", listen, name)
			}
		}
	}
}

// TestXForwardedForIsNotTrustedByDefault has a user of the host name the addresses of
// others to the API of a peer with the defaults.
func TestXForwardedForIsNotTrustedByDefault(t *testing.T) {
	h := (&api.Inspector{
		Auth: api.NoAuth(), Logger: slog.New(slog.DiscardHandler), Callbacks: api.CallbackLimit{Rate: 1, Burst: 1},
		Proxies: networks(config.Default().API.TrustedProxies),
	}).Handler()
	callback := func(from, forwardedFor string) int {
		r := httptest.NewRequest("POST", "/v1/continue", strings.NewReader("{}"))
		r.ContentLength = 1 << 40 // refused as soon as the source has passed
		r.RemoteAddr = from
		r.Header.Set("X-Forwarded-For", forwardedFor)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	for _, local := range []string{"127.0.0.1:1024", "[::1]:1024", "127.9.9.9:1024"} {
		if code := callback(local, "192.0.2.7"); code != 413 {
			t.Errorf("a local user: %d, want 413", code)
		}
	}
	if code := callback("192.0.2.7:1024", "192.0.2.8"); code != 413 {
		t.Errorf("trusts-a-local-user: a machine whose address a local user named: %d, want 413", code)
	}
}
