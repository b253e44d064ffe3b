package web

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// silent is a body that never comes.
type silent struct{ over <-chan struct{} }

func (s silent) Read([]byte) (int, error) {
	<-s.over // in a bubble
	return 0, io.ErrUnexpectedEOF
}

// pondering is a guard that judges no credentials before the end of the test.
type pondering struct {
	Guard
	over <-chan struct{}
}

func (p pondering) Caller(*http.Request) (api.Caller, bool, error) {
	<-p.over // in a bubble
	return api.Caller{}, false, &api.Error{Status: http.StatusUnauthorized}
}

// While a handler waits for its caller's body, or for a verdict on credentials, it holds no
// place: callers without credentials would keep others from what they ask.
func TestThoseWhoWaitAtThePageHoldNoPlace(t *testing.T) {
	type asked struct{ method, path, body string }
	var all []asked
	paths := []string{"session", "machines", "findings", "v1/status", "v1/transfer", "v1/maintenance", "v1/failover/pause"}
	for _, path := range paths {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
			path := "/ui/api/" + path
			all = append(all, asked{method, path, ""}, asked{method, path, `{"user":"root","password":"wrong"}`})
		}
	}
	synctest.Test(t, func(t *testing.T) {
		s := open(t, "noauth")
		over := make(chan struct{})
		s.o.Guard, s.o.Public = pondering{s.o.Guard, over}, http.NotFoundHandler()
		for _, a := range all {
			for n := range 300 {
				r := httptest.NewRequest(a.method, a.path, silent{over})
				if a.body != "" {
					r = httptest.NewRequest(a.method, a.path, strings.NewReader(a.body))
				}
				r.RemoteAddr = []string{"192.0.2.1:1", "192.0.2.2:1"}[n%2]
				if token, err := s.csrf(r); err == nil {
					r.Header.Set(csrfHeader, token)
				}
				go s.ServeHTTP(httptest.NewRecorder(), r)
			}
			synctest.Wait()
			for class := admission.Callback; class <= admission.Probe; class++ {
				if in, waiting := s.o.Admission.Taken(class); in+waiting != 0 {
					t.Errorf("page-waits: %s %s: %d are in and %d wait for class %v", a.method, a.path, in, waiting, class)
				}
			}
		}
		if held := s.o.Admission.Bodies().Held(); held > int64(len(all))*300*(maxLogin+1) {
			t.Errorf("page-waits: %d bytes are held for bodies that do not come", held)
		}
		close(over)
		synctest.Wait()
		if held := s.o.Admission.Bodies().Held(); held != 0 {
			t.Errorf("page-waits: %d bytes are held by none", held)
		}
		time.Sleep(time.Minute) // in a bubble
	})
}
