package api

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/internal/bounds"
	"github.com/trivet-ha/trivet/test/testwait"
)

// listening serves h over TLS on a real listener and returns its address.
func listening(t *testing.T, h http.Handler, get Certificates) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: h, TLSConfig: TLS(get), Protocols: new(http.Protocols),
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)}
	srv.Protocols.SetHTTP1(true)
	served := make(chan error, 1)
	go func() { served <- srv.ServeTLS(ln, "", "") }()
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		testwait.Receive(t, served, "the server ends")
	})
	return ln.Addr().String()
}

// fetch asks over TLS for a path, as a client that trusts one CA, and returns the
// body and who answered.
func fetch(address, path string, ca *x509.Certificate, conf *tls.Config, headers ...string) (string, *x509.Certificate,
	error) {
	conf.RootCAs = x509.NewCertPool()
	conf.RootCAs.AddCert(ca)
	transport := &http.Transport{TLSClientConfig: conf, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequest("GET", "https://"+address+path, nil)
	if err != nil {
		return "", nil, err
	}
	for n := 0; n+1 < len(headers); n += 2 {
		r.Header.Set(headers[n], headers[n+1])
	}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return "", nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if resp.ProtoMajor != 1 {
		return "", nil, fmt.Errorf("answered in %s", resp.Proto)
	}
	return string(body), resp.TLS.PeerCertificates[0], err
}

// ownPair is a certificate that signs itself, and its key, in PEM.
func ownPair(t *testing.T, serial int64) (cert, key []byte, parsed *x509.Certificate) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}, &x509.Certificate{SerialNumber: big.NewInt(serial)}, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	if parsed, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	if key, err = pki.EncodeKey(private); err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key, parsed
}

