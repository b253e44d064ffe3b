package pki_test

import (
	"crypto/x509"
	"net/url"
	"testing"

	"github.com/trivet-ha/trivet/cluster/pki"
)

// TestIdentityHasOneSpelling: whatever is not word for word what Sign writes is
// nobody, so that no two programs can read one certificate differently.
func TestIdentityHasOneSpelling(t *testing.T) {
	base := "trivet://" + clusterA
	for _, bad := range [][]string{
		nil,
		{"https://example.org/"},
		{base + "/peer/p1"},
		{base + "/peer/p1?incarnation="},
		{base + "/peer/p1?incarnation=01"},
		{base + "/peer/p1?incarnation=-1"},
		{base + "/peer/p1?incarnation=1&incarnation=2"},
		{base + "/peer/p1?incarnation=1#x"},
		{base + "/peer/?incarnation=1"},
		{base + "/peer/a/b?incarnation=1"},
		{base + "/peer/%2e%2e?incarnation=1"},
		{base + "/peer/p%31?incarnation=1"},
		{base + "//peer/p1?incarnation=1"},
		{"trivet://u@" + clusterA + "/peer/p1?incarnation=1"},
		{"trivet:///peer/p1?incarnation=1"},
		{base + "/operator/ann?incarnation=1"},
		{base + "/operator/"},
		{base + "/admin/ann"},
		{base + "/ca"},
		{base + "/peer/p1?incarnation=1", base + "/operator/ann"},
	} {
		cert := new(x509.Certificate)
		for _, text := range bad {
			u, err := url.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			cert.URIs = append(cert.URIs, u)
		}
		if id, err := pki.IdentityOf(cert); err == nil {
			t.Errorf("%q is %+v", bad, id)
		}
	}
}

// TestIdentityOfNoOneIsRefused: what no certificate may say is refused before one is made.
func TestIdentityOfNoOneIsRefused(t *testing.T) {
	for why, id := range map[string]pki.Identity{
		"no cluster":                 pki.PeerIdentity("", "p1", 1),
		"no peer":                    pki.PeerIdentity(clusterA, "", 1),
		"no operator":                pki.OperatorIdentity(clusterA, ""),
		"a role of no one":           {Cluster: clusterA, Role: 9, Peer: "p1"},
		"a peer and an operator":     {Cluster: clusterA, Role: pki.RolePeer, Peer: "p1", Operator: "ann"},
		"an operator and a peer":     {Cluster: clusterA, Role: pki.RoleOperator, Peer: "p1", Operator: "ann"},
		"an operator's incarnation":  {Cluster: clusterA, Role: pki.RoleOperator, Operator: "ann", Incarnation: 1},
		"an incarnation of the API":  {Cluster: clusterA, Role: pki.RoleAPI, Peer: "p1", Incarnation: 1},
		"a peer that is a directory": pki.PeerIdentity(clusterA, "..", 1),
	} {
		if err := id.Validate(); err == nil {
			t.Errorf("%s: %v is taken", why, id)
		}
	}
}

func TestNames(t *testing.T) {
	peer, operator := pki.PeerIdentity(clusterA, "p1", 2), pki.OperatorIdentity(clusterA, "ann")
	if peer.String() != "peer p1" || operator.String() != "operator ann" || pki.Role(9).String() != "role 9" {
		t.Errorf("%v, %v, %v", peer, operator, pki.Role(9))
	}
	if got, want := peer.URI().String(), "trivet://"+clusterA+"/peer/p1?incarnation=2"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
