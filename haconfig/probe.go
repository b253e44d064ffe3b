package haconfig

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"syscall"
	"time"
)

// maxSaid is how much of a peer's word about its health is read, in bytes.
const maxSaid = 512

// HTTPProber asks webhooks over TLS, as an API server would: what it takes for
// living, an API server can reach in the same way. It may be used concurrently.
type HTTPProber struct {
	peers Peers
	path  string // of the cluster for which webhooks are to answer

	mu     sync.Mutex
	ca     []byte // that the client trusts
	client *http.Client
}

var _ Prober = (*HTTPProber)(nil)

// NewHTTPProber returns a prober that trusts the CA of the peers and asks whether they
// can answer for a Kubernetes cluster.
func NewHTTPProber(peers Peers, cluster string) *HTTPProber {
	return &HTTPProber{peers: peers, path: HealthPath(cluster)}
}

// Probe implements Prober.
func (p *HTTPProber) Probe(ctx context.Context, address string) error {
	client, err := p.trusting(p.peers.CA())
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+p.path, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(r)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%s: %w", address, ErrRefused)
	}
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(io.LimitReader(answer.Body, maxSaid))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", address, answer.Status, bytes.TrimSpace(said))
	}
	return err
}

// trusting returns the client for a CA. Connections are kept between probes: a
// process that died closes its own.
func (p *HTTPProber) trusting(ca []byte) (*http.Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.client != nil && bytes.Equal(p.ca, ca) {
		return p.client, nil
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("the cluster's CA is not known here yet")
	}
	if p.client != nil {
		p.client.CloseIdleConnections()
	}
	p.ca, p.client = bytes.Clone(ca), &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, IdleConnTimeout: time.Minute,
		MaxIdleConnsPerHost: 1,
	}}
	return p.client, nil
}

// Close ends the connections.
func (p *HTTPProber) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.client != nil {
		p.client.CloseIdleConnections()
	}
}
