package servicecreds

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/internal/bounds"
)

// pair is a certificate that signed itself, and its key, in PEM.
type pair struct{ cert, key []byte }

func newPair(t *testing.T, name string) pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"service"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pair{
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	}
}

func (p pair) tls(t *testing.T) tls.Certificate {
	t.Helper()
	c, err := tls.X509KeyPair(p.cert, p.key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// replace puts a whole file in the place of another, and has t look at it.
func replace(t *testing.T, of *TLS, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(name+".new", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
	if of != nil {
		of.next = time.Time{}
	}
}

// service shows one certificate and tells whose it was shown.
func service(t *testing.T, own pair) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := "nobody"
		if shown := r.TLS.PeerCertificates; len(shown) > 0 {
			name = shown[0].Subject.CommonName
		}
		_, _ = io.WriteString(w, name) // the client checks
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{own.tls(t)}, ClientAuth: tls.RequestClientCert}
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that shall fail
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// ask makes a connection of its own and returns who the service thinks asks.
func ask(t *testing.T, of *TLS, s *httptest.Server) (string, error) {
	t.Helper()
	conf := of.Config().Clone()
	conf.ServerName = "service"
	client := http.Client{Transport: &http.Transport{TLSClientConfig: conf, DisableKeepAlives: true}}
	resp, err := client.Get(s.URL)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// TestFilesAreReadAgain changes whom we trust and what we show, without a new TLS.
func TestFilesAreReadAgain(t *testing.T) {
	dir := t.TempDir()
	files := Files{CA: filepath.Join(dir, "ca"), Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key"),
		Section: "ironic"}
	oldService, newService, mine, renewed := newPair(t, "old service"), newPair(t, "new service"), newPair(t, "mine"),
		newPair(t, "renewed")
	replace(t, nil, files.CA, oldService.cert)
	replace(t, nil, files.Cert, mine.cert)
	replace(t, nil, files.Key, mine.key)
	var logged bytes.Buffer
	of, err := OpenTLS(files, slog.New(slog.NewTextHandler(&logged, nil)))
	if err != nil {
		t.Fatal(err)
	}
	before, after := service(t, oldService), service(t, newService)
	want := func(what string, s *httptest.Server, name string) {
		t.Helper()
		if got, err := ask(t, of, s); got != name || (err == nil) != (name != "") {
			t.Errorf("%s: %q, %v; want %q", what, got, err, name)
		}
	}
	want("as opened", before, "mine")
	want("not trusted yet", after, "")
	replace(t, of, files.CA, newService.cert)
	want("the new CA", after, "mine")
	want("the old CA", before, "")
	replace(t, of, files.Cert, renewed.cert)
	for range 3 {
		of.next = time.Time{}
		want("half a pair", after, "mine")
	}
	if n := strings.Count(logged.String(), "reload service certificates failed"); n != 1 {
		t.Errorf("half a pair was told %d times: %s", n, &logged)
	}
	replace(t, of, files.Key, renewed.key)
	want("the whole pair", after, "renewed")
	if strings.Contains(logged.String(), "PRIVATE") {
		t.Errorf("a key is in the log: %s", &logged)
	}
}

// TestLookedAtOnceASecond counts no calls of the kernel, but what a change needs
// to be seen.
func TestLookedAtOnceASecond(t *testing.T) {
	name := filepath.Join(t.TempDir(), "ca")
	replace(t, nil, name, newPair(t, "a").cert)
	of, err := OpenTLS(Files{CA: name}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	first := of.Config()
	replace(t, nil, name, newPair(t, "b").cert)
	of.next = time.Now().Add(time.Hour)
	if of.Config() != first {
		t.Error("the files were looked at before it was time")
	}
	of.next = time.Time{}
	if of.Config() == first {
		t.Error("the change was not seen")
	}
}

func TestInsecureByItsOwnNameAlone(t *testing.T) {
	s := service(t, newPair(t, "service"))
	for _, insecure := range []bool{false, true} {
		of, err := OpenTLS(Files{Insecure: insecure}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ask(t, of, s); (err == nil) != insecure {
			t.Errorf("insecure %v: %v", insecure, err)
		}
	}
}

func TestFilesThatAreRefused(t *testing.T) {
	dir := t.TempDir()
	at := func(name string, content []byte) string {
		name = filepath.Join(dir, name)
		replace(t, nil, name, content)
		return name
	}
	a, b := newPair(t, "a"), newPair(t, "b")
	for _, c := range []struct {
		files Files
		want  string
	}{
		{Files{CA: "/nowhere"}, "s.ca_file: "},
		{Files{CA: at("text", []byte("hello"))}, "s.ca_file: "},
		{Files{CA: at("large", bytes.Repeat([]byte("x"), MaxPEM+1))}, "s.ca_file: "},
		{Files{Cert: "/nowhere", Key: at("a.key", a.key)}, "s.cert_file: "},
		{Files{Cert: at("a.pem", a.cert), Key: "/nowhere"}, "s.key_file: "},
		{Files{Cert: at("a.pem", a.cert), Key: at("b.key", b.key)}, "s.cert_file and key_file: "},
	} {
		c.files.Section = "s"
		if _, err := OpenTLS(c.files, slog.New(slog.DiscardHandler)); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s…", c.files, err, c.want)
		}
	}
}

func TestDialEndsWithItsContext(t *testing.T) {
	of, err := OpenTLS(Files{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if conn, err := of.Dial(ctx, "tcp", service(t, newPair(t, "service")).Listener.Addr().String()); err == nil {
		_ = conn.Close() // it should not be there
		t.Error("dialled for nobody")
	}
}

// A share without its server delays one connection, and what was read before is used for all.
func TestFilesOfAShareThatHangs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(path, newPair(t, "ca").cert, 0o600); err != nil {
		t.Fatal(err)
	}
	of, err := OpenTLS(Files{CA: path, Section: "ironic"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		share := make(chan struct{})
		of.stat = func(string) (os.FileInfo, error) {
			<-share
			return nil, os.ErrNotExist
		}
		for _, wait := range []time.Duration{bounds.FileLimit, 0, 0} {
			of.next = time.Time{} // a second has passed
			began := time.Now()
			if conf := of.Config(); conf == nil || time.Since(began) != wait {
				t.Errorf("certificates-hang: %v after %v, want %v", conf, time.Since(began), wait)
			}
		}
		close(share)
	})
}

// A password on a share without its server keeps no login waiting, and the error names the option.
func TestPasswordOfAShareThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, share := Password{File: "/share/p", Option: "ironic.password_file", Reads: new(bounds.Calls)}, make(chan struct{})
		go func() { _ = p.Reads.Do(time.Hour, func() { <-share }) }()
		synctest.Wait()
		began := time.Now()
		if _, err := p.Read(); !errors.Is(err, bounds.ErrHangs) || !strings.Contains(err.Error(), p.Option) ||
			time.Since(began) != bounds.FileLimit {
			t.Errorf("password-hangs: %v after %v", err, time.Since(began))
		}
		close(share)
	})
}
