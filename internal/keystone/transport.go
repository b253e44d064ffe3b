package keystone

import (
	"net"
	"net/http"
	"time"

	"github.com/trivet-ha/trivet/internal/servicecreds"
)

// Bounds of what is asked at once and answered.
const (
	maxConns  = 32
	dialLimit = 10 * time.Second
	idleConn  = 30 * time.Second
	maxHeader = 64 << 10 // bytes
	maxAnswer = 4 << 20  // bytes; the catalogue of a large cloud is in it
)

// NewTransport returns one to Keystone alone: its files are those of t, and its
// answers have a bound. The context of a request bounds its time. The caller
// closes its idle connections.
func NewTransport(t *servicecreds.TLS) *Transport {
	return &Transport{&http.Transport{
		DialContext: (&net.Dialer{Timeout: dialLimit}).DialContext, DialTLSContext: t.Dial,
		MaxConnsPerHost: maxConns, MaxIdleConnsPerHost: maxConns,
		IdleConnTimeout: idleConn, MaxResponseHeaderBytes: maxHeader,
	}}
}

// Transport carries requests to Keystone.
type Transport struct{ bare *http.Transport }

var _ http.RoundTripper = (*Transport)(nil)

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.bare.RoundTrip(r)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxAnswer)
	}
	return resp, err
}

// CloseIdleConnections ends the connections that carry no request.
func (t *Transport) CloseIdleConnections() { t.bare.CloseIdleConnections() }
