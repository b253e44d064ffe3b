package admin

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/relays"
)

// TestRelaysAreListed with what Ironic said.
func TestRelaysAreListed(t *testing.T) {
	state, err := fsm.Founded(fsm.Found{
		ClusterID: "5f0c1f3e-0000-4000-8000-000000000001", CACert: []byte("-----BEGIN X-----"),
		CAKey: []byte("-----BEGIN X-----"), GossipKey: make([]byte, 32),
		Member: membership.Member{ID: "id-h1", Name: "h1", Address: "h1:7350", Version: fsm.Version},
	}, time.UnixMilli(1))
	if err != nil {
		t.Fatal(err)
	}
	document, err := blobs.Pack([]byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	data, err := fsm.Encode(fsm.Header{WallMillis: 1_700_000_000_000},
		relays.Accept{Node: node, Document: document, Timeout: time.Minute, Tried: relays.OutcomeTaken})
	if err != nil {
		t.Fatal(err)
	}
	state.Apply(fsm.Entry{Index: 2, Term: 1, Data: data})
	w := httptest.NewRecorder()
	(&Control{State: State{Log: reading{state.View()}}, Logger: slog.New(slog.DiscardHandler)}).Handler().ServeHTTP(w,
		httptest.NewRequest("GET", "/v1/relays", nil))
	want := `"node":"` + node +
		`","state":"taken","tries":1,"accepted":"2023-11-14T22:13:20Z","ended":"2023-11-14T22:13:20Z"`
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
		t.Errorf("%d %s, want %s", w.Code, w.Body, want)
	}
}

// reading is a log that shows one view.
type reading struct{ v fsm.View }

func (r reading) Read(context.Context) (fsm.View, error) { return r.v, nil }
func (r reading) View() fsm.View                         { return r.v }
