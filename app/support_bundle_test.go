package app

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/internal/bounds"
	"github.com/trivet-ha/trivet/internal/logs"
)

// TestABundleOfAPeerHoldsNoSecret plants what a peer has of secrets where nobody
// expects them, in the log, in every form, and looks into every file.
func TestABundleOfAPeerHoldsNoSecret(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a peer")
	}
	r := newReloadable(t)
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("quiet word of keystone\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	r.flags["ironic.password"], r.flags["ironic.username"] = "quiet word of ironic", "trivet"
	r.flags["api.keystone.password_file"] = file
	conf := r.conf.Current()
	r.mu.Unlock()
	next, err := r.load()
	if err != nil {
		t.Fatal(err)
	}
	next.DataDir = conf.DataDir
	r.conf.Conf.Store(&next)

	keys := r.Core().Store.View().Secrets()
	token, err := pki.NewJoinToken(pki.HashCA(r.renewal.Credentials().CA), r.opts.Wall().Add(datadir.FirstTokenTTL),
		r.opts.Random)
	if err != nil {
		t.Fatal(err)
	}
	planted := []string{"quiet word of ironic", "quiet word of keystone", string(keys.GossipKey)}
	var lines strings.Builder
	for _, secret := range planted {
		raw := []byte(secret)
		fmt.Fprintf(&lines, "level=INFO msg=careless a=%q b=%s c=%x d=%X e=%s f=%v\n", secret, secret, raw, raw,
			base64.StdEncoding.EncodeToString(raw), raw)
	}
	fmt.Fprintf(&lines, "level=INFO msg=careless join=%s\n", token) // which no peer knows
	body := ""
	for line := range strings.SplitSeq(string(keys.CAKey), "\n") {
		if len(line) > 60 {
			body = line
		}
	}
	if body == "" {
		t.Fatal("the CA's key has no line to look for")
	}
	planted = append(planted, body, token.String())
	fmt.Fprintf(&lines, "level=INFO msg=careless key=%q\nhalf=%s\n", keys.CAKey, body)
	for line := range strings.Lines(lines.String()) {
		r.recent.Add(logs.Line{Time: time.Now(), Text: line, Request: logs.Request{ID: planted[0]}})
	}

	seen := make(map[string]string)
	for _, f := range r.Admin().Host.Bundle() {
		if f.Error != "" {
			t.Errorf("%s: %s", f.Name, f.Error)
		}
		seen[f.Name] = f.Text
		for _, form := range allForms(planted) {
			if strings.Contains(f.Text, form) {
				t.Errorf("peer-bundle-holds-no-secret: %s holds %q", f.Name, form)
			}
		}
	}
	tellsNoSecret(t, r, planted)
	for name, want := range map[string]string{
		"version.txt": "trivet test, log version ", "config.txt": "ironic.password: (redacted)",
		"status.json": `"cluster_id": "`, "peers.json": `"gossip": `, "firewall.json": `"peer": "h1"`,
		"state.json": `"leadership": {`, "metrics.txt": "trivet_raft_leader ", "goroutines.txt": "goroutine ",
		"log.txt": "msg=careless",
	} {
		if !strings.Contains(seen[name], want) {
			t.Errorf("%s does not hold %s:\n%.2000s", name, want, seen[name])
		}
	}
}

// TestPasswordOfAShareThatHangs: lines of the log are told while the file of a password hangs, without the password
// that was last read.
func TestPasswordOfAShareThatHangs(t *testing.T) {
	conf := config.Default()
	conf.Ironic.PasswordFile = filepath.Join(t.TempDir(), "password")
	writeFiles(t, "", map[string]string{conf.Ironic.PasswordFile: "quiet word\n"})
	synctest.Test(t, func(t *testing.T) {
		var files passwordFiles
		files.look(conf)
		share := make(chan struct{})
		defer close(share)
		if _, _, err := files.Read(conf.Ironic.PasswordFile, func(string) (string, error) {
			<-share
			return "", nil
		}); !errors.Is(err, bounds.ErrHangs) {
			t.Fatal(err)
		}
		began := time.Now()
		if got := files.look(conf); !slices.Equal(got, []string{"quiet word"}) || time.Since(began) > bounds.FileLimit {
			t.Errorf("password-hangs: %d passwords after %v", len(got), time.Since(began))
		}
	})
}

// loggedBy is what operators are told of a peer's log.
func loggedBy(t *testing.T, r *reloadable) string {
	t.Helper()
	w := httptest.NewRecorder()
	r.Admin().Handler().ServeHTTP(w, httptest.NewRequest("GET", "/v1/log?limit=1000", http.NoBody))
	var page admin.LogPage
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil {
		t.Fatal(w.Code, err)
	}
	var out strings.Builder
	for _, line := range page.Lines {
		out.WriteString(line.Request + " " + line.Text + "\n")
	}
	return out.String()
}

// tellsNoSecret looks for what was planted in what operators are told of the log.
func tellsNoSecret(t *testing.T, r *reloadable, planted []string) {
	t.Helper()
	if told := loggedBy(t, r); !strings.Contains(told, "msg=careless") {
		t.Errorf("GET /v1/log: %.2000s", told)
	} else {
		for _, form := range allForms(planted) {
			if strings.Contains(told, form) {
				t.Errorf("peer-log-holds-no-secret: GET /v1/log tells %q", form)
			}
		}
	}
}

// allForms are the ways in which programs write these secrets.
func allForms(secrets []string) (out []string) {
	for _, secret := range secrets {
		out = append(out, formsOf(secret)...)
	}
	return out
}

// formsOf are the ways in which programs write a secret.
func formsOf(secret string) []string {
	raw := []byte(secret)
	return []string{secret, hex.EncodeToString(raw), fmt.Sprintf("%X", raw), base64.RawStdEncoding.EncodeToString(raw),
		fmt.Sprint(raw)}
}
