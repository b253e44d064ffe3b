package app

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/health"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/internal/bounds"
	"github.com/trivet-ha/trivet/internal/keystone"
	"github.com/trivet-ha/trivet/internal/servicecreds"
)

// keeper decides who may use the API.
type keeper struct {
	auth      api.Auth
	transport *keystone.Transport // nil: the strategy is not keystone
	tokens    *api.KeystoneAuth   // that is auth; nil like transport
}

// openAuth returns who may use the API. It reads files at once and sends nothing to
// Keystone yet.
func (o Options) openAuth(conf config.API) (keeper, error) {
	switch conf.AuthStrategy {
	case "http_basic":
		auth, err := api.NewBasicAuth(conf.HTTPBasicAuthUserFile, conf.HTTPBasicReaders, o.Wall, o.Random, o.Logger)
		if err != nil {
			return keeper{}, fmt.Errorf("api.http_basic_auth_user_file: %w", err)
		}
		return keeper{auth: auth}, nil
	case config.StrategyKeystone:
		return o.openKeystone(conf.Keystone)
	case "noauth":
		return keeper{auth: api.NoAuth()}, nil
	}
	return keeper{}, fmt.Errorf("api.auth_strategy: %q is not known; write http_basic, keystone or noauth",
		conf.AuthStrategy)
}

// openKeystone makes what asks Keystone about callers.
func (o Options) openKeystone(conf config.APIKeystone) (keeper, error) {
	secure, err := servicecreds.OpenTLS(servicecreds.Files{
		CA: conf.TLS.CAFile, Cert: conf.TLS.CertFile, Key: conf.TLS.KeyFile, Insecure: conf.TLS.InsecureSkipVerify,
		Section: "api.keystone",
	}, o.Logger)
	if err != nil {
		return keeper{}, err
	}
	transport := keystone.NewTransport(secure)
	examiner, err := keystone.NewExaminer(keystone.Account{
		URL: conf.AuthURL, User: conf.Username, UserDomain: conf.UserDomain, Project: conf.Project,
		ProjectDomain: conf.ProjectDomain,
		Password: servicecreds.Password{Text: conf.Password.Reveal(), File: conf.PasswordFile,
			Option: "api.keystone.password_file", Reads: new(bounds.Calls)},
	}, transport, o.Wall)
	if err != nil {
		return keeper{}, err
	}
	tokens, err := api.NewKeystoneAuth(conf, examiner, o.Wall, o.Random, o.Logger)
	if err != nil {
		return keeper{}, err
	}
	return keeper{tokens, transport, tokens}, nil
}

// hangUp ends the connections that carry nothing.
func (k keeper) hangUp() {
	if k.transport != nil {
		k.transport.CloseIdleConnections()
	}
}

// keeper returns what decides now.
func (d *doorway) keeper() keeper {
	if f := d.now.Load(); f != nil {
		return f.keeper
	}
	return d.first
}

// keystoneAway tells why Keystone does not say who callers are; nil where it
// does, or is not asked.
func (d *doorway) keystoneAway() error {
	if tokens := d.keeper().tokens; tokens != nil {
		return tokens.Away()
	}
	return nil
}

// lookAtUsers reads the file of http_basic's users again, as every caller does: a fault of it
// is told before one comes.
func (d *doorway) lookAtUsers() {
	if basic, ok := d.keeper().auth.(*api.BasicAuth); ok {
		basic.Look()
	}
}

// userWarnings are for status: that users are refused for what is wrong with their file.
func (d *doorway) userWarnings() []api.Warning {
	basic, ok := d.keeper().auth.(*api.BasicAuth)
	if !ok || basic.Fault() == nil {
		return nil
	}
	return []api.Warning{{Code: "file_unusable", Text: fmt.Sprintf("api.http_basic_auth_user_file: %v", basic.Fault()),
		Remedy: "mend the file with htpasswd -B, or copy that of another host"}}
}

// register adds a figure where Keystone is asked, and nothing elsewhere: a
// constant 1 would pass for an answer.
func (d *doorway) register(r prometheus.Registerer) {
	r.MustRegister(whereAsked{prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "trivet", Name: "keystone_up",
		Help: "1 unless Keystone did not answer this peer's last question, within five minutes.",
	}, func() float64 { return health.BoolValue(d.keystoneAway() == nil) }), d})
}

// whereAsked shows a figure while Keystone is asked.
type whereAsked struct {
	prometheus.Collector
	doorway *doorway
}

// Collect implements prometheus.Collector.
func (w whereAsked) Collect(to chan<- prometheus.Metric) {
	if w.doorway.keeper().tokens != nil {
		w.Collector.Collect(to)
	}
}

// shared is what a joiner that this peer admits is to have as this peer does: what its
// file says of the cluster, and the users of the API as they are now.
func (d *doorway) shared(conf config.Config) cluster.Shared {
	s := cluster.Shared{Settings: conf.Shared()}
	if basic, ok := d.keeper().auth.(*api.BasicAuth); ok {
		var err error
		if s.Users, err = basic.File(); err != nil {
			s.NoUsers = err.Error()
		}
	}
	return s
}
