package httpserver

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/testwait"
)

// Few handshakes compute at a time, of one source one, and those that ended, well or not,
// let others begin.
func TestHandshakesTakeTurns(t *testing.T) {
	reference := httptest.NewUnstartedServer(nil)
	reference.StartTLS()
	defer reference.Close()
	var begun atomic.Int64
	goOn := make(chan error)
	s := start(t, Options{TLS: &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		begun.Add(1)
		refused, err := testwait.Take(testwait.Limit, goOn, "the handshake may go on")
		return &reference.TLS.Certificates[0], errors.Join(refused, err)
	}}})
	trusting := reference.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	trusting.ServerName = "example.com" // httptest's
	var clients sync.WaitGroup
	shake := func(from string) {
		c := tls.Client(s.call(from), trusting)
		clients.Go(func() { _ = c.Handshake() }) // some are to fail
	}
	await := func(computing int64, waiting int) {
		testwait.Until(t, "handshakes wait", func() bool {
			_, callers := s.handshakes.Idle()
			all := begun.Load()
			if all > computing {
				t.Fatalf("handshake-turn: %d compute at once, want %d", all, computing)
			}
			return all == computing && callers == waiting
		})
	}
	for range 4 {
		shake("127.0.0.2")
	}
	await(1, 3)
	shake("127.0.0.3")
	shake("127.0.0.4")
	await(2, 4)
	for n := range 6 {
		if all := begun.Load(); all > int64(2+n) {
			t.Errorf("handshake-turn: %d began when %d had ended", all, n)
		}
		testwait.Send(t, goOn, map[bool]error{true: errors.New("no certificate")}[n%2 == 0], "a handshake computes")
	}
	clients.Wait()
	if idle, waiting := s.handshakes.Idle(); idle != handshakes.AtOnce || waiting != 0 {
		t.Errorf("handshake-places: %d of %d are idle, %d wait", idle, handshakes.AtOnce, waiting)
	}
}

// deaf is a client's connection that hears nothing.
type deaf struct {
	net.Conn
	over chan struct{}
}

func (d deaf) Read([]byte) (int, error) {
	_, err := testwait.Take(testwait.Limit, d.over, "the test ends")
	return 0, errors.Join(net.ErrClosed, err)
}

// A client that does not answer keeps no other from its handshake.
func TestSilentClientsHoldUpNoHandshake(t *testing.T) {
	reference := httptest.NewUnstartedServer(nil)
	reference.StartTLS()
	defer reference.Close()
	var begun atomic.Int64
	patient := limits
	patient.Header = time.Hour // the server gives up none of the silent ones
	s := start(t, Options{Limits: patient,
		TLS: &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			begun.Add(1)
			return &reference.TLS.Certificates[0], nil
		}}})
	trusting := reference.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	trusting.ServerName = "example.com" // httptest's
	over, silent := make(chan struct{}), sync.WaitGroup{}
	for n := range handshakes.AtOnce {
		c := tls.Client(deaf{s.call(fmt.Sprintf("127.0.0.%d", 2+n)), over}, trusting)
		silent.Go(func() { _ = c.Handshake() })
		testwait.Until(t, "a handshake begins", func() bool { return begun.Load() == int64(1+n) })
	}
	if err := tls.Client(s.call("127.0.0.9"), trusting).Handshake(); err != nil {
		t.Errorf("handshake-silent: next to clients that are silent: %v", err)
	}
	close(over)
	silent.Wait()
}
