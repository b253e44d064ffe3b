package config

import (
	"strings"
	"testing"
)

const whole = "auth_type: keystone, username: u, password: p, project_name: service"

func TestKeystoneLeavesTheEndpointToTheCatalogue(t *testing.T) {
	for _, test := range []struct{ yaml, want string }{
		{"ironic: {}\n", "http://127.0.0.1:6385"},
		{"ironic: {auth_url: 'https://k:5000', " + whole + "}\n", ""},
		{"ironic: {auth_url: 'https://k:5000', endpoint: 'http://127.0.0.1:6385', " + whole + "}\n", "http://127.0.0.1:6385"},
	} {
		c, problems := load(t, test.yaml)
		if len(problems) > 0 || c.Ironic.Endpoint != test.want {
			t.Errorf("%s: endpoint %q, want %q; problems %v", test.yaml, c.Ironic.Endpoint, test.want, problems)
		}
	}
}

func TestWarningsAboutIronic(t *testing.T) {
	for _, test := range []struct{ yaml, want string }{
		{"ironic: {auth_url: 'https://k:5000', " + whole + "}\n", ""},
		{"ironic: {auth_url: 'http://[::1]:5000', " + whole + "}\n", ""},
		{"ironic: {auth_url: 'http://k:5000', " + whole + "}\n",
			"trivet.yaml:1: ironic.auth_url: the password goes over the network unencrypted; use https"},
		{"ironic: {endpoint: 'http://h:6385', auth_type: http_basic, username: u, password: p}\n",
			"trivet.yaml:1: ironic.endpoint: the password goes over the network unencrypted"},
		{"ironic: {auth_type: http_basic, username: u, password: p}\n", ""},
	} {
		c, problems := load(t, test.yaml)
		var got []string
		for _, w := range c.Warnings() {
			if strings.HasPrefix(w.Key, "ironic.") {
				got = append(got, w.String())
			}
		}
		if len(problems) > 0 || (test.want == "") != (len(got) == 0) ||
			len(got) > 0 && !strings.HasPrefix(got[0], test.want) {
			t.Errorf("%s: warnings %q, want %q; problems %v", test.yaml, got, test.want, problems)
		}
	}
}

// TestLogin: who reads that Ironic refuses the credentials learns which options
// hold them, and in which file they stand.
func TestLogin(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		env  []string
		want string
	}{
		"in the file": {"ironic:\n  auth_type: http_basic\n  username: u\n  password: sesame\n", nil,
			`ironic.username "u" (trivet.yaml:3) and ironic.password (trivet.yaml:4)`},
		"in a file of its own": {"ironic:\n  auth_type: http_basic\n  username: u\n  password_file: /etc/p\n", nil,
			`ironic.username "u" (trivet.yaml:3), and the password in /etc/p, which ironic.password_file (trivet.yaml:4) names`},
		"in the environment": {"ironic:\n  auth_type: http_basic\n  username: u\n", []string{"TRIVET_IRONIC_PASSWORD=sesame"},
			`ironic.username "u" (trivet.yaml:3) and ironic.password (TRIVET_IRONIC_PASSWORD)`},
	} {
		conf, err := Load(Sources{File: "trivet.yaml", Text: []byte(c.text), Env: c.env})
		if got := conf.Ironic.Login(); err != nil || got != c.want {
			t.Errorf("%s: %s, want %s (%v)", name, got, c.want, err)
		}
	}
}

// TestLoginAfterReload: what was read again is where its file says.
func TestLoginAfterReload(t *testing.T) {
	load := func(text string) Config {
		c, err := Load(Sources{File: "trivet.yaml", Text: []byte(text)})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	r := load("ironic:\n  auth_type: none\n").Renew(
		load("ironic:\n  auth_type: http_basic\n  username: u\n  password: sesame\n"))
	if got, want := r.Config.Ironic.Login(),
		`ironic.username "u" (trivet.yaml:3) and ironic.password (trivet.yaml:4)`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