// TestCertificateFilesAreReadAgain replaces the files as a person or certbot
// would, one after the other, while clients come.
func TestCertificateFilesAreReadAgain(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	oldCert, oldKey, old := ownPair(t, 1)
	newCert, newKey, fresh := ownPair(t, 2)
	write(t, certFile, string(oldCert))
	write(t, keyFile, string(oldKey))
	var logged bytes.Buffer
	files, err := OpenCertificateFiles(certFile, keyFile, slog.New(slog.NewTextHandler(&logged, nil)))
	if err != nil {
		t.Fatal(err)
	}
	address := listening(t, public(&fake{}, NoAuth()), files.Get)
	shows := func(when string, want *x509.Certificate) {
		t.Helper()
		files.mu.Lock()
		files.next = time.Time{} // a second has passed
		files.mu.Unlock()
		if _, got, err := fetch(address, "/v1", want, &tls.Config{}); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v", when, err)
		}
	}
	shows("at first", old)
	write(t, certFile, string(newCert))
	shows("while the key is still the old one", old)
	shows("and again", old)
	if n := strings.Count(logged.String(), "level=ERROR"); n != 1 {
		t.Errorf("the failure was logged %d times: %s", n, logged.String())
	}
	if err := os.Remove(keyFile); err != nil {
		t.Fatal(err)
	}
	shows("while there is no key", old)
	write(t, keyFile, string(newKey))
	shows("when both are there", fresh)
	write(t, keyFile, "nonsense")
	shows("while the key is nonsense", fresh)
	if n := strings.Count(logged.String(), "level=ERROR"); n != 2 {
		t.Errorf("a second failure: %d lines: %s", n, logged.String())
	}
	for name, args := range map[string][2]string{"no such file": {certFile, dir + "/none"},
		"nonsense": {certFile, keyFile}} {
		if _, err := OpenCertificateFiles(args[0], args[1], slog.New(slog.DiscardHandler)); err == nil ||
			!strings.Contains(err.Error(), "api.tls.cert_file") || !strings.Contains(err.Error(), args[1]) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// testCluster is the ID of the cluster in these tests.
const testCluster = "5f0c1f3e-0000-4000-8000-000000000001"

// foundedBy is the state of a cluster with this CA.
func foundedBy(t *testing.T, ca *pki.CA) *fsm.State {
	t.Helper()
	key, err := ca.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	state, err := fsm.Founded(fsm.Found{
		ClusterID: testCluster, CACert: ca.CertPEM(), CAKey: key, GossipKey: make([]byte, 32),
		Member: membership.Member{ID: "p1", Name: "h1", Address: "127.0.0.1:1", Gossip: "127.0.0.1:2", Version: fsm.Version},
	}, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func newCA(t *testing.T) *pki.CA {
	t.Helper()
	ca, err := pki.NewCA(testCluster, time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// TestIssuedCertificates follows a peer from its join, over a month, to a
// snapshot of another CA.
func TestIssuedCertificates(t *testing.T) {
	ca, other := newCA(t), newCA(t)
	state, wall := fsm.New(), time.Now()
	var logged bytes.Buffer
	issued := &Issued{
		Peer: "p1", Names: []string{"h1", "127.0.0.1", "::1", "api.example.org"}, View: func() fsm.View {
			return state.View()
		},
		Wall: func() time.Time { return wall }, Random: rand.Reader, Logger: slog.New(slog.NewTextHandler(&logged, nil)),
	}
	address := listening(t, public(&fake{}, NoAuth()), issued.Get)
	for range 3 {
		if _, _, err := fetch(address, "/v1", ca.Certificate(), &tls.Config{}); err == nil {
			t.Fatal("a peer without a log has a certificate")
		}
	}
	if n := strings.Count(logged.String(), "level=ERROR"); n != 1 {
		t.Errorf("that was logged %d times: %s", n, logged.String())
	}
	state = foundedBy(t, ca)
	at := func() time.Time { return wall }
	body, first, err := fetch(address, "/v1", ca.Certificate(), &tls.Config{Time: at})
	if err != nil || !strings.Contains(body, `"href":"https://`+address+`/v1/continue"`) {
		t.Fatalf("%s: %v", body, err)
	}
	if id, err := pki.IdentityOf(first); err != nil || id != pki.APIIdentity(testCluster, "p1") {
		t.Errorf("it is %v: %v", id, err)
	}
	for _, name := range issued.Names {
		if err := first.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
	wall = wall.Add(19 * 24 * time.Hour)
	if _, got, err := fetch(address, "/v1", ca.Certificate(), &tls.Config{Time: at}); err != nil || !got.Equal(first) {
		t.Errorf("renewed too early: %v", err)
	}
	wall = wall.Add(2 * 24 * time.Hour)
	_, second, err := fetch(address, "/v1", ca.Certificate(), &tls.Config{Time: at})
	if err != nil || second.Equal(first) || !second.NotAfter.After(first.NotAfter) {
		t.Errorf("not renewed ten days before its end: %v", err)
	}
	state = foundedBy(t, other)
	if _, _, err := fetch(address, "/v1", other.Certificate(), &tls.Config{Time: at}); err != nil {
		t.Errorf("after the CA became another one: %v", err)
	}
	state = fsm.New()
	if _, _, err := fetch(address, "/v1", other.Certificate(), &tls.Config{Time: at}); err != nil {
		t.Errorf("the old certificate did not stay: %v", err)
	}
}

// What is not spoken is refused in a way that a person understands.
func TestTLSRefusals(t *testing.T) {
	ca := newCA(t)
	state := foundedBy(t, ca)
	issued := &Issued{Peer: "p1", Names: []string{"127.0.0.1"}, View: func() fsm.View { return state.View() },
		Wall: time.Now, Random: rand.Reader, Logger: slog.New(slog.DiscardHandler)}
	address := listening(t, public(&fake{}, NoAuth()), issued.Get)
	if _, _, err := fetch(address, "/v1", ca.Certificate(),
		&tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
	if _, _, err := fetch(address, "/v1", ca.Certificate(), &tls.Config{MaxVersion: tls.VersionTLS12}); err != nil {
		t.Errorf("TLS 1.2: %v", err)
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /v1 HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 400 || !strings.Contains(string(text), "HTTPS") {
		t.Errorf("in the clear: %d %q %v", resp.StatusCode, text, err)
	}
	// A proxy that ends TLS, or begins it, says so as before.
	body, _, err := fetch(address, "/v1", ca.Certificate(), &tls.Config{}, "X-Forwarded-Proto", "http", "X-Forwarded-Host",
		"front:8080")
	if err != nil || !strings.Contains(body, `"href":"http://front:8080/v1/rules"`) {
		t.Errorf("behind a proxy: %s %v", body, err)
	}
}

// TestCertificateOfAShareThatHangs: a share without its server delays one handshake, and the pair
// that was read before serves all.
func TestCertificateOfAShareThatHangs(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	cert, key, _ := ownPair(t, 1)
	write(t, certFile, string(cert))
	write(t, keyFile, string(key))
	files, err := OpenCertificateFiles(certFile, keyFile, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		share := make(chan struct{})
		files.stat = func(string) (os.FileInfo, error) {
			<-share
			return nil, os.ErrNotExist
		}
		for _, wait := range []time.Duration{bounds.FileLimit, 0, 0} {
			files.next = time.Time{} // a second has passed
			began := time.Now()
			if pair, err := files.Get(nil); err != nil || pair == nil || time.Since(began) != wait {
				t.Errorf("certificate-hangs: %v, %v after %v, want %v", pair, err, time.Since(began), wait)
			}
		}
		close(share)
	})
}
