package admin

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/inspector/accept"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// silent is a body that never comes.
type silent struct{ over <-chan struct{} }

func (s silent) Read([]byte) (int, error) {
	<-s.over // in a bubble
	return 0, io.ErrUnexpectedEOF
}

// noImport takes nothing over.
type noImport struct{}

func (noImport) ImportRecord(context.Context, accept.Foreign, bool) (accept.Import, error) {
	return accept.Import{}, nil
}

func (noImport) ImportRule(context.Context, string, []byte, bool) (accept.Import, error) {
	return accept.Import{}, nil
}

// Operators whose bodies do not come keep no places from others.
func TestSlowBodiesOfOperatorsHoldNoPlace(t *testing.T) {
	for _, route := range [][2]string{
		{"PUT", "/v1/settings/k"}, {"POST", "/v1/tokens"}, {"PUT", "/v1/maintenance"}, {"POST", "/v1/drill"},
		{"PUT", "/v1/members/h2/address"}, {"POST", "/v1/failover/pause"},
		{"POST", pathImportRecords}, {"POST", pathImportRules},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := &Control{
				State: State{Do: doing{res: fsm.Result{Code: fsm.OK}}}, Import: noImport{},
				Admission: admission.NewController(), Logger: slog.New(slog.DiscardHandler),
			}
			h, over := c.Handler(), make(chan struct{})
			for n := range 300 {
				r := httptest.NewRequest(route[0], route[1], silent{over})
				r.RemoteAddr = []string{"192.0.2.1:1", "192.0.2.2:1", "@"}[n%3] // the last one is on the socket
				go h.ServeHTTP(httptest.NewRecorder(), r)
			}
			synctest.Wait()
			for class := admission.Callback; class <= admission.Probe; class++ {
				if in, waiting := c.Admission.Taken(class); in+waiting != 0 {
					t.Errorf("control-waits: %v: %d are in and %d wait for class %v", route, in, waiting, class)
				}
			}
			for _, from := range []string{"192.0.2.3:1", "@"} {
				r := httptest.NewRequest("GET", "/v1/nothing", http.NoBody)
				r.RemoteAddr = from
				w, began := httptest.NewRecorder(), time.Now()
				h.ServeHTTP(w, r)
				if took := time.Since(began); w.Code != http.StatusNotFound || took > 0 {
					t.Errorf("control-waits: %v: another request from %s: %d after %v", route, from, w.Code, took)
				}
			}
			close(over)
			time.Sleep(time.Minute) // in a bubble
			if held := c.Admission.Bodies().Held(); held != 0 {
				t.Errorf("control-waits: %v: %d bytes are held by none", route, held)
			}
		})
	}
}
