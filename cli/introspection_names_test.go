package cli

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/cli/term"
)

// TestListShowsNames: one by one for a few nodes, by one list for many.
func TestListShowsNames(t *testing.T) {
	for nodes, asked := range map[int]string{3: "GET /v1/nodes/", 50: "GET /v1/nodes"} {
		virtual(t, func(t *testing.T) {
			api := newFakeAPI()
			for i := range nodes {
				api.add(fmt.Sprint("name", i), time.Hour)
			}
			s := trivetOn(t.Context(), hosts{"127.0.0.1:5050": api}, "", "introspection", "list")
			s.want(t, term.ExitOK)
			if lines := strings.Count(s.out, " name"); lines != nodes {
				t.Errorf("%d names in\n%s", lines, s.out)
			}
			if n := api.count(asked); n != min(nodes, 1) && n != nodes || nodes == 50 && n != 1 {
				t.Errorf("%d nodes: %d questions for names", nodes, n)
			}
		})
	}
}

// TestNamesHoldNothingUp: while Ironic is away, or takes its time, a list comes
// without names, within seconds, and says so.
func TestNamesHoldNothingUp(t *testing.T) {
	for name, before := range map[string]func(w http.ResponseWriter, r *http.Request) bool{
		"away": func(w http.ResponseWriter, r *http.Request) bool {
			return strings.HasPrefix(r.URL.Path, "/v1/nodes") && unavailable(w, r)
		},
		"silent": func(_ http.ResponseWriter, r *http.Request) bool {
			if !strings.HasPrefix(r.URL.Path, "/v1/nodes") {
				return false
			}
			<-r.Context().Done()
			panic(http.ErrAbortHandler)
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				api := newFakeAPI()
				api.add("n1", time.Hour)
				api.before = before
				began := time.Now()
				s := trivetOn(t.Context(), hosts{"127.0.0.1:5050": api}, "", "introspection", "list")
				s.want(t, term.ExitOK, "trivet: warning: names of nodes are missing: ")
				if !strings.Contains(s.out, id("n1")+"  -     finished") {
					t.Errorf("printed\n%s", s.out)
				}
				if took := time.Since(began); took > 4*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// TestOlderServerHasNoNames: a peer of before, which answers 404, is no reason to
// warn.
func TestOlderServerHasNoNames(t *testing.T) {
	virtual(t, func(t *testing.T) {
		api := newFakeAPI()
		for i := range 20 {
			api.add(fmt.Sprint("n", i), time.Hour)
		}
		api.before = func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasPrefix(r.URL.Path, "/v1/nodes") {
				return false
			}
			say(w, http.StatusNotFound, "404 Not Found")
			return true
		}
		s := trivetOn(t.Context(), hosts{"127.0.0.1:5050": api}, "", "introspection", "list")
		s.want(t, term.ExitOK)
		if s.talk != "" {
			t.Errorf("it said %q", s.talk)
		}
	})
}
