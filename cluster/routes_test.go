package cluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// asker returns a function that asks as a peer, or as a stranger for "".
func (f *fixture) asker(t *testing.T, h http.Handler, peer string) func(method, path string) int {
	t.Helper()
	var shown []*x509.Certificate
	if peer != "" {
		shown = append(shown, f.end(t, pki.PeerIdentity(clusterID, peer, 1)).Credentials().Leaf)
	}
	return func(method, path string) int {
		r := httptest.NewRequest(method, path, http.NoBody)
		r.TLS = &tls.ConnectionState{PeerCertificates: shown}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
}

// Who has proved nothing is asked for a certificate, 401; who has proved to be of another
// role may not, 403, whatever else it shows.
func TestRolesAreForbiddenNotUnknown(t *testing.T) {
	f := newFixture(t)
	nothing := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	roles := map[string]pki.Identity{"peer": pki.PeerIdentity(clusterID, "h1", 1),
		"operator": pki.OperatorIdentity(clusterID, "ann")}
	for route, c := range map[string]struct {
		handler http.Handler
		role    string
	}{
		"peers'":     {membersOnly(&served{view: f.state.View(), leads: true}, nothing), "peer"},
		"operators'": {operatorsOnly(f.View, nothing), "operator"},
		"a move":     {MoveHandler(&doer{f: f}), "peer"},
	} {
		for role, id := range roles {
			cred, err := Issue(f.ca, id, time.Now(), rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			for proved, chain := range map[bool][]*x509.Certificate{true: {cred.Leaf}, false: nil} {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/",
					strings.NewReader(`{"address":"h1.example:1","gossip":"h1.example:2"}`))
				r.TLS = &tls.ConnectionState{PeerCertificates: chain}
				w := httptest.NewRecorder()
				c.handler.ServeHTTP(w, r)
				want := http.StatusForbidden
				if !proved {
					want = http.StatusUnauthorized
				}
				if refused := !proved || role != c.role; refused && w.Code != want || !refused && w.Code/100 != 2 {
					t.Errorf("wrong-role: %s route: %s, proved %t: %d %s", route, role, proved, w.Code, w.Body)
				}
			}
		}
	}
}

// A peer that asks without end has its share, of each kind of question, from however
// many connections. What others ask is answered at once, and what strangers ask takes
// nothing.
func TestOnePeerLeavesPlacesForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		do := &doer{f: f}
		if _, err := do.Do(t.Context(), "",
			membership.PutMember{Member: membership.Member{ID: "h2", Name: "h2", Address: "h2.example:1",
				Version: fsm.Version}}); err != nil {
			t.Fatal(err)
		}
		release := make(chan struct{})
		var under atomic.Int64
		hang := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			under.Add(1)
			<-release // in a bubble
		})
		routes := NewRoutes(&served{view: f.state.View(), leads: true}, admission.NewController())
		paths := map[admission.Class]string{admission.Request: "/request", admission.Dear: "/dear",
			admission.Stream: "/stream"}
		for class, path := range paths {
			routes.Members(class, "GET "+path, hang)
			routes.Members(class, "GET "+path+"/answered", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		}
		first, second, stranger := f.asker(t, routes, "h1"), f.asker(t, routes, "h2"), f.asker(t, routes, "")
		var all sync.WaitGroup
		for class, path := range paths {
			before := under.Load()
			for range 500 {
				all.Go(func() { first("GET", path) })
				if code := stranger("GET", path); code != http.StatusUnauthorized {
					t.Fatalf("peer-share: a stranger is answered %d", code)
				}
			}
			synctest.Wait()
			if n := under.Load() - before; n > 96 {
				t.Errorf("peer-share: %d questions of class %v of one peer are under way", n, class)
			}
			began := time.Now()
			if code := second("GET", path+"/answered"); code != http.StatusOK || time.Since(began) != 0 {
				t.Errorf("peer-share: another peer's question of class %v is answered %d after %v", class, code, time.Since(began))
			}
		}
		close(release)
		all.Wait()
	})
}

// unhurried is an answer whose request may take its time.
type unhurried struct{ *httptest.ResponseRecorder }

func (unhurried) SetReadDeadline(time.Time) error { return nil }

// held is a log that commits nothing until it is told to.
type held struct {
	*doer
	release <-chan struct{}
	under   atomic.Int64
}

func (h *held) Do(ctx context.Context, client string, c fsm.Command) (fsm.Result, error) {
	h.under.Add(1)
	<-h.release // in a bubble
	return h.doer.Do(ctx, client, c)
}

// Joins wait for each other: some are under way at once, the others come after them.
func TestJoinsWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		release := make(chan struct{})
		do := &held{doer: &doer{f: f}, release: release}
		routes := NewRoutes(&served{view: f.state.View(), leads: true}, admission.NewController())
		routes.Joiners(PathJoin, NewAdmission(routes.by, do, f, time.Now, rand.Reader, slog.New(slog.DiscardHandler), nil))
		key, err := pki.NewKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for _, name := range []string{"h2", "h3", "h4", "h5", "h6", "h7"} {
			body, err := joiner(name).request(key, f.token)
			if err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				w := unhurried{httptest.NewRecorder()}
				routes.ServeHTTP(w, httptest.NewRequest("POST", PathJoin, bytes.NewReader(body)))
				if w.Code != http.StatusOK {
					t.Errorf("join-places: the join of %s: %d %s", name, w.Code, w.Body)
				}
			})
		}
		synctest.Wait()
		if n := do.under.Load(); n == 0 || n > 4 {
			t.Errorf("join-places: %d joins are under way at once", n)
		}
		close(release)
		all.Wait()
	})
}
