package cluster

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/fsm/membership"
)

func TestPeersAreAskedAboutThemselves(t *testing.T) {
	f := newFixture(t)
	never := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /peer/v1/self", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("fine")) })
	mux.HandleFunc("GET /peer/v1/flood",
		func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bytes.Repeat([]byte{'x'}, maxWords+1)) })
	mux.HandleFunc("GET /peer/v1/broken",
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	mux.HandleFunc("GET /peer/v1/hang", func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-never:
		case <-r.Context().Done():
		}
	})
	addr := f.serve(t, membersOnly(&served{view: f.state.View(), leads: true}, mux))
	h1 := membership.Member{ID: "h1", Name: "h1", Address: addr}
	forward := NewForwarder(f.access(t, pki.PeerIdentity(clusterID, "h1", 1)))
	defer forward.Close()
	if said, err := forward.Ask(t.Context(), h1, "/peer/v1/self"); err != nil || string(said) != "fine" {
		t.Errorf("it says %q, %v", said, err)
	}
	for path, want := range map[string]string{"flood": "more than", "broken": "answered 500",
		"missing": "another version"} {
		if _, err := forward.Ask(t.Context(), h1, "/peer/v1/"+path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	limited, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := forward.Ask(limited, h1, "/peer/v1/hang"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a peer that hangs: %v", err)
	}
	if _, err := forward.Ask(t.Context(), membership.Member{ID: "h1", Name: "h1", Address: "127.0.0.1:1"},
		"/peer/v1/self"); err == nil {
		t.Error("nobody answered, and no error")
	}
}

// What a peer says of itself is for members alone, as of all that is committed.
func TestOthersAreNotAnswered(t *testing.T) {
	f := newFixture(t)
	view := f.state.View()
	addr := f.serve(t, membersOnly(&served{view: view, leads: true, index: view.Index()},
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			t.Error("it was answered")
			w.WriteHeader(http.StatusOK)
		})))
	stranger := NewForwarder(f.access(t, pki.PeerIdentity(clusterID, "removed", 1)))
	defer stranger.Close()
	if _, err := stranger.Ask(t.Context(), membership.Member{ID: "h1", Name: "h1", Address: addr}, "/peer/v1/self"); err ==
		nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("a removed peer: %v", err)
	}
}
