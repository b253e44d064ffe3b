package ironic

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"sync/atomic"
	"time"

	"github.com/trivet-ha/trivet/inspector"
)

const (
	// maxConns bounds the connections to Ironic, busy and idle alike: at 100 ms
	// a call they carry more than a thousand calls a second.
	maxConns = 128
	// idleConn is below the keep-alive time of eventlet's server, so that
	// connections end at our side.
	idleConn = 60 * time.Second
	// maxHeader bounds the header of an answer, in bytes.
	maxHeader = 64 << 10
	// maxErrorBody bounds the body of an answer that is an error, in bytes.
	maxErrorBody = 64 << 10
	// maxCAFile bounds a file of certificates, in bytes.
	maxCAFile = 4 << 20
)

// transport carries requests. It asks the guard of a request's context before
// it looks for a connection, and at every write to one: dialling, waiting for
// a free connection and net/http's own second try on a connection that was
// closed all lie in between, and each may outlast a claim.
type transport struct{ base *http.Transport }

var _ http.RoundTripper = (*transport)(nil)

// newTransport returns a transport whose dialling ends after timeout.
func newTransport(roots *x509.CertPool, timeout time.Duration) *transport {
	dialer := &net.Dialer{Timeout: timeout}
	base := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &guardedConn{Conn: conn}, nil
		},
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    timeout,
		MaxConnsPerHost:        maxConns,
		MaxIdleConnsPerHost:    maxConns,
		IdleConnTimeout:        idleConn,
		MaxResponseHeaderBytes: maxHeader,
		DisableCompression:     true, // neighbours; and a bound on bytes is a bound on memory
		Protocols:              new(http.Protocols),
	}
	base.Protocols.SetHTTP1(true)
	return &transport{base}
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	s := &sending{ctx: req.Context()}
	if err := s.allowed(); err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // nothing was read from it
		}
		return nil, err
	}
	trace := &httptrace.ClientTrace{GotConn: s.gotConn}
	resp, err := t.base.RoundTrip(req.WithContext(httptrace.WithClientTrace(s.ctx, trace)))
	if refused := s.refused.Load(); refused != nil {
		if err == nil {
			_ = resp.Body.Close() // an answer to half a request
		}
		return nil, *refused
	}
	if err != nil {
		return nil, err
	}
	s.done()
	limit := int64(maxPage)
	if resp.StatusCode >= http.StatusMultipleChoices {
		limit = maxErrorBody
	}
	resp.Body = http.MaxBytesReader(nil, resp.Body, limit)
	return resp, nil
}

// sending is one request on its way out.
type sending struct {
	ctx     context.Context
	conn    *guardedConn          // that it was last given; belongs to RoundTrip's goroutine
	refused atomic.Pointer[error] // what the guard said; set by the goroutine that writes
}

// allowed asks the guard, and remembers that it refused.
func (s *sending) allowed() error {
	err := inspector.Allowed(s.ctx)
	if err == nil {
		return nil
	}
	if !errors.Is(err, inspector.ErrNotAllowed) {
		err = fmt.Errorf("%w: %w", inspector.ErrNotAllowed, err)
	}
	s.refused.Store(&err)
	return err
}

// gotConn is called each time that net/http found a connection for the request.
func (s *sending) gotConn(info httptrace.GotConnInfo) {
	conn := info.Conn
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	if guarded, ok := conn.(*guardedConn); ok {
		s.conn = guarded
		guarded.current.Store(s)
	}
}

// done takes the guard from the connection, which may write again on its own
// account: TLS says goodbye.
func (s *sending) done() {
	if s.conn != nil {
		s.conn.current.CompareAndSwap(s, nil)
	}
}

// guardedConn is a connection that carries one request at a time and asks that
// request's guard before each write.
type guardedConn struct {
	net.Conn
	current atomic.Pointer[sending] // nil: between requests
}

// Write implements net.Conn.
func (c *guardedConn) Write(p []byte) (int, error) {
	if s := c.current.Load(); s != nil {
		if err := s.allowed(); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(p)
}

// roots returns the system's certificates and those of the file; nil, which
// means the system's, when there is no file.
func roots(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := readSmall(file, maxCAFile)
	if err != nil {
		return nil, fmt.Errorf("ironic.ca_file: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("certificates of the system: %w", err)
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("ironic.ca_file: %s holds no certificate; write the file with the CA's certificate in PEM", file)
	}
	return pool, nil
}

// readSmall reads a file of at most limit bytes.
func readSmall(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(content)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, limit)
	}
	return content, nil
}
