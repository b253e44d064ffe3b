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

func TestNames(t *testing.T) {
	peer, operator := pki.PeerIdentity(clusterA, "p1", 2), pki.OperatorIdentity(clusterA, "ann")
	if peer.String() != "peer p1" || operator.String() != "operator ann" || pki.Role(9).String() != "role 9" {
		t.Errorf("%v, %v, %v", peer, operator, pki.Role(9))
	}
	if got, want := peer.URI().String(), "trivet://"+clusterA+"/peer/p1?incarnation=2"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
