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

// authDoorway tells callers apart, by a strategy.
func authDoorway(t *testing.T, strategy, keystone string) *doorway {
	t.Helper()
	c := config.Default()
	c.API.AuthStrategy = strategy
	c.API.Keystone.AuthURL, c.API.Keystone.Username, c.API.Keystone.Password = keystone, "trivet", "s3cret"
	k, err := Options{Wall: time.Now, Random: rand.Reader, Logger: slog.New(slog.DiscardHandler)}.openAuth(c.API)
	if err != nil {
		t.Fatal(err)
	}
	return &doorway{first: k}
}

// figures are those of a doorway, by name.
func figures(t *testing.T, d *doorway) map[string]float64 {
	t.Helper()
	r := prometheus.NewRegistry()
	d.register(r)
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
	d := authDoorway(t, config.StrategyKeystone, "http://"+testenv.RefusingAddress(t))
	t.Cleanup(d.first.hangUp)
	if err, all := d.keystoneAway(), figures(t, d); err != nil || all["trivet_keystone_up"] != 1 {
		t.Errorf("before anybody came: %v, %v", err, all)
	}
	r := httptest.NewRequest("GET", "/v1/introspection", nil)
	r.Header.Set("X-Auth-Token", "gAAAAAB")
	if _, err := d.first.auth.Identify(r, netip.Addr{}); err == nil {
		t.Fatal("a caller was served without Keystone")
	}
	err := d.keystoneAway()
	if err == nil || !strings.Contains(err.Error(), "connection refused") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("the reason is %v", err)
	}
	if up, there := figures(t, d)["trivet_keystone_up"]; up != 0 || !there {
		t.Errorf("trivet_keystone_up is %v, there: %v", up, there)
	}
}

// TestWithoutKeystoneNothingIsSaid: without Keystone there is no word of it.
func TestWithoutKeystoneNothingIsSaid(t *testing.T) {
	d := authDoorway(t, "noauth", "")
	if err, all := d.keystoneAway(), figures(t, d); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", err, all)
	}
}
