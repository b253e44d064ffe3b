//go:build e2e

package cli

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/test/testenv"
)

// makeOwned makes files and directories of a user in a directory that all may pass.
func makeOwned(t *testing.T, dir string, user int, files map[string]string, directories ...string) {
	t.Helper()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range files {
		if err := errors.Join(os.WriteFile(at(name), []byte(text), 0o600), os.Chown(at(name), user, user)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range directories {
		if err := errors.Join(os.Mkdir(at(name), 0o700), os.Chown(at(name), user, user)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestRootSeesWhatTheServiceSees: root's commands judge each file of a configuration as the
// user who runs the peer.
func TestRootSeesWhatTheServiceSees(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Missing(t, "only root can act as another user")
	}
	const user = 54321
	dir, err := os.MkdirTemp("/var/tmp", "trivet-eyes-") // every directory above it can be passed
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	at := func(name string) string { return filepath.Join(dir, name) }
	yaml := "name: h1\napi: {auth_strategy: http_basic, http_basic_auth_user_file: " + at("htpasswd") + "}\n" +
		"ironic: {auth_type: http_basic, username: u, password_file: " + at("password") + ", ca_file: " + at("ca.pem") +
		"}\n" +
		"backup: {directory: " + at("backups") + "}\n" +
		"failover: {mode: safe, fence_file: " + at("fence.yaml") + ", kubeconfigs: ['a=" + at("kubeconfig") + "']}\n"
	files := map[string]string{"t.yaml": yaml, "htpasswd": "", "password": "p", "ca.pem": "", "kubeconfig": "", "bmc": "p",
		"fence.yaml": "devices:\n- {name: r, type: redfish, username: u, password_file: " + at("bmc") +
			", nodes: {w1: 'https://192.0.2.8/redfish/v1/Systems/1'}}\n"}
	makeOwned(t, dir, user, files, "data", "backups")
	run := func(words ...string) (code int, said string) {
		var talk bytes.Buffer
		p := &program{Terminal: &term.Terminal{In: strings.NewReader(""), Out: &talk, Err: &talk, Wall: time.Now,
			Random: rand.Reader,
			Env:    []string{"TRIVET_CONFIG=" + at("t.yaml"), "TRIVET_DATA_DIR=" + at("data"), "TRIVET_SOCKET=" + at("s")}}}
		code = p.run(t.Context(), words)
		return code, talk.String()
	}
	if code, said := run("config", "check"); code != 0 {
		t.Fatalf("config check of what the service may read: exit %d: %s", code, said)
	}
	for name := range files {
		mode(t, at(name), 0, 0o600)
		for _, words := range [][]string{{"config", "check"}, {"doctor", "--check", "config"}} {
			code, said := run(words...)
			if code == 0 || !strings.Contains(said, "the peer may not read "+at(name)+": permission denied") ||
				!strings.Contains(said, "namei -l "+at(name)) {
				t.Errorf("judged-as-the-service: %s, %q: exit %d: %s", name, words, code, said)
			}
		}
		mode(t, at(name), user, 0o600)
	}
	if code, said := run("init", "--firewall-driver", "noop", "--cluster-advertise", "127.0.0.1:7350",
		"--gossip-advertise", "127.0.0.1:7351"); code != 0 {
		t.Fatalf("init: exit %d: %s", code, said)
	}
	mode(t, at("password"), 0, 0o600)
	if code, said := run("status"); code == 0 || !strings.Contains(said, "the peer may not read "+at("password")) {
		t.Errorf("judged-as-the-service: status where the peer does not run: exit %d: %s", code, said)
	}
	mode(t, at("password"), user, 0o600)
	mode(t, at("backups"), 0, 0o755)
	if code, said := run("config", "check"); code == 0 ||
		!strings.Contains(said, "the peer may not make files in "+at("backups")) {
		t.Errorf("judged-as-the-service: a directory: exit %d: %s", code, said)
	}
	mode(t, at("backups"), user, 0o700)
	mode(t, dir, 0, 0o700)
	if code, said := run("config", "check"); code == 0 ||
		!strings.Contains(said, "the peer may not pass "+dir+" to "+at("password")) {
		t.Errorf("judged-as-the-service: the way there: exit %d: %s", code, said)
	}
	mode(t, dir, 0, 0o755)
	judgedBeforeItIsPlaced(t, at, yaml, run)
}

// judgedBeforeItIsPlaced has a configuration judged where the service cannot get to it, as
// Ansible does before it moves it: that alone is no mistake.
func judgedBeforeItIsPlaced(t *testing.T, at func(string) string, yaml string, run func(...string) (int, string)) {
	t.Helper()
	if err := errors.Join(
		os.Mkdir(at("closed"), 0o700), os.WriteFile(at("closed/t.yaml"), []byte(yaml), 0o600)); err != nil {
		t.Fatal(err)
	}
	code, said := run("config", "check", "--config", at("closed/t.yaml"))
	if code != 0 || !strings.Contains(said, "warning: "+at("closed/t.yaml")) &&
		!strings.Contains(said, "the peer may not pass "+at("closed")) {
		t.Errorf("judged-before-it-is-placed: exit %d: %s", code, said)
	}
}

// mode gives a file its owner and mode.
func mode(t *testing.T, path string, uid int, mode fs.FileMode) {
	t.Helper()
	if err := errors.Join(os.Chown(path, uid, uid), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
}
