package admin

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/nodesync"
)

// states is a log without peers: it applies what it is given.
type states struct {
	t     *testing.T
	state *fsm.State
	next  uint64
}

func newStates(t *testing.T) *states {
	t.Helper()
	state, err := fsm.Founded(fsm.Found{
		ClusterID: "5f0c1f3e-0000-4000-8000-000000000001", CACert: []byte("-----BEGIN CERTIFICATE-----"),
		CAKey: []byte("-----BEGIN PRIVATE KEY-----"), GossipKey: make([]byte, 32),
		Member: membership.Member{ID: "a", Name: "a", Address: "a:7350", Version: fsm.Version},
	}, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	return &states{t: t, state: state, next: 2}
}

func (s *states) Read(context.Context) (fsm.View, error) { return s.state.View(), nil }
func (s *states) View() fsm.View                         { return s.state.View() }

func (s *states) Do(_ context.Context, _ string, c fsm.Command) (fsm.Result, error) {
	s.t.Helper()
	data, err := fsm.Encode(fsm.Header{}, c)
	if err != nil {
		return fsm.Result{}, err
	}
	res := s.state.Apply(fsm.Entry{Index: s.next, Term: 1, Data: data})
	s.next++
	return res, nil
}

func TestOnlyTheListThatWasShownIsConfirmed(t *testing.T) {
	log := newStates(t)
	control := (&Control{State: State{Log: log, Do: log}, Logger: slog.New(slog.DiscardHandler)}).Handler()
	call := func(method, body string) (int, Sync) {
		w := httptest.NewRecorder()
		control.ServeHTTP(w, httptest.NewRequest(method, "/v1/nodes/sync", strings.NewReader(body)))
		var out Sync
		if w.Code == http.StatusOK {
			if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
				t.Fatal(err)
			}
		}
		return w.Code, out
	}
	if code, now := call("GET", ""); code != 200 || now.Suspected {
		t.Errorf("without a suspicion: %d %+v", code, now)
	}
	if code, _ := call("PUT", `{"digest":""}`); code != http.StatusConflict {
		t.Errorf("a confirmation of nothing: %d", code)
	}
	log.duty(log.lead(), nodesync.Suspect{Suspicion: nodesync.Suspicion{
		Reason: "Ironic's list lacks 36 of the 40 nodes", Missing: 36, Known: 40, Digest: "d1"}})
	if _, now := call("GET", ""); !now.Suspected || now.Missing != 36 || now.Known != 40 || now.Digest != "d1" ||
		now.Confirmed {
		t.Errorf("the suspicion shows as %+v", now)
	}
	if code, _ := call("PUT", `{"digest":"d2"}`); code != http.StatusConflict {
		t.Errorf("a confirmation of another list: %d", code)
	}
	if code, _ := call("PUT", `{"digest":"d1"}`); code != http.StatusNoContent {
		t.Errorf("the confirmation: %d", code)
	}
	if _, now := call("GET", ""); !now.Confirmed || now.Ports != nil {
		t.Errorf("after the confirmation: %+v", now)
	}
	log.duty(log.lead(), nodesync.Suspect{Suspicion: nodesync.Suspicion{
		Reason: "Ironic lists no ports at all", Missing: 7, Known: 7, Digest: "p1"}, Ports: true})
	if code, _ := call("PUT", `{"digest":"p1"}`); code != http.StatusNoContent {
		t.Errorf("the confirmation of a list of ports: %d", code)
	}
	if _, now := call("GET", ""); now.Ports == nil || now.Ports.Missing != 7 || !now.Ports.Confirmed {
		t.Errorf("the suspicion of ports shows as %+v", now.Ports)
	}
}
