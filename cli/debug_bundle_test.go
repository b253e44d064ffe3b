//go:build e2e

package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/internal/supportbundle"
)

// planted are secrets that a careless peer might let slip, and the others.
func planted() []string {
	return []string{"quiet-word-of-ironic", "s3cr3t-of-a-bmc", "s3cr3t-of-kubernetes", "s3cr3t-in-a-url",
		"MHcCAQEEIHs3cr3tOfTheCA", "s3cr3t-of-a-fence"}
}

// careless is a peer whose answers hold secrets.
func careless(t *testing.T, socket string) {
	t.Helper()
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := planted()
	body := `{"name": "h1", "leader": "h1", "token": "57", "text": "` + s[0] + `", "driver_info": {"ipmi_password": "` +
		s[1] + `"}, "kubeconfig": "token: ` + s[2] + `\n",
"why": "ask https://trivet:` + s[3] + `@ironic.example/v1 passwd=` + s[5] + `", "ca_key": "-----BEGIN EC PRIVATE KEY-----\n` + s[4] + `\n-----END EC PRIVATE KEY-----"}`
	hosts, err := json.Marshal(admin.HostFiles{
		Peer: "h1", Files: []supportbundle.File{{Name: "log.txt", Text: "token=57 careless " + body},
			{Name: "metrics.txt", Error: "password=" + s[5]}},
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{ReadHeaderTimeout: time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			text := body
			switch r.URL.Path {
			case "/v1/relays":
				http.Error(w, "no", http.StatusInternalServerError)
				return
			case "/v1/doctor":
				text = `[{"peer": "h2", "error": "login password=` + s[1] + `"}]`
			case "/v1/debug/bundle":
				text = string(hosts)
			}
			_, _ = io.WriteString(w, text) // who asked may have gone
		})}
	go func() { _ = srv.Serve(ln) }() // until the test ends
	t.Cleanup(func() { _ = srv.Close() })
}

// unpacked are the files of a bundle.
func unpacked(t *testing.T, path string) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	plain, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]string)
	for archive := tar.NewReader(plain); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimPrefix(h.Name, "trivet-bundle"+"/")] = string(text)
	}
}

func gather(t *testing.T, dir string, more ...string) map[string]string {
	t.Helper()
	var talk bytes.Buffer
	p := &program{Terminal: &term.Terminal{Out: &talk, Err: &talk, Wall: time.Now, Env: []string{
		"TRIVET_IRONIC_PASSWORD=" + planted()[0], "TRIVET_CONFIG=" + filepath.Join(dir, "h.yaml"),
		"TRIVET_DOCTOR_DNSMASQ_CONF=" + filepath.Join(dir, "none"),
	}}}
	if err := os.WriteFile(filepath.Join(dir, "h.yaml"), []byte("firewall: {driver: noop}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "b.tar.gz")
	if code := p.run(t.Context(),
		append(more, "debug", "bundle", "-f", path, "--with-state", "--mac", "52:54:00:ab:00:01", "--socket",
			filepath.Join(dir, "s"), "--data-dir", dir)); code != 0 {
		t.Fatalf("exit %d: %s", code, talk.String())
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	return unpacked(t, path)
}

// TestABundleHoldsNoSecret looks for what was planted in every file of a bundle.
func TestABundleHoldsNoSecret(t *testing.T) {
	dir := t.TempDir()
	careless(t, filepath.Join(dir, "s"))
	files := gather(t, dir)
	for name, text := range files {
		for _, secret := range planted() {
			for _, form := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret)),
				hex.EncodeToString([]byte(secret))} {
				if strings.Contains(text, form) {
					t.Errorf("bundle-holds-no-secret: %s holds %s:\n%s", name, form, text)
				}
			}
		}
	}
	for _, want := range []string{"members.json", "firewall.json", "explain.json", "state.json", "facts.json",
		"findings.json", "config.txt", "version.txt", "h1/log.txt"} {
		if files[want] == "" {
			t.Errorf("there is no %s", want)
		}
	}
	if !strings.Contains(files["members.json"], `"token": "57"`) || !strings.Contains(files["h1/log.txt"], "token=57 ") {
		t.Errorf("a fencing token is no secret:\n%s\n%s", files["members.json"], files["h1/log.txt"])
	}
	for _, want := range []string{"relays.json              missing: ",
		"h1/metrics.txt           missing: password=(redacted)"} {
		if !strings.Contains(files["INDEX"], want) {
			t.Errorf("INDEX does not say %q:\n%s", want, files["INDEX"])
		}
	}
	if !strings.Contains(files["config.txt"], "ironic.password: (redacted)") {
		t.Error(files["config.txt"])
	}
}

// TestABundleOfAnotherHost: the configuration of the host where it is made is not that of the peer.
func TestABundleOfAnotherHost(t *testing.T) {
	files := gather(t, t.TempDir(), "--peer", "192.0.2.2")
	if !strings.Contains(files["INDEX"], "config.txt               missing: the peer is not on this host") {
		t.Errorf("bundle-of-another-host: %s", files["INDEX"])
	}
}

func TestABundleOfAHostWithoutAPeer(t *testing.T) {
	files := gather(t, t.TempDir())
	if !strings.Contains(files["INDEX"], "peer                     missing: no peer is running here") ||
		!strings.Contains(files["findings.json"], "no peer runs on this host") {
		t.Errorf("%s\n%s", files["INDEX"], files["findings.json"])
	}
}
