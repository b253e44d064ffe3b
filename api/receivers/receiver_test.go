package receivers

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/test/memlog"
	"github.com/trivet-ha/trivet/test/msgcheck"
)

// The signature is that of Standard Webhooks: this is the example of its libraries.
func TestSignatureIsThatOfTheConvention(t *testing.T) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, secretPrefix))
	if err != nil {
		t.Fatal(err)
	}
	got := sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	if want := "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Receivers that lie cost a bounded time and bounded bytes, and are shown nothing of what is
// signed for another: redirects are not followed.
func TestLyingReceivers(t *testing.T) {
	var elsewhere, sent atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	lying := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		case "/large":
			for chunk := make([]byte, 1<<20); sent.Load() < 1<<30; sent.Add(1 << 20) {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		case "/heads":
			for range 100 {
				w.Header().Add("X-Long", strings.Repeat("x", 1<<10))
			}
		case "/gone":
			w.WriteHeader(http.StatusGone)
		case "/busy":
			w.Header().Set("Retry-After", "99999999")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer lying.Close()
	s := newSite(t, memlog.New(t))
	for path, want := range map[string]string{
		"/redirect": "it answered 307", "/large": "", "/heads": "response headers exceeded", "/gone": "it answered 410",
		"/busy": "it answered 503", "/": "",
	} {
		conf := config.Events{Receivers: []string{"cmdb=" + lying.URL + path}, Secrets: []string{"cmdb=" + s.secrets}}
		made, err := Open(conf,
			Options{Wall: time.Now, Logger: msgcheck.Logger(t)})
		if err != nil {
			t.Fatal(err)
		}
		r := made[0]
		err = r.Ping(t.Context(), "cluster")
		if text := errorText(err); want == "" && err != nil || !strings.Contains(text, want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
		if w := wish(err); w > maxWish || (path == "/busy") != (w == maxWish) {
			t.Errorf("%s asks for a pause of %v", path, w)
		}
		r.close()
	}
	if elsewhere.Load() > 0 {
		t.Error("a redirect was followed")
	}
	if n := sent.Load(); n >= 64<<20 {
		t.Errorf("%d bytes of an answer were taken", n)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Why a receiver takes nothing is told to readers and to other receivers: of its URL, which may be
// the secret of a chat's hook, no error says anything.
func TestErrorsHideTheURL(t *testing.T) {
	s := newSite(t, memlog.New(t))
	conf := config.Events{Receivers: []string{"chat=http://127.0.0.1:1/hooks/T00/hunter2"},
		Secrets: []string{"chat=" + s.secrets}}
	made, err := Open(conf, Options{Wall: time.Now, Logger: msgcheck.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	err = made[0].Ping(t.Context(), "cluster")
	if text := errorText(err); !strings.Contains(text, "refused") || strings.Contains(text, "hunter2") {
		t.Errorf("url-is-hidden: %v", err)
	}
}

// A receiver that takes a connection and never answers is given up after answerLimit.
func TestSilentReceiverIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, memlog.New(t))
		silent := &server{t: t, answer: func(ctx context.Context, _ int) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}}
		began := time.Now()
		if err := s.receiver("cmdb", silent).Ping(t.Context(), "c"); err == nil || time.Since(began) != answerLimit {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// Secrets are read for each delivery, and what is wrong with one names option and file and
// quotes nothing of it.
func TestSecretsOfReceivers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	conf := config.Events{Receivers: []string{"cmdb=http://receiver.example/"}, Secrets: []string{"cmdb=" + path}}
	for content, good := range map[string]bool{
		secret: true, secret + "\n": true, "": false, "hunter2": false, "whsec_aHVudGVyMg==": false,
		"MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw": false, "whsec_" + strings.Repeat("hunter2", 20): false,
		secret + "\n" + secret: false,
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Open(conf, Options{Wall: time.Now, Logger: msgcheck.Logger(t)})
		if (err == nil) != good {
			t.Errorf("%q: %v", content, err)
		}
		if err != nil && (!strings.Contains(err.Error(), "events.secrets") || !strings.Contains(err.Error(), path) ||
			strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%q: %v", content, err)
		}
	}
	conf.Kinds = []string{"cmdb=weather"}
	if err := os.WriteFile(path, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(conf, Options{Wall: time.Now, Logger: msgcheck.Logger(t)})
	if err == nil || !strings.Contains(err.Error(), "leadership, pxe") {
		t.Errorf("a kind that there is not: %v", err)
	}
}
