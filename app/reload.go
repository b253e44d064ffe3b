package app

import (
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/firewall"
)

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
