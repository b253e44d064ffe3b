package app

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/credentials"
	"github.com/trivet-ha/trivet/keystone"
)

// openAuth returns who may use the API. Files are read at once; nobody is asked
// anything yet.
func (p *Peer) openAuth() (api.Auth, error) {
	conf := p.opts.Config.API
	switch conf.AuthStrategy {
	case "http_basic":
		auth, err := api.NewBasicAuth(conf.HTTPBasicAuthUserFile, conf.HTTPBasicReaders, p.opts.Wall, p.opts.Random, p.opts.Logger)
		if err != nil {
			return nil, fmt.Errorf("api.http_basic_auth_user_file: %w", err)
		}
		return auth, nil
	case config.StrategyKeystone:
		return p.openKeystone()
	case "noauth":
		return api.NoAuth(), nil
	}
	return nil, fmt.Errorf("api.auth_strategy: %q is not known; write http_basic, keystone or noauth", conf.AuthStrategy)
}

// openKeystone makes what asks Keystone about callers.
func (p *Peer) openKeystone() (api.Auth, error) {
	conf := p.opts.Config.API.Keystone
	secure, err := credentials.OpenTLS(credentials.Files{
		CA: conf.TLS.CAFile, Cert: conf.TLS.CertFile, Key: conf.TLS.KeyFile, Insecure: conf.TLS.InsecureSkipVerify, Section: "api.keystone",
	}, p.opts.Logger)
	if err != nil {
		return nil, err
	}
	transport := keystone.NewTransport(secure)
	examiner, err := keystone.NewExaminer(keystone.Account{
		URL: conf.AuthURL, User: conf.Username, UserDomain: conf.UserDomain, Project: conf.Project, ProjectDomain: conf.ProjectDomain,
		Password: credentials.Password{Text: conf.Password.Reveal(), File: conf.PasswordFile, Option: "api.keystone.password_file"},
	}, transport, p.opts.Wall)
	if err != nil {
		return nil, err
	}
	p.keystone = transport
	p.tokens, err = api.NewKeystoneAuth(conf, examiner, p.opts.Wall, p.opts.Random, p.opts.Logger)
	if err != nil {
		return nil, err
	}
	return p.tokens, nil
}

// keystoneAway tells why Keystone does not say who callers are; nil where it
// does, or is not asked.
func (p *Peer) keystoneAway() error {
	if p.tokens == nil {
		return nil
	}
	return p.tokens.Away()
}

// authMetrics adds a figure where Keystone is asked, and nothing elsewhere: a
// constant 1 would pass for an answer.
func (p *Peer) authMetrics(r *prometheus.Registry) {
	if p.tokens == nil {
		return
	}
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "trivet", Name: "keystone_up", Help: "1 unless Keystone did not answer this peer's last question, within five minutes.",
	}, func() float64 { return one(p.keystoneAway() == nil) }))
}

// hangUp ends the connections to other services that carry nothing.
func (p *Peer) hangUp() {
	p.ironic.Close()
	if p.keystone != nil {
		p.keystone.CloseIdleConnections()
	}
}
