package app

import (
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/firewall"
)

// prepare makes everything that another configuration needs because of the keys
// applied, and returns what puts it into its place, which cannot fail. Until that is
// called nothing has changed.
func (p *Peer) prepare(next config.Config, applied []string) (parts []func(), err error) {
	changed := sections(applied)
	texts, _ := p.texts.read(next) // before the parts read the files: what is written meanwhile shows at the next look
	for _, part := range []struct {
		touched bool
		make    func(next config.Config) (put func(), err error)
	}{
		{changed.has("ironic"), func(c config.Config) (func(), error) { return p.ironic.Prepare(c.Ironic) }},
		{changed.has("inspection"), func(c config.Config) (func(), error) { return p.core.inspect.prepare(p.opts, c) }},
		{changed.has("api", "inspection"),
			func(c config.Config) (func(), error) { return p.prepareFront(c, changed.has("api")) }},
		{changed.has("firewall", "inspection"), p.core.gate.prepare},
		{changed.has("failover"), p.core.kube.prepare},
		{slices.Contains(applied, "failover.fence_file"), p.kube.fences.prepare},
		{changed.has("events"), func(c config.Config) (func(), error) { return prepareReceivers(p.opts, p.receivers, c) }},
		{changed.has("log") && p.opts.Log != nil, func(c config.Config) (func(), error) {
			return func() { p.opts.Log(c.Log) }, nil
		}},
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
	return append(parts, func() { p.texts.keep(texts, applied) }), nil
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

func (in *introspector) prepare(o Options, next config.Config) (put func(), err error) {
	settings, err := o.openSettings(next.Inspection)
	if err != nil {
		return nil, err
	}
	return func() { in.live.Set(settings) }, nil
}

// prepareFront makes the API again. Its Auth stays unless section api was touched,
// because it remembers the credentials that it has examined.
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

func (g *gate) prepare(next config.Config) (put func(), err error) {
	if g == nil {
		return func() {}, nil
	}
	terms := firewall.Terms{Policy: firewall.PolicyOf(next), Compare: next.Firewall.WhitelistPollPeriod}
	return func() {
		g.Lists.Renew(terms)
		g.Pull.Renew(next.Firewall.SyncPeriod)
	}, nil
}

func (k *kubeWatch) prepare(next config.Config) (put func(), err error) {
	if k == nil {
		return func() {}, nil
	}
	settings, err := kubeSettings(next.Failover)
	if err != nil {
		return nil, err
	}
	return func() { k.Controller.Renew(settings) }, nil
}
