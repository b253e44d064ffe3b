package app

import (
	"context"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/health"
	"github.com/trivet-ha/trivet/doctor"
	"github.com/trivet-ha/trivet/fsm"
)

// What the control interface asks of this peer's own knowledge.

// Status implements admin.Local.
func (p *Peer) Status() api.Status { return p.self.Status() }

// Peers implements admin.Local.
func (p *Peer) Peers() []api.Peer { return p.self.Peers() }

// Firewall implements admin.Filter.
func (p *Peer) Firewall() api.Firewall { return p.self.Door.Firewall() }

// Explain implements admin.Filter.
func (p *Peer) Explain(mac string) (api.Explanation, error) { return p.self.Door.Explain(mac) }

func (p *Peer) nameOf(v fsm.View, id string) string { return p.self.Members.Name(v, id) }

func (p *Peer) others(v fsm.View) []fsm.Member { return p.self.Members.Others(v) }

func (p *Peer) hearing(v fsm.View) health.ContactView { return p.self.Members.Hearing(v) }

func (p *Peer) quorum(h health.ContactView) api.Quorum { return p.self.Members.Quorum(h) }

func (p *Peer) strands(ctx context.Context, id string) error { return p.self.Members.Strands(ctx, id) }

func (p *Peer) silent(ctx context.Context, members []fsm.Member) []string {
	return p.self.Members.Silent(ctx, members)
}

// health is what doctor asks of this peer and of those that it needs.
func (p *Peer) health(ctx context.Context) doctor.Health {
	r := &health.Reach{
		Members: p.self.Members, Binary: p.opts.Binary, Greet: p.forward.Greet, Ping: p.gossip.Ping, Ironic: p.ironic.Version,
		Keystone: func() (bool, error) { return p.keeperNow().tokens != nil, p.keystoneAway() }, Components: p.ha.services,
	}
	if p.kube.made != nil {
		r.Clusters = p.kube.made.Clusters
	}
	return r.Health(ctx)
}
