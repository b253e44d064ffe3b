package app

import (
	"net"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/admin"
)

// Admin is what operators reach of this peer.
func (p *Peer) Admin() *admin.Control { return p.admin }

// Status is what this peer says of itself. It asks no other peer and never blocks.
func (p *Peer) Status() api.Status { return p.self.Status() }

// newAdmin gives each part of the operators' interface what it needs of this peer.
func (p *Peer) newAdmin() *admin.Control {
	core, o, members := p.core, p.opts, p.self.Members
	here := &admin.Here{
		Self: p.id, Store: core.Store, Session: core.Session, Forward: p.forward, NameOf: members.Name,
		Others: members.Others,
		Wall:   o.Wall, Random: o.Random, Logger: o.Logger,
	}
	membership := &admin.Membership{
		Here: here, Ending: p.Ending, Port: p.port, Access: p.access, Fit: core.Fitness.Fit, Lift: core.Fitness.Lift,
		HandOn: core.HandOn, Rest: core.Rest, Quorum: p.self.Quorum,
		Disowned: orphan{p.id.ID, core.Store, p.forward.ReadIndex}.disowned,
	}
	drill := &admin.Drill{Here: here, Members: membership, Exit: o.Exit, Quorum: p.self.Quorum}
	if g := core.gate; g != nil { // else this host filters nothing, and a drill looks at nothing
		drill.Door, drill.HasFloat = func() bool { return g.Guard.Status().Open }, g.made.Address != nil
		if _, port, err := net.SplitHostPort(o.Config.API.Listen); drill.HasFloat && err == nil {
			drill.Address = net.JoinHostPort(o.Config.FloatingIP.Address, port)
		}
	}
	told := bundler{o.Binary, o.Recent, p.conf, p.passwords, p.self, p.figures, core.Store.View}
	c := &admin.Control{
		State: admin.State{Log: core.Store, Do: core.Session, Wall: o.Wall, Stale: core.age,
			Rewritten: func() []string { return p.texts.unreadNow(p.conf.Current()) }, Waiting: p.conf.Waiting},
		Logs: admin.Logs{Peer: p.id.Name, ID: p.id.ID, Recent: o.Recent, Redactor: told.redactor, Ask: here.Ask},
		Host: admin.Host{
			Status: p.self.Status, Peers: p.self.Peers, Firewall: p.self.Door.Firewall, Explain: p.self.Door.Explain,
			Heard:   p.self.Door.Heard,
			Examine: newExaminer(p).Facts,
			Bundle:  told.files, View: core.Store.View,
			Names: p.names, Ask: here.Ask,
		},
		Membership: membership, Keys: &admin.Keys{Here: here, Renewal: p.renewal}, Drill: drill,
		Upgrade: &admin.Upgrade{Here: here, Finalizer: core.Finalizer}, Configuration: p.conf,
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
