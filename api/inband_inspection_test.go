package api

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/raftstore/logerr"
)

func TestInbandInspection(t *testing.T) {
	f := &fake{}
	w := answer(t, public(f, NoAuth()), "POST", pathInbandInspection+"?node_uuid="+node, `{"a":1}`,
		"X-OpenStack-Ironic-API-Version", "1.84")
	if w.Code != http.StatusAccepted || w.Body.String() != `{"uuid":"`+node+`"}` {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	answer(t, public(f, NoAuth()), "POST", pathInbandInspection, `{"b":1}`, "OpenStack-API-Version", "baremetal latest")
	answer(t, public(f, NoAuth()), "POST", pathInbandInspection, `{"c":1}`)
	const source = "192.0.2.1/32" // of httptest's requests
	want := `[{{"a":1} ` + node + ` 1.84 ` + source + `} {{"b":1}  latest ` + source + `} {{"c":1}   ` + source + `}]`
	if got := fmt.Sprintf("%s", f.successor); got != want {
		t.Errorf("asked %s, want %s", got, want)
	}
}

// Whoever calls there knows Ironic's shape of errors, whatever they are about.
func TestInbandInspectionRefusesAsIronicDoes(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		body   string
	}{
		{&inspector.Refusal{Status: 404, Message: `no "node"`}, 404,
			`{"error_message":"{\"faultstring\":\"no \\\"node\\\"\",\"faultcode\":\"Client\",\"debuginfo\":null}"}`},
		{logerr.ErrNoLeader, 503, `\"faultcode\":\"Server\"`},
		{errors.New("the disk is blue"), 500, `\"faultstring\":\"Internal server error\"`},
	} {
		w := answer(t, public(&fake{err: c.err}, NoAuth()), "POST", pathInbandInspection, `{}`)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.body) {
			t.Errorf("%v: %d %s", c.err, w.Code, w.Body)
		}
		if again := w.Header().Get("Retry-After"); (again != "") != (c.status == 503) {
			t.Errorf("%v: Retry-After %q", c.err, again)
		}
	}
	w := answer(t, public(&fake{}, NoAuth()), "POST", pathInbandInspection, strings.Repeat("x", MaxDocument+1))
	if w.Code != http.StatusRequestEntityTooLarge || !strings.Contains(w.Body.String(), "faultstring") {
		t.Errorf("too large: %d %s", w.Code, w.Body)
	}
}

// Without it the path is one that the original does not have.
func TestInbandInspectionIsOff(t *testing.T) {
	w := send((&Inspector{Service: &fake{}, Auth: NoAuth()}).Handler(), "POST", pathInbandInspection, `{}`)
	if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), `"error"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestInbandInspectionCountsWithCallbacks: one source has one allowance for both, and what
// is over it for too long is refused in Ironic's shape.
func TestInbandInspectionCountsWithCallbacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		h := (&Inspector{Service: f, Inband: f, Auth: NoAuth(), Callbacks: CallbackLimit{Rate: 1, Burst: 1},
			Logger: slog.New(slog.DiscardHandler)}).Handler()
		if w := callFrom(h, "192.0.2.7:1"); w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		var calling sync.WaitGroup
		for range 50 {
			calling.Go(func() {
				r := httptest.NewRequest("POST", pathInbandInspection, strings.NewReader("{}"))
				r.RemoteAddr = "192.0.2.7:2"
				w := httptest.NewRecorder()
				began := time.Now()
				h.ServeHTTP(w, r)
				if w.Code == http.StatusAccepted && time.Since(began) > 0 {
					return
				}
				if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" ||
					!strings.Contains(w.Body.String(), "error_message") {
					t.Errorf("%d %s after %v", w.Code, w.Body, time.Since(began))
				}
			})
		}
		calling.Wait()
	})
}
