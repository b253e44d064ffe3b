package kube

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	empty, broken := filepath.Join(dir, "empty"), filepath.Join(dir, "broken")
	for name, text := range map[string]string{empty: "{apiVersion: v1, kind: Config}\n", broken: "{\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBECONFIG", broken) // nobody asks it
	for path, want := range map[string]string{
		"":                         "runs in no pod",
		filepath.Join(dir, "none"): "no such file",
		empty:                      empty,
		broken:                     broken,
	} {
		_, err := Open(Options{Name: "prod", Kubeconfig: path, Wall: time.Now, Logger: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", path, err, want)
		}
	}
}

// What is wrong with a kubeconfig goes into the log and into a bundle.
func TestOpenRepeatsNoToken(t *testing.T) {
	for _, value := range []string{"*hunter2", "!!int hunter2", "{hunter2: x}", "[hunter2]", "\"hunter2", "@hunter2",
		"|\nhunter2"} {
		for _, key := range []string{"token", "password", "client-key-data", "client-certificate-data"} {
			file := filepath.Join(t.TempDir(), "kubeconfig")
			text := "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts:\n- {name: c, context: {cluster: c, user: u}}\nclusters:\n" +
				"- {name: c, cluster: {server: 'https://127.0.0.1:1'}}\nusers:\n- name: u\n  user:\n    " + key + ": " + value +
				"\n"
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Open(Options{Name: "prod", Kubeconfig: file, Wall: time.Now, Logger: slog.New(slog.DiscardHandler)})
			if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), file) {
				t.Errorf("secret-repeated: %s: %s: %v", key, value, err)
			}
		}
	}
}

func TestOpenWarnsOfBlindTrust(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1", insecure-skip-tls-verify: true}}], users: [{name: a, user: {}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	c, err := Open(Options{Name: "prod", Kubeconfig: file, Wall: time.Now,
		Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if !strings.Contains(log.String(), "not verified") || c.Name() != "prod" {
		t.Errorf("%s: %s", c.Name(), &log)
	}
}
