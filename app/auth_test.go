package app

import (
	"crypto/rand"
	"log/slog"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/trivet-ha/trivet/api"
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

// TestRefusedUsersAreTold: status says that users are refused for what is wrong with their file,
// before one of them comes.
func TestRefusedUsersAreTold(t *testing.T) {
	line, err := api.NewUser("admin", "secret")
	if err != nil {
		t.Fatal(err)
	}
	c, now := config.Default(), time.Now()
	c.API.AuthStrategy, c.API.HTTPBasicAuthUserFile = "http_basic", filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(c.API.HTTPBasicAuthUserFile, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{Wall: func() time.Time { return now }, Random: rand.Reader, Logger: slog.New(slog.DiscardHandler)}
	k, err := o.openAuth(c.API)
	if err != nil {
		t.Fatal(err)
	}
	d := &doorway{first: k}
	if d.lookAtUsers(); d.userWarnings() != nil {
		t.Errorf("a good file: %+v", d.userWarnings())
	}
	if err := os.WriteFile(c.API.HTTPBasicAuthUserFile, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Second)
	d.lookAtUsers()
	if w := d.userWarnings(); len(w) != 1 || w[0].Code != "file_unusable" || w[0].Remedy == "" ||
		!strings.Contains(w[0].Text, "no user is in it") {
		t.Errorf("users-are-refused-untold: %+v", w)
	}
}

// TestWithoutKeystoneNothingIsSaid: without Keystone there is no word of it.
func TestWithoutKeystoneNothingIsSaid(t *testing.T) {
	d := authDoorway(t, "noauth", "")
	if err, all := d.keystoneAway(), figures(t, d); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", err, all)
	}
}

// A joiner is given the users as they are now, and all else where they cannot be read.
func TestSharedUsers(t *testing.T) {
	line, err := api.NewUser("joe", "secret")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "htpasswd")
	if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	conf, err := config.Load(config.Sources{File: "f", Text: []byte("raft: {timing: slow}\n" +
		"api: {listen: ':5050', auth_strategy: http_basic, http_basic_auth_user_file: " + path + "}\n")})
	if err != nil {
		t.Fatal(err)
	}
	who, err := Options{Wall: time.Now, Random: rand.Reader, Logger: slog.New(slog.DiscardHandler)}.openAuth(conf.API)
	if err != nil {
		t.Fatal(err)
	}
	d := &doorway{first: who}
	want := func(what, users, noUsers string) {
		t.Helper()
		s := d.shared(conf)
		if string(s.Users) != users || !strings.Contains(s.NoUsers, noUsers) || s.Settings["raft.timing"] != "slow" {
			t.Errorf("shared-users: %s: %+v", what, s)
		}
	}
	want("of a good file", line, "")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want("of an empty file", "", "no user is in it")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	want("without a file", "", path)
}
