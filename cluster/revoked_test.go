package cluster

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/fsm/operators"
)

// A certificate that was issued in the very second up to which an operator's are
// revoked is void, wherever it is judged; one of the next second is good.
func TestRevokedWithinTheSameSecond(t *testing.T) {
	f := newFixture(t)
	do := &doer{f: f}
	revoked := time.Now().Truncate(time.Second)
	if res, err := do.Do(t.Context(), "",
		operators.RevokeOperator{Name: "ann", UpTo: revoked.Unix(), Ends: revoked.Add(time.Hour).Unix()}); err != nil ||
		res.Err() != nil {
		t.Fatal(err, res.Err())
	}
	access := f.access(t, pki.PeerIdentity(clusterID, "h1", 1))
	access.Follow(seen{view: f.View()}, nil, Own{})
	operators := operatorsOnly(f.View, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	id := pki.OperatorIdentity(clusterID, "ann")
	for _, c := range []struct {
		name   string
		issued time.Time
		void   bool
	}{
		{"in the second before", revoked.Add(-time.Millisecond), true},
		{"at its begin", revoked, true},
		{"at its end", revoked.Add(time.Second - time.Millisecond), true},
		{"in the next", revoked.Add(time.Second), false},
	} {
		cred, err := Issue(f.ca, id, c.issued, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		issued := pki.IssuedAt(cred.Leaf)
		if err := access.refuses(id, issued); (err != nil) != c.void {
			t.Errorf("same-second: a connection with a certificate issued %s: %v", c.name, err)
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cred.Leaf}}
		w := httptest.NewRecorder()
		operators.ServeHTTP(w, r)
		if got := w.Code == http.StatusUnauthorized; got != c.void {
			t.Errorf("same-second: a call with a certificate issued %s is answered %d", c.name, w.Code)
		}
	}
}
