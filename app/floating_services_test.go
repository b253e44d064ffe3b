package app

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/test/testenv"
)

// TestWhereAPIServersAsk: the place that haconfig compares with a registration is that of its manifest.
func TestWhereAPIServersAsk(t *testing.T) {
	for want, via := range map[string][2]string{
		"192.0.2.10:9443":        {config.HAViaFloatingIP, "192.0.2.10"},
		"[2001:db8::1]:9443":     {config.HAViaFloatingIP, "2001:DB8::1"},
		"trivet/trivet-haconfig": {config.HAViaEndpoints, "192.0.2.10"},
		"":                       {config.HAViaFloatingIP, ""},
	} {
		conf := config.Default()
		conf.HAConfig.Via, conf.FloatingIP.Address = via[0], via[1]
		if got := webhookPlace(conf, 9443); got != want {
			t.Errorf("registration-leads-elsewhere: %s at %q: %q, want %q", via[0], via[1], got, want)
		}
	}
}

// TestAskPeer: what a client would get from a peer counts as an answer, and nothing else.
func TestAskPeer(t *testing.T) {
	peer := api.Identified(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host == "busy" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	stranger := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	elsewhere := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
	})
	hangs := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	for name, test := range map[string]struct {
		handler http.Handler
		want    string
	}{
		"a peer": {peer, ""}, "another program": {stranger, "200 OK, from another program than Trivet"},
		"a redirect": {elsewhere, "302 Found, from another program"}, "one that hangs": {hangs, "no answer in time"},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(test.handler)
			defer srv.Close()
			limit := 10 * time.Second
			if name == "one that hangs" {
				limit = 50 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			err := askPeer(ctx, srv.URL+"/livez", nil)
			if text := api.ErrorText(err); (text == "") != (test.want == "") || !strings.Contains(text, test.want) {
				t.Errorf("%q, want %q", text, test.want)
			}
		})
	}
	at := "http://" + testenv.FreePort(t) + "/livez"
	if text := api.ErrorText(askPeer(t.Context(), at, nil)); text != "GET "+at+": connect: connection refused" {
		t.Errorf("no listener: %q", text) // the same words each time: no port of this end
	}
}

// TestTrustAt: a certificate that is for another address, has ended, or is of another CA is no
// answer to a client that calls the floating IP.
func TestTrustAt(t *testing.T) {
	now := time.Now()
	serve := func(names ...string) *httptest.Server {
		srv := httptest.NewUnstartedServer(api.Identified(http.NotFoundHandler()))
		srv.TLS = &tls.Config{Certificates: []tls.Certificate{certificateFor(t, now, names...)}}
		srv.StartTLS()
		t.Cleanup(srv.Close)
		return srv
	}
	srv := serve()
	p := floatingClient{wall: func() time.Time { return now }}
	ask := func(trust *tls.Config) string { return api.ErrorText(askPeer(t.Context(), srv.URL+"/livez", trust)) }
	if said := ask(p.trustAt("127.0.0.1", config.TLSFiles)); said != "" {
		t.Errorf("a good certificate: %s", said)
	}
	if said := ask(p.trustAt("192.0.2.10", config.TLSFiles)); !strings.Contains(said, "192.0.2.10") {
		t.Errorf("a certificate that does not name the floating IP: %q", said)
	}
	if err := askPeer(t.Context(), serve("inspector.example.org").URL+"/livez",
		p.trustAt("192.0.2.10", config.TLSFiles)); err != nil {
		t.Errorf("a certificate for a name, by which clients call the floating IP: %v", err)
	}
	now = srv.Certificate().NotAfter.Add(time.Hour)
	if said := ask(p.trustAt("127.0.0.1", config.TLSFiles)); !strings.Contains(said, "its certificate is good from") {
		t.Errorf("a certificate that has ended: %q", said)
	}
	if said := ask(&tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}); !strings.Contains(said,
		"unknown authority") {
		t.Errorf("a certificate of another CA: %q", said)
	}
}

// certificateFor is a certificate for 127.0.0.1 and names, good for an hour.
func certificateFor(t *testing.T, now time.Time, names ...string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Minute), NotAfter: now.Add(time.Hour),
		DNSNames:    names,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, leaf, leaf, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestWildcardsListenOnBothVersions is what config rests on: either wildcard answers IPv4 and
// IPv6, so that only an address of the host's own keeps the floating IP out.
func TestWildcardsListenOnBothVersions(t *testing.T) {
	for _, wildcard := range []string{":0", "0.0.0.0:0", "[::]:0"} {
		ln, err := listen(t.Context(), "api.listen", wildcard)
		if err != nil {
			t.Fatal(err)
		}
		srv := &httptest.Server{Listener: ln, Config: &http.Server{Handler: api.Identified(http.NotFoundHandler())}}
		srv.Start()
		port := netip.MustParseAddrPort(ln.Addr().String()).Port()
		for _, at := range []string{"127.0.0.1", "::1"} {
			url := "http://" + netip.AddrPortFrom(netip.MustParseAddr(at), port).String() + "/livez"
			if err := askPeer(t.Context(), url, nil); err != nil {
				t.Errorf("%s: %v", wildcard, err)
			}
		}
		srv.Close()
	}
}
