package app

import (
	"net"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/cluster"
)

// Admin is what operators reach of this peer.
func (p *Peer) Admin() *admin.Control { return p.admin }

// Status is what this peer says of itself. It asks no other peer and never blocks.
func (p *Peer) Status() api.Status { return p.self.Status() }

// newAdmin makes it.
func (p *Peer) newAdmin() *admin.Control {
	core, o, members := p.core, p.opts, p.self.Members
	here := &admin.Here{
		Self: p.id, Store: core.Store, Session: core.Session, Forward: p.forward, NameOf: members.Name, Others: members.Others,
		Wall: o.Wall, Random: o.Random, Logger: o.Logger,
	}
	membership := &admin.Membership{
		Here: here, Ending: p.Ending, Port: p.port, Access: p.access, Fit: core.Fitness.Fit, Lift: core.Fitness.Lift, HandOn: core.HandOn, Rest: core.Rest,
	}
	c := &admin.Control{
		State: admin.State{Log: core.Store, Do: core.Session, Wall: o.Wall, Stale: members.Stale},
		Host: admin.Host{
			Status: p.self.Status, Peers: p.self.Peers, Firewall: p.self.Door.Firewall, Explain: p.self.Door.Explain, Examine: newExaminer(p).Facts, Bundle: p.Bundle,
			View: p.view, Names: p.names, Ask: here.Ask,
		},
		Membership: membership, Keys: &admin.Keys{Here: here, Renewal: p.renewal}, Drill: p.newDrill(membership), Configuration: p.conf,
		Kube:   admin.KubeControl{AskLeader: here.AskLeader, Ask: here.Ask},
		Events: p.events, Admission: p.serving.admission, Report: p.recorder.Report, Logger: o.Logger,
	}
	if core.Service != nil {
		c.Import = core.Service
	}
	if k := core.kube; k != nil {
		c.Kube.Here = &admin.KubeNodes{Here: here, Controller: k.Controller, Clusters: k.made.Clusters, Fences: k.made.Fences}
	}
	return c
}

func (p *Peer) newDrill(members *admin.Membership) *admin.Drill {
	conf := p.opts.Config
	d := &admin.Drill{
		Here: members.Here, Members: members, Exit: p.opts.Exit,
		Quorum: p.self.Quorum,
	}
	g := p.core.gate
	if g == nil {
		return d
	}
	d.Door, d.HasFloat = func() bool { return g.Guard.Status().Open }, g.made.Address != nil
	if _, port, err := net.SplitHostPort(conf.API.Listen); d.HasFloat && err == nil {
		d.Address = net.JoinHostPort(conf.FloatingIP.Address, port)
	}
	return d
}

// newRing makes the follower of the gossip keys. They are on the disk before
// they are used.
func (p *Peer) newRing(now cluster.Ring) *cluster.RingFollower {
	return cluster.NewRingFollower(cluster.RingOptions{
		Peer: p.id.ID, Now: now, View: p.core.Store.View, Do: p.core.Session,
		Put: []func(cluster.Ring) error{p.opts.Dir.SaveRing, p.gossip.SetRing}, Logger: p.opts.Logger,
	})
}
