package app

import (
	"crypto/rand"
	"log/slog"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/test/testenv"
)

// authPeer is as much of a peer as tells callers apart, by a strategy.
func authPeer(t *testing.T, strategy, keystone string) *Peer {
	t.Helper()
	c := config.Default()
	c.API.AuthStrategy = strategy
	c.API.Keystone.AuthURL, c.API.Keystone.Username, c.API.Keystone.Password = keystone, "trivet", "s3cret"
	p := &Peer{opts: Options{Config: c, Wall: time.Now, Random: rand.Reader, Logger: slog.New(slog.DiscardHandler)}}
	var err error
	if p.keeper, err = p.openAuth(c.API); err != nil {
		t.Fatal(err)
	}
	return p
}

// figures are those of authMetrics, by name.
func figures(t *testing.T, p *Peer) map[string]float64 {
	t.Helper()
	r := prometheus.NewRegistry()
	p.authMetrics(r)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]float64)
	for _, f := range families {
		out[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue()
	}
	return out
}

// TestKeystoneAway is told to operators from the first caller on that is not
// served because of it.
func TestKeystoneAway(t *testing.T) {
	p := authPeer(t, config.StrategyKeystone, "http://"+testenv.RefusingAddress(t))
	t.Cleanup(p.keeper.hangUp)
	if err, all := p.keystoneAway(), figures(t, p); err != nil || all["trivet_keystone_up"] != 1 {
		t.Errorf("before anybody came: %v, %v", err, all)
	}
	r := httptest.NewRequest("GET", "/v1/introspection", nil)
	r.Header.Set("X-Auth-Token", "gAAAAAB")
	if _, err := p.keeper.auth.Identify(r, netip.Addr{}); err == nil {
		t.Fatal("a caller was served without Keystone")
	}
	err := p.keystoneAway()
	if err == nil || !strings.Contains(err.Error(), "connection refused") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("the reason is %v", err)
	}
	if up, there := figures(t, p)["trivet_keystone_up"]; up != 0 || !there {
		t.Errorf("trivet_keystone_up is %v, there: %v", up, there)
	}
}

// TestNobodyIsAsked: without Keystone there is no word of it.
func TestNobodyIsAsked(t *testing.T) {
	p := authPeer(t, "noauth", "")
	if err, all := p.keystoneAway(), figures(t, p); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", err, all)
	}
}
