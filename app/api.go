package app

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/config"
)

// networks reads what the configuration has checked.
func networks(texts []string) []netip.Prefix {
	out := make([]netip.Prefix, 0, len(texts))
	for _, text := range texts {
		if n, err := netip.ParsePrefix(text); err == nil {
			out = append(out, n)
		}
	}
	return out
}

// openTLS reads the files of the API's certificate, if it has some.
func (o Options) openTLS() (*api.CertificateFiles, error) {
	conf := o.Config.API.TLS
	if conf.Certificate != config.TLSFiles {
		return nil, nil
	}
	return api.OpenCertificateFiles(conf.CertFile, conf.KeyFile, o.Logger)
}

// apiTLS returns how the API is served, nil for in the clear. A certificate of the
// cluster's CA is made for the first connection.
func (p *Peer) apiTLS() *tls.Config {
	switch p.opts.Config.API.TLS.Certificate {
	case config.TLSFiles:
		return api.TLS(p.certificate.Get)
	case config.TLSCluster:
		return api.TLS(p.issued(serverNames(p.opts.Config, p.id)).Get)
	}
	return nil
}

// issued is a certificate of the cluster's CA for a server with these names.
func (p *Peer) issued(names []string) *api.Issued {
	return &api.Issued{Peer: p.id.ID, Names: names, View: p.core.Store.View, Wall: p.opts.Wall, Random: p.opts.Random,
		Logger: p.opts.Logger}
}

// serverNames are the names and addresses by which clients may call this peer's
// API, none twice.
func serverNames(conf config.Config, id datadir.Identity) []string {
	names := []string{id.Name, "localhost", "127.0.0.1", "::1", conf.FloatingIP.Address}
	if host, err := os.Hostname(); err == nil {
		names = append(names, host)
	}
	for _, address := range []string{id.Address, conf.API.Listen} {
		if host, _, err := net.SplitHostPort(address); err == nil {
			names = append(names, host)
		}
	}
	var out []string
	for _, name := range slices.Concat(names, conf.API.TLS.Names) {
		ip, err := netip.ParseAddr(name)
		everywhere := err == nil && ip.IsUnspecified()
		if name != "" && !everywhere && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// APIURL is where this peer's API is, as it was bound.
func (p *Peer) APIURL() string {
	return fmt.Sprintf("%s://%s", p.opts.Config.API.Scheme(), p.serving.api.Addr())
}
