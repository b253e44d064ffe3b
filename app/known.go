package app

import (
	"context"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/admin"
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
		Keystone: func() (bool, error) { return p.serving.keeper().tokens != nil, p.serving.keystoneAway() }, Components: p.kube.components.services,
	}
	if p.kube.failover != nil {
		r.Clusters = p.kube.failover.Clusters
	}
	return r.Health(ctx)
}

// askLimit bounds the wait for what another peer says of itself, unless the
// caller does.
const askLimit = 2 * time.Second

// Ask implements admin.Others.
func (p *Peer) Ask(ctx context.Context, path string) []admin.Answer {
	if _, bounded := ctx.Deadline(); !bounded {
		limited, cancel := context.WithTimeout(ctx, askLimit)
		defer cancel()
		ctx = limited
	}
	others := p.others(p.core.Store.View())
	out := make([]admin.Answer, len(others)) // a cluster has few members
	var asked sync.WaitGroup
	for i, m := range others {
		asked.Go(func() {
			body, err := p.forward.Ask(ctx, m, path)
			out[i] = admin.Answer{Name: m.Name, ID: m.ID, Body: body, Err: err}
		})
	}
	asked.Wait()
	return out
}
