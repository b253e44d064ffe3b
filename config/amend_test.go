package config

import (
	"maps"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const users = "/etc/trivet/htpasswd"

func basic() map[string]string {
	return map[string]string{"api.auth_strategy": "http_basic", "api.http_basic_auth_user_file": users}
}

// TestAmend: what is written into files of every form that people keep.
func TestAmend(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		values map[string]string
		want   string
	}{
		"empty": {"", basic(), "api:\n  http_basic_auth_user_file: /etc/trivet/htpasswd\n  auth_strategy: http_basic\n"},
		"all commented": {"# Trivet.\n#name: h1\n#api:\n#  listen: \":5050\"\n",
			map[string]string{"name": "h1", "api.auth_strategy": "noauth"},
			"# Trivet.\nname: h1\napi:\n  auth_strategy: noauth\n#  listen: \":5050\"\n"},
		"as the template shows it": {"api:\n  # Who.\n  #auth_strategy: \"\"\n\n# Next.\ncluster:\n  #auth_strategy: no\n",
			map[string]string{"api.auth_strategy": "noauth"},
			"api:\n  # Who.\n  auth_strategy: noauth\n\n# Next.\ncluster:\n  #auth_strategy: no\n"},
		"beside others": {"api:\n    listen: \":1\" # mine\n", map[string]string{"api.auth_strategy": "noauth"},
			"api:\n    auth_strategy: noauth\n    listen: \":1\" # mine\n"},
		"a section in a section": {"inspection:\n  timeout: 5m\n",
			map[string]string{"inspection.processing.processing_hooks": "scheduler,ramdisk_error"},
			"inspection:\n  processing:\n    processing_hooks: [scheduler, ramdisk_error]\n  timeout: 5m\n"},
		"half of a pair": {"api:\n  tls:\n    cert_file: /c\n    key_file: /k\n",
			map[string]string{"api.tls.certificate": "files"},
			"api:\n  tls:\n    certificate: files\n    cert_file: /c\n    key_file: /k\n"},
		"of Windows": {"\ufeffname: h1\r\napi: # mine\r\n  listen: \":1\"\r\n\r\n#raft:\r\n  #timing:\r\n",
			map[string]string{"api.auth_strategy": "noauth", "raft.timing": "slow", "log.level": "debug"},
			"name: h1\r\napi: # mine\r\n  auth_strategy: noauth\r\n  listen: \":1\"\r\n\r\nraft:\r\n  timing: slow\r\n" +
				"log:\r\n  level: debug\r\n"},
		"with a byte order mark": {"\ufeffapi:\n  listen: \":1\"\n", map[string]string{"api.auth_strategy": "noauth"},
			"api:\n  auth_strategy: noauth\n  listen: \":1\"\n"},
		"no line end": {"name: h1", map[string]string{"raft.timing": "slow"}, "name: h1\nraft:\n  timing: slow\n"},
	} {
		got, err := Amend("f", []byte(c.text), c.values)
		if err != nil {
			t.Errorf("amended: %s: %v", name, err)
			continue
		}
		if string(got) != c.want {
			t.Errorf("amended: %s:\n%q\nwant\n%q", name, got, c.want)
		}
	}
}

func TestAmendRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		values map[string]string
		want   string
	}{
		"one line":          {"api: {listen: \":1\"}\n", basic(), "nothing can be written"},
		"set already":       {"api:\n  auth_strategy: noauth\n", basic(), "api.auth_strategy is written there already"},
		"a wrong value":     {"", map[string]string{"raft.timing": "soon"}, "raft.timing"},
		"no option":         {"", map[string]string{"raft.warp": "9"}, "raft.warp: is not an option"},
		"not YAML":          {"api: [\n", basic(), "f:"},
		"after its end":     {"name: h1\n...\n", basic(), "nothing can be written"},
		"a second document": {"name: h1\n---\n", basic(), "more than one document"},
	} {
		out, err := Amend("f", []byte(c.text), c.values)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// TestAmendTemplate writes any choice of keys into the template, in two steps,
// and gets the template of all of them.
func TestAmendTemplate(t *testing.T) {
	keys := []string{"name", "api.listen", "cluster.advertise", "ironic.endpoint", "inspection.timeout",
		"inspection.processing.add_ports", "floating_ip.address", "floating_ip.interface", "raft.timing"}
	some := map[string]string{"name": "h1", "api.listen": "127.0.0.1:1", "cluster.advertise": "h1:7350",
		"ironic.endpoint": "http://i", "inspection.timeout": "5m",
		"inspection.processing.add_ports": "all", "floating_ip.address": "192.0.2.1", "floating_ip.interface": "eth0",
		"raft.timing": "fast"}
	rapid.Check(t, func(t *rapid.T) {
		first, second := make(map[string]string), make(map[string]string)
		for _, key := range keys {
			half := first
			if rapid.Bool().Draw(t, key) && !strings.HasPrefix(key, "floating_ip.") { // the two need one another
				half = second
			}
			half[key] = some[key]
		}
		text, err := Template(first)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Amend("f", text, second)
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(first, second)
		want, err := Template(first)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Fatalf("%s\nwant\n%s", got, want)
		}
	})
}

// TestShared: what one peer's file says of the cluster is taken over by another
// where that says nothing itself.
func TestShared(t *testing.T) {
	first, err := Load(Sources{File: "f", Env: []string{"TRIVET_FIREWALL_DRIVER=noop"}, Text: []byte(`
name: h1
api: {listen: ":1", auth_strategy: http_basic, http_basic_auth_user_file: /u}
cluster: {advertise: "h1:7350"}
ironic: {endpoint: "https://i", auth_type: http_basic, username: u, password: "s3cret"}
raft: {timing: slow}
inspection: {introspection_delay: 2s, processing: {processing_hooks: [scheduler, ramdisk_error]}}
`)})
	if err != nil {
		t.Fatal(err)
	}
	shared := first.Shared()
	want := map[string]string{
		"api.auth_strategy": "http_basic", "ironic.endpoint": "https://i", "ironic.auth_type": "http_basic",
		"ironic.username": "u",
		"ironic.password": "s3cret", "raft.timing": "slow", "inspection.reboot_throttle": "2s",
		"inspection.processing.processing_hooks": "scheduler,ramdisk_error",
	}
	if !maps.Equal(shared, want) {
		t.Errorf("%v\nwant\n%v", shared, want)
	}
	second, err := Load(Sources{File: "f", Text: []byte("raft: {timing: fast}\n")})
	if err != nil {
		t.Fatal(err)
	}
	shared["warp.factor"], shared["name"] = "9", "h1"
	values, unknown := second.Adopt(shared)
	delete(want, "raft.timing")
	if !maps.Equal(values, want) || len(unknown) != 1 || unknown[0] != "warp.factor" {
		t.Errorf("%v, %v\nwant\n%v", values, unknown, want)
	}
}
