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
	"github.com/trivet-ha/trivet/fsm"
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

// openTLS returns how the API is served, nil for in the clear. Files are read
// at once; a certificate of the cluster's CA is made for the first connection.
func (o Options) openTLS(id datadir.Identity, view func() fsm.View) (*tls.Config, error) {
	conf, log := o.Config.API.TLS, o.Logger
	switch conf.Certificate {
	case config.TLSFiles:
		files, err := api.OpenCertificateFiles(conf.CertFile, conf.KeyFile, log)
		if err != nil {
			return nil, err
		}
		return api.TLS(files.Get), nil
	case config.TLSCluster:
		issued := &api.Issued{
			Peer: id.ID, Names: serverNames(o.Config, id), View: view, Wall: o.Wall, Random: o.Random, Logger: log,
		}
		return api.TLS(issued.Get), nil
	}
	return nil, nil
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
