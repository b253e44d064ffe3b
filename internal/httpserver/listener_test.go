package httpserver

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/testwait"
)

// site is a server on this host.
type site struct {
	*testing.T
	*listener
	begun chan struct{} // of requests for /wait, which are not answered
}

// start serves until the test ends.
func start(t *testing.T, o Options) *site {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{T: t, begun: make(chan struct{})}
	if o.Handler == nil {
		o.Handler = http.HandlerFunc(s.answer)
	}
	if o.Limits == (Limits{}) {
		o.Limits = limits
	}
	o.Logger = slog.New(slog.DiscardHandler)
	srv := New(o)
	s.listener = srv.bound(ln)
	served := make(chan error, 1)
	go func() { served <- srv.http.Serve(s.listener) }()
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		if err := testwait.Receive(t, served, "the server ends"); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return s
}

func (s *site) answer(_ http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/wait" {
		select {
		case s.begun <- struct{}{}: // caller.ask receives it
			<-r.Context().Done()
		case <-r.Context().Done():
		}
	}
}

// rests waits until so many connections have no request under way.
func (s *site) rests(conns int) {
	s.Helper()
	testwait.Until(s, "connections have no request", func() bool {
		return s.tables[true].Idle()+s.tables[false].Idle() == conns
	})
}

// caller is a connection from one of this host's addresses.
type caller struct {
	net.Conn
	to *site
	in *bufio.Reader
}

func (s *site) call(from string) *caller {
	s.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: testwait.Bound(testwait.Limit)}
	c, err := d.Dial("tcp", s.Addr().String())
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = c.Close() }) // the server may have closed it
	if err := c.SetDeadline(time.Now().Add(testwait.Bound(testwait.Limit))); err != nil {
		s.Fatal(err)
	}
	return &caller{c, s, bufio.NewReader(c)}
}

// served reports whether the connection is answered.
func (c *caller) served() bool {
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		return false
	}
	resp, err := http.ReadResponse(c.in, nil)
	return err == nil && resp.StatusCode == http.StatusOK
}

// ask begins a request that is not answered.
func (c *caller) ask() {
	c.to.Helper()
	if _, err := io.WriteString(c, "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		c.to.Fatal(err)
	}
	testwait.Receive(c.to, c.to.begun, "a request begins")
}

// closed waits until the server hangs up.
func (c *caller) closed(otherwise string) {
	c.to.Helper()
	if _, err := c.in.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		c.to.Errorf("%s: %v", otherwise, err)
	}
}

// TestOneSourceHasItsShare: past it, a source loses its oldest connection without a
// request.
func TestOneSourceHasItsShare(t *testing.T) {
	s := start(t, Options{})
	var held []*caller
	for n := range limits.Share {
		c := s.call("127.0.0.2")
		if !c.served() {
			t.Fatal("a connection within the share is not served")
		}
		s.rests(n + 1)
		held = append(held, c)
	}
	held[0].ask()
	s.rests(limits.Share - 1)
	if c := s.call("127.0.0.2"); !c.served() {
		t.Error("conn-share: an idle connection keeps a new one out")
	}
	held[1].closed("conn-share: the oldest idle connection stays")
	if !held[2].served() || !s.call("127.0.0.3").served() {
		t.Error("conn-share: others lose by it")
	}
}

// TestRequestsUnderWayAreNotCutForTheirOwnSource: the newest connection is closed.
func TestRequestsUnderWayAreNotCutForTheirOwnSource(t *testing.T) {
	s := start(t, Options{})
	for range limits.Share {
		s.call("127.0.0.2").ask()
	}
	s.rests(0)
	s.call("127.0.0.2").closed("conn-share: one more than the share is served")
	if !s.call("127.0.0.3").served() {
		t.Error("conn-share: another source is not served")
	}
}

// TestFloodFromAFewSourcesKeepsNoClientOut: the source with the most loses.
func TestFloodFromAFewSourcesKeepsNoClientOut(t *testing.T) {
	s := start(t, Options{})
	for n := range limits.Conns { // all that there is
		s.call([]string{"127.0.0.2", "127.0.0.3"}[n%2]).ask()
	}
	s.rests(0)
	for _, from := range []string{"127.0.0.4", "127.0.0.5", "127.0.0.6"} {
		if !s.call(from).served() {
			t.Errorf("conn-flood: %s is not served", from)
		}
	}
}

// TestTrustedSources: they have no share, and room of their own.
func TestTrustedSources(t *testing.T) {
	balancer := netip.MustParseAddr("127.0.0.9")
	s := start(t, Options{Trusted: func(a netip.Addr) bool { return a == balancer }})
	var held []*caller
	for range limits.Conns {
		c := s.call(balancer.String())
		if !c.served() {
			t.Fatal("conn-trusted: a connection within the bound is not served")
		}
		held = append(held, c)
	}
	if !s.call("127.0.0.2").served() || !held[0].served() {
		t.Error("conn-trusted: strangers and the balancer are counted together")
	}
}

// TestLastDescriptorsAreNotForCallers: a connection that gets one is closed.
func TestLastDescriptorsAreNotForCallers(t *testing.T) {
	tight := limits
	most, err := descriptorLimit()
	if err != nil {
		t.Fatal(err)
	}
	tight.Spare = int(most)
	if start(t, Options{Limits: tight}).call("127.0.0.2").served() {
		t.Error("descriptors-spare: it is served")
	}
	tight.Spare = 0
	if !start(t, Options{Limits: tight}).call("127.0.0.2").served() {
		t.Error("it is not served although there are descriptors")
	}
}

// TestTLS: requests show their TLS connection, and callers in the clear learn why
// they are refused.
func TestTLS(t *testing.T) {
	reference := httptest.NewUnstartedServer(nil)
	reference.StartTLS()
	defer reference.Close()
	s := start(t, Options{
		TLS: &tls.Config{Certificates: reference.TLS.Certificates},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.TLS == nil || !r.TLS.HandshakeComplete {
				w.WriteHeader(http.StatusTeapot)
			}
		}),
	})
	resp, err := reference.Client().Get("https://" + s.Addr().String())
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	c := s.call("127.0.0.2")
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if said, err := io.ReadAll(c.in); err != nil || !strings.Contains(string(said), "HTTP request to an HTTPS server") {
		t.Errorf("%q %v", said, err)
	}
}

// stubborn is a listener of callers whose connections cannot be closed without an
// error.
type stubborn struct {
	net.Listener
	left int
}

// Accept implements net.Listener.
func (s *stubborn) Accept() (net.Conn, error) {
	if s.left--; s.left < 0 {
		return nil, net.ErrClosed
	}
	return stuck{}, nil
}

func (s *stubborn) Addr() net.Addr { return &net.TCPAddr{} }

type stuck struct{ net.Conn }

func (stuck) Close() error         { return errors.New("it is stuck") }
func (stuck) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)} }

// TestCloseThatFails: other connections are accepted still.
func TestCloseThatFails(t *testing.T) {
	const over = 10
	ln := New(Options{Limits: limits, Logger: slog.New(slog.DiscardHandler)}).bound(&stubborn{left: limits.Share + over})
	for range limits.Share + over {
		if _, err := ln.Accept(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}
