package app

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/firewall"
)

// configured is the configuration of a peer, which may be read again.
type configured struct {
	conf atomic.Pointer[config.Config] // in force; nobody changes what it points to
	left atomic.Pointer[unapplied]     // since the newest attempt to reload; nil before the first
	mu   sync.Mutex                    // one reload at a time
}

func newConfigured(c config.Config) *configured {
	out := new(configured)
	out.conf.Store(&c)
	return out
}

// unapplied is what stands in the configuration's sources and does not count.
type unapplied struct {
	restart []string // keys that wait for the next start
	refused error    // why the sources were not taken at all
}

// config returns the configuration in force.
func (c *configured) config() config.Config { return *c.conf.Load() }

// Reload reads the configuration again. What a running peer can change is
// changed: everything that may fail is made first, beside what is in force, and
// then put in its place, so that a configuration that will not do changes
// nothing. Each part is replaced in one step; what has begun ends by what it
// began with. The answer names what has changed, and what has to wait for the
// next start. A refusal is an *api.Error. It may be called concurrently.
func (p *Peer) Reload(context.Context) (admin.Reloaded, error) {
	p.configured.mu.Lock()
	defer p.configured.mu.Unlock()
	if p.opts.Load == nil {
		return admin.Reloaded{}, &api.Error{Status: http.StatusConflict, Code: api.CodeConflict, Message: "this peer has no configuration that could be read again", Hint: "restart it"}
	}
	now := p.config()
	next, err := p.opts.Load()
	if err != nil {
		return admin.Reloaded{}, p.refuseConfig(err)
	}
	r := now.Renew(next)
	parts, err := p.prepare(now, r.Config)
	if err != nil {
		return admin.Reloaded{}, p.refuseConfig(err)
	}
	for _, put := range parts {
		put()
	}
	p.conf.Store(&r.Config)
	p.left.Store(&unapplied{restart: r.Restart})
	return p.reloaded(r), nil
}

// refuseConfig keeps why nothing was changed, for the status, and tells it.
func (p *Peer) refuseConfig(why error) error {
	left := unapplied{refused: why}
	if before := p.left.Load(); before != nil {
		left.restart = before.restart
	}
	p.left.Store(&left)
	for line := range strings.SplitSeq(why.Error(), "\n") {
		p.opts.Logger.Error("reload configuration failed, keeping the current one", "err", line)
	}
	return &api.Error{Status: http.StatusBadRequest, Code: api.CodeInvalid, Message: why.Error(), Hint: "nothing was changed; mend what is named and look again with 'trivet config check'"}
}

// reloaded tells what a reload came to, and logs it.
func (p *Peer) reloaded(r config.Renewal) admin.Reloaded {
	log := p.opts.Logger
	for _, key := range r.Restart {
		log.Warn("configuration change needs a restart", "key", key)
	}
	out := admin.Reloaded{Applied: slices.Concat([]string{}, r.Applied), Restart: slices.Concat([]string{}, r.Restart)}
	for _, problem := range r.Together {
		log.Warn("reload configuration failed next to keys that need a restart, keeping the current one", "err", problem.String())
		out.Together = append(out.Together, problem.String())
	}
	for _, w := range r.Config.Warnings() {
		out.Warnings = append(out.Warnings, w.String())
	}
	log.Info("configuration reloaded", "applied", r.Applied, "needs_restart", r.Restart)
	return out
}

// prepare makes everything that another configuration needs and this one has
// not, and returns what puts it into its place, which cannot fail. Until that is
// called nothing has changed.
func (p *Peer) prepare(now, next config.Config) (parts []func(), err error) {
	changed := sections(config.Differing(now, next))
	for _, part := range []struct {
		touched bool
		make    func(next config.Config) (put func(), err error)
	}{
		{changed.has("ironic"), func(c config.Config) (func(), error) { return p.ironic.Prepare(c.Ironic) }},
		{changed.has("inspection"), p.prepareInspection},
		{changed.has("api", "inspection"), func(c config.Config) (func(), error) { return p.prepareFront(c, changed.has("api")) }},
		{changed.has("firewall", "inspection"), p.prepareGate},
		{changed.has("failover"), p.prepareFailover},
		{changed.has("log"), p.prepareLog},
	} {
		if !part.touched {
			continue
		}
		put, err := part.make(next)
		if err != nil {
			return nil, err
		}
		parts = append(parts, put)
	}
	return parts, nil
}

// sections are the outermost sections of keys.
type sections []string

// has reports whether a key of one of the sections is among them.
func (keys sections) has(names ...string) bool {
	return slices.ContainsFunc(keys, func(key string) bool {
		section, _, _ := strings.Cut(key, ".")
		return slices.Contains(names, section)
	})
}

func (p *Peer) prepareInspection(next config.Config) (put func(), err error) {
	settings, err := p.opts.openSettings(next.Inspection)
	if err != nil {
		return nil, err
	}
	return func() { p.core.inspect.live.Set(settings) }, nil
}

// prepareFront makes the API anew. Who decides about callers stays who he is
// unless section api was touched: he remembers whom he knows.
func (p *Peer) prepareFront(next config.Config, auth bool) (put func(), err error) {
	old := p.serving.keeper()
	k := old
	if auth {
		if k, err = p.opts.openAuth(next.API); err != nil {
			return nil, err
		}
	}
	f, err := p.newFront(next, k)
	if err != nil {
		return nil, err
	}
	return func() {
		p.serving.now.Store(f)
		if auth {
			old.hangUp()
		}
	}, nil
}

func (p *Peer) prepareGate(next config.Config) (put func(), err error) {
	g := p.core.gate
	if g == nil {
		return func() {}, nil
	}
	terms := firewall.Terms{Policy: firewall.PolicyOf(next), Compare: next.Firewall.WhitelistPollPeriod}
	return func() {
		g.Lists.Renew(terms)
		g.Pull.Renew(next.Firewall.SyncPeriod)
	}, nil
}

func (p *Peer) prepareFailover(next config.Config) (put func(), err error) {
	if p.core.kube == nil {
		return func() {}, nil
	}
	settings, err := kubeSettings(next.Failover)
	if err != nil {
		return nil, err
	}
	return func() { p.core.kube.Controller.Renew(settings) }, nil
}

func (p *Peer) prepareLog(next config.Config) (put func(), err error) {
	if p.opts.Log == nil {
		return func() {}, nil
	}
	return func() { p.opts.Log(next.Log) }, nil
}

// configWarnings are what stands in the configuration and does not count.
func (p *Peer) configWarnings() []api.Warning {
	left := p.left.Load()
	if left == nil {
		return nil
	}
	var out []api.Warning
	if why := left.refused; why != nil {
		first, more, _ := strings.Cut(why.Error(), "\n")
		if n := strings.Count(more, "\n") + 1; more != "" {
			first += fmt.Sprintf(" (and %d more)", n)
		}
		out = append(out, api.Warning{Code: "config_refused", Text: "the configuration was read again and will not do, so nothing was changed: " + first,
			Remedy: "mend what 'trivet config check' names, then 'systemctl reload trivet'"})
	}
	if keys := left.restart; len(keys) > 0 {
		out = append(out, api.Warning{Code: "restart_needed", Text: "changed in the configuration, and counts from the next start of this peer: " + strings.Join(keys, ", "),
			Remedy: "'systemctl restart trivet', when 'trivet status' says that one peer may be lost; or change it back"})
	}
	return out
}
