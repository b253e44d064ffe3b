package simironic

import (
	"net/http"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Fault makes some calls go wrong. The zero value of each field does nothing;
// a fault with only a Delay is a slow Ironic.
type Fault struct {
	Method string         // "" means any
	Path   *regexp.Regexp // matched against path and query; nil means any
	Skip   int            // so many matching calls are spared first
	Count  int            // so many are struck then; 0 means all
	Delay  time.Duration  // before anything else, ended early by the client
	Status int            // answered instead; 0 lets the call through
	Body   string         // of that answer, as it is; "" is Ironic's own with "injected"
	Cut    bool           // the connection is cut in the place of an answer
}

// faults are those in force. The first one that matches a call strikes it.
type faults struct {
	any  atomic.Bool // spares the lock while there are none
	mu   sync.Mutex
	list []Fault
}

// Inject puts the faults in force in the place of all earlier ones.
func (s *Server) Inject(list ...Fault) {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.list = slices.Clone(list)
	s.faults.any.Store(len(list) > 0)
}

// next takes one strike from the fault that matches r.
func (f *faults) next(r *http.Request) (Fault, bool) {
	if !f.any.Load() {
		return Fault{}, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.list {
		fault := &f.list[i]
		if !fault.matches(r) {
			continue
		}
		if fault.Skip > 0 {
			fault.Skip--
			return Fault{}, false
		}
		hit := *fault
		if fault.Count == 1 {
			f.list = slices.Delete(f.list, i, i+1)
			f.any.Store(len(f.list) > 0)
		} else if fault.Count > 1 {
			fault.Count--
		}
		return hit, true
	}
	return Fault{}, false
}

func (f *Fault) matches(r *http.Request) bool {
	return (f.Method == "" || f.Method == r.Method) && (f.Path == nil || f.Path.MatchString(r.URL.RequestURI()))
}

// strike reports whether a fault answered the call.
func (f *faults) strike(w http.ResponseWriter, r *http.Request) bool {
	fault, hit := f.next(r)
	if !hit {
		return false
	}
	if fault.Delay > 0 {
		timer := time.NewTimer(fault.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return true
		}
	}
	if fault.Cut {
		panic(http.ErrAbortHandler)
	}
	if fault.Status == 0 {
		return false
	}
	body := []byte(fault.Body)
	if fault.Body == "" {
		body = errorBody(fault.Status, "injected")
	}
	writeBody(w, fault.Status, body)
	return true
}
