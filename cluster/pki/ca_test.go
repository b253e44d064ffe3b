package pki_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/cluster/pki"
)

var start = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func foundCA(t *testing.T) *pki.CA {
	t.Helper()
	ca, err := pki.NewCA(clusterA, start, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := pki.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestCAReadsBack(t *testing.T) {
	ca := foundCA(t)
	key, err := ca.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	again, err := pki.ParseCA(ca.CertPEM(), key)
	if err != nil {
		t.Fatal(err)
	}
	if again.Hash() != ca.Hash() || ca.Hash() != sha256.Sum256(ca.Certificate().Raw) {
		t.Error("another CA was read back")
	}
	if c := ca.Certificate(); c.NotAfter != start.Add(pki.CATTL) || c.NotBefore.After(start.Add(-300*24*time.Hour)) {
		t.Errorf("valid from %v to %v", c.NotBefore, c.NotAfter)
	}
	leaf := issue(t, again, pki.PeerIdentity(clusterA, "p1", 3), start, pki.PeerTTL)
	if err := leaf.Leaf.CheckSignatureFrom(ca.Certificate()); err != nil {
		t.Error(err)
	}
}

func TestCARefusals(t *testing.T) {
	ca, other := foundCA(t), foundCA(t)
	otherKey, err := other.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	leaf := issue(t, ca, pki.PeerIdentity(clusterA, "p1", 1), start, pki.PeerTTL)
	leafKey, err := pki.EncodeKey(leaf.Key)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ cert, key []byte }{
		"another's key":   {ca.CertPEM(), otherKey},
		"a leaf":          {pki.EncodeCertificate(leaf.Leaf), leafKey},
		"nothing":         {nil, nil},
		"swapped":         {otherKey, ca.CertPEM()},
		"two in one file": {append(ca.CertPEM(), ca.CertPEM()...), otherKey},
		"too much":        {bytes.Repeat([]byte("\n"), 1<<20), otherKey},
	} {
		if _, err := pki.ParseCA(test.cert, test.key); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for _, cluster := range []string{"", "a b", "a/b", "..", strings.Repeat("a", 65)} {
		if _, err := pki.NewCA(cluster, start, rand.Reader); err == nil {
			t.Errorf("CA of cluster %q", cluster)
		}
	}
}

func TestSignRefusals(t *testing.T) {
	ca := foundCA(t)
	pub := &newKey(t).PublicKey
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	good := func() pki.Order {
		return pki.Order{Identity: pki.PeerIdentity(clusterA, "p1", 1), PublicKey: pub, TTL: time.Hour}
	}
	if _, err := ca.Sign(rand.Reader, start, good()); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*pki.Order){
		"another cluster":     func(o *pki.Order) { o.Identity.Cluster = clusterB },
		"no name":             func(o *pki.Order) { o.Identity.Peer = "" },
		"a slash in the name": func(o *pki.Order) { o.Identity.Peer = "a/b" },
		"a query in the name": func(o *pki.Order) { o.Identity.Peer = "a?incarnation=9" },
		"no role":             func(o *pki.Order) { o.Identity.Role = 0 },
		"both roles":          func(o *pki.Order) { o.Identity.Operator = "ann" },
		"API, incarnation": func(o *pki.Order) {
			o.Identity = pki.APIIdentity(clusterA, "p1")
			o.Identity.Incarnation = 1
		},
		"API, operator": func(o *pki.Order) {
			o.Identity = pki.APIIdentity(clusterA, "p1")
			o.Identity.Operator = "ann"
		},
		"operator, incarnation": func(o *pki.Order) {
			o.Identity = pki.OperatorIdentity(clusterA, "ann")
			o.Identity.Incarnation = 1
		},
		"no key":        func(o *pki.Order) { o.PublicKey = nil },
		"another curve": func(o *pki.Order) { o.PublicKey = &p384.PublicKey },
		"no life":       func(o *pki.Order) { o.TTL = 0 },
		"a long life":   func(o *pki.Order) { o.TTL = pki.MaxTTL + 1 },
		"many names":    func(o *pki.Order) { o.Names = make([]string, 33) },
	} {
		order := good()
		change(&order)
		if _, err := ca.Sign(rand.Reader, start, order); err == nil {
			t.Errorf("%s: signed", name)
		}
	}
	var validity *pki.ValidityError
	if _, err := ca.Sign(rand.Reader, start.Add(pki.CATTL), good()); !errors.As(err, &validity) {
		t.Errorf("an expired CA signs: %v", err)
	}
	if _, err := ca.Sign(bytes.NewReader(nil), start, good()); err == nil {
		t.Error("signed without randomness")
	}
}

func TestLeafValidity(t *testing.T) {
	ca := foundCA(t)
	leaf := issue(t, ca, pki.PeerIdentity(clusterA, "p1", 1), start, pki.PeerTTL).Leaf
	if leaf.NotBefore != start.Add(-pki.Backdate) || leaf.NotAfter != start.Add(pki.PeerTTL) {
		t.Errorf("valid from %v to %v", leaf.NotBefore, leaf.NotAfter)
	}
	for after, want := range map[time.Duration]bool{
		0: false, 20*24*time.Hour - time.Second: false, 20 * 24 * time.Hour: true, 40 * 24 * time.Hour: true,
	} {
		if got := pki.NeedsRenewal(leaf, start.Add(after)); got != want {
			t.Errorf("after %v: renewal due is %v", after, got)
		}
	}
	if !pki.NeedsRenewal(leaf, leaf.NotBefore.Add(-time.Second)) {
		t.Error("a certificate that has not begun needs no renewal")
	}
	last := issue(t, ca, pki.PeerIdentity(clusterA, "p1", 1), start.Add(pki.CATTL-time.Hour), pki.PeerTTL).Leaf
	if last.NotAfter != ca.Certificate().NotAfter {
		t.Errorf("a leaf ends %v, its CA %v", last.NotAfter, ca.Certificate().NotAfter)
	}
}

// A file whose block holds no certificate is refused: nil would be what the caller trusts.
func TestCertificateThatIsNone(t *testing.T) {
	good := pki.EncodeCertificate(foundCA(t).Certificate())
	block, _ := pem.Decode(good)
	block.Bytes = block.Bytes[:len(block.Bytes)-1]
	for name, text := range map[string][]byte{"cut short": pem.EncodeToMemory(block), "two": append(good, good...),
		"none": nil} {
		if cert, err := pki.ParseCertificate(text); err == nil || cert != nil {
			t.Errorf("%s: %v, %v", name, cert, err)
		}
	}
}

// TestForeignClientsCanCheckToo verifies with the standard library alone, as
// curl --cacert would.
func TestForeignClientsCanCheckToo(t *testing.T) {
	ca := foundCA(t)
	key := newKey(t)
	text, err := ca.Sign(rand.Reader, start,
		pki.Order{Identity: pki.PeerIdentity(clusterA, "p1", 1), PublicKey: &key.PublicKey,
			TTL: pki.PeerTTL, Names: []string{"h1.example.org", "192.0.2.1", "2001:db8::1"}})
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := pki.ParseCertificate(text)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.Certificate())
	for _, name := range []string{"h1.example.org", "192.0.2.1", "2001:db8::1"} {
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: start, DNSName: name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestIdentityReadsBack(t *testing.T) {
	ca := foundCA(t)
	for _, id := range []pki.Identity{
		pki.PeerIdentity(clusterA, "0197c9a2-7b1f-7c3e-9f3a-0d5b1e0f7a11", 1),
		pki.PeerIdentity(clusterA, "h1", 0),
		pki.PeerIdentity(clusterA, "h1", 1<<64-1),
		pki.OperatorIdentity(clusterA, "ann.k_8-x"),
		pki.APIIdentity(clusterA, "h1"),
	} {
		got, err := pki.IdentityOf(issue(t, ca, id, start, time.Hour).Leaf)
		if err != nil || got != id {
			t.Errorf("%+v reads back as %+v: %v", id, got, err)
		}
	}
}

func TestCredentialsReadBack(t *testing.T) {
	ca := foundCA(t)
	c := issue(t, ca, pki.PeerIdentity(clusterA, "p1", 4), start, pki.PeerTTL)
	text, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := pki.ParseCredentials(text)
	if err != nil {
		t.Fatal(err)
	}
	if again.Identity != c.Identity || !again.Leaf.Equal(c.Leaf) || !again.CA.Equal(c.CA) || !again.Key.Equal(c.Key) {
		t.Errorf("%+v reads back as %+v", c, again)
	}
}

func TestCredentialsRefusals(t *testing.T) {
	ca, forged := foundCA(t), foundCA(t)
	c := issue(t, ca, pki.PeerIdentity(clusterA, "p1", 1), start, pki.PeerTTL)
	text, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	key, err := pki.EncodeKey(c.Key)
	if err != nil {
		t.Fatal(err)
	}
	otherKey, err := pki.EncodeKey(newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	leaf, caPEM := pki.EncodeCertificate(c.Leaf), ca.CertPEM()
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	for name, bad := range map[string][]byte{
		"nothing":       nil,
		"half":          text[:len(text)/2],
		"no key":        join(leaf, caPEM),
		"key first":     join(key, leaf, caPEM),
		"another's key": join(leaf, caPEM, otherKey),
		"another CA":    join(leaf, forged.CertPEM(), key),
		"CA and leaf":   join(caPEM, leaf, key),
		"a tail":        join(text, leaf),
		"too much":      join(text, bytes.Repeat([]byte("\n"), 1<<17)),
	} {
		if _, err := pki.ParseCredentials(bad); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for i := range text { // a flipped bit anywhere is refused, or harmless
		bad := bytes.Clone(text)
		bad[i] ^= 1
		if got, err := pki.ParseCredentials(bad); err == nil && got.Identity != c.Identity {
			t.Fatalf("byte %d flipped gives %v", i, got.Identity)
		}
	}
}

func TestRequests(t *testing.T) {
	key := newKey(t)
	request, err := pki.NewRequest(rand.Reader, key)
	if err != nil {
		t.Fatal(err)
	}
	pub, err := pki.ParseRequest(request)
	if err != nil || !pub.Equal(&key.PublicKey) {
		t.Fatalf("%v", err)
	}
	block, _ := pem.Decode(request)
	block.Bytes[len(block.Bytes)-1] ^= 1
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := pki.NewRequest(rand.Reader, p384)
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string][]byte{
		"not signed by its key": pem.EncodeToMemory(block),
		"another curve":         other,
		"a certificate":         foundCA(t).CertPEM(),
		"nothing":               nil,
	} {
		if _, err := pki.ParseRequest(bad); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestKeysReadBack(t *testing.T) {
	key := newKey(t)
	text, err := pki.EncodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	again, err := pki.ParseKey(text)
	if err != nil || !again.Equal(key) {
		t.Errorf("%v", err)
	}
}

// TestKeysOfOtherKindsAreRefused: the cluster has one kind of key.
func TestKeysOfOtherKindsAreRefused(t *testing.T) {
	wide, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []any{wide, edwards} {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
		if _, err := pki.ParseKey(text); err == nil || !strings.Contains(err.Error(), "P-256") {
			t.Errorf("a %T: %v", key, err)
		}
	}
}
