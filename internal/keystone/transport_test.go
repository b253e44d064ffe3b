package keystone

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/internal/servicecreds"
	"github.com/trivet-ha/trivet/test/testenv"
)

func transport(t *testing.T) *Transport {
	t.Helper()
	secure, err := servicecreds.OpenTLS(servicecreds.Files{Section: "api.keystone"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	out := NewTransport(secure)
	t.Cleanup(out.CloseIdleConnections)
	return out
}

// TestAnswersAreBounded sends more than anybody's catalogue is.
func TestAnswersAreBounded(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Subject-Token", "own-1")
		w.WriteHeader(http.StatusCreated)
		chunk := []byte(strings.Repeat(" ", 1<<20))
		for range maxAnswer>>20 + 1 {
			if _, err := w.Write(chunk); err != nil {
				return // the client has had enough
			}
		}
	}))
	t.Cleanup(server.Close)
	a := account()
	a.URL = server.URL
	_, err := a.LogIn(t.Context(), transport(t))
	var large *http.MaxBytesError
	if !errors.As(err, &large) {
		t.Errorf("an answer without end: %v", err)
	}
}

// TestNoServerThere and a stranger's certificate are no answer of Keystone's.
func TestNoServerThere(t *testing.T) {
	gone := "http://" + testenv.RefusingAddress(t)
	stranger := httptest.NewUnstartedServer(http.NotFoundHandler())
	stranger.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // handshakes that shall fail
	stranger.StartTLS()
	t.Cleanup(stranger.Close)
	for url, want := range map[string]string{gone: "no answer from Keystone: dial tcp",
		stranger.URL: "no answer from Keystone: tls: failed to verify certificate"} {
		a := account()
		a.URL = url
		e, err := NewExaminer(a, transport(t), time.Now)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Examine(t.Context(), "x"); err == nil || Refused(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
