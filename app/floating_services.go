package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/health"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/raftstore"
)

// floatingClient calls the services of a cluster at its floating IP, as clients do.
type floatingClient struct {
	conf config.Config
	view func() fsm.View // for the CA
	wall func() time.Time
}

// openServices makes what asks the services of this cluster at the floating IP, if there is
// one. It sends nothing yet.
func (p *pxeParts) openServices(client floatingClient, log *raftstore.Store) {
	if p.carries == nil {
		return
	}
	conf := client.conf
	s := &health.FloatingServices{Holder: func() string {
		d := log.View().AddressDoor()
		if lead, led := log.Leader(); !led || d.OpenBy.IsZero() || d.Peer != lead.ID {
			return "" // none has it, or one that died
		}
		return fmt.Sprint(d.Peer, " ", d.OpenBy)
	}}
	if !conf.ProxiedAPI() { // a proxy may have a scheme and a port of its own
		s.Served = append(s.Served, client.served("the API", conf.API.Listen, conf.API.TLS.Certificate))
	}
	if conf.HAConfig.On() && conf.HAConfig.Via == config.HAViaFloatingIP {
		s.Served = append(s.Served, client.served("the webhook", conf.HAConfig.Listen, config.TLSCluster))
	}
	p.services, p.carries.Services = s, s
}

// served is a service of this cluster that listens on the port of an address.
func (c floatingClient) served(what, listen, certificate string) health.Served {
	_, port, _ := net.SplitHostPort(listen) // the configuration was checked
	scheme := "https"
	if certificate == config.TLSOff {
		scheme = "http"
	}
	address := c.conf.FloatingIP.Address
	at := url.URL{Scheme: scheme, Host: net.JoinHostPort(address, port), Path: "/livez"}
	return health.Served{What: what, URL: at.String(), Ask: func(ctx context.Context) error {
		return askPeer(ctx, at.String(), c.trustAt(address, certificate))
	}}
}

// trustAt is how a client examines who answers at an address; nil in the clear.
func (c floatingClient) trustAt(address, certificate string) *tls.Config {
	switch certificate {
	case config.TLSCluster:
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(c.view().Secrets().CACert)
		return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12, Time: c.wall}
	case config.TLSFiles:
		// Which CA clients trust this host need not know: the name and the dates are what can
		// be wrong here.
		return &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12,
			VerifyConnection: func(s tls.ConnectionState) error {
				leaf := s.PeerCertificates[0] // TLS has one at least
				if now := c.wall(); now.Before(leaf.NotBefore) || now.After(leaf.NotAfter) {
					return fmt.Errorf("its certificate is good from %s to %s", leaf.NotBefore.Format(time.RFC3339),
						leaf.NotAfter.Format(time.RFC3339))
				}
				if len(leaf.DNSNames) > 0 {
					return nil // clients may call the address by one of these
				}
				return leaf.VerifyHostname(address)
			}}
	}
	return nil
}

// askPeer asks a server whether it is one of Trivet: any answer that repeats the name of the
// request is, also a refusal of one that is busy.
func askPeer(ctx context.Context, at string, trust *tls.Config) error {
	client := &http.Client{
		// no proxy, and no connection that outlasts a hand-over
		Transport:     &http.Transport{TLSClientConfig: trust, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return fmt.Errorf("GET %s: %w", at, err)
	}
	id := api.NewRequestID()
	req.Header.Set("X-Request-Id", id)
	answer, err := client.Do(req)
	var failed *url.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("GET %s: no answer in time", at)
	case errors.As(err, &failed):
		err = failed.Err
		// The addresses of a connection that was not made are left out: the port of this end differs each time, and the
		// same fault has the same words on every host.
		if op, ok := errors.AsType[*net.OpError](err); ok {
			err = op.Err
		}
		return fmt.Errorf("GET %s: %w", at, err)
	case err != nil:
		return fmt.Errorf("GET %s: %w", at, err)
	}
	if answer.Header.Get("X-Request-Id") != id {
		err = fmt.Errorf("GET %s: %s, from another program than Trivet", at, answer.Status)
	}
	return errors.Join(err, answer.Body.Close())
}
