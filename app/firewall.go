package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/firewall/host"
	"github.com/trivet-ha/trivet/firewall/probe"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

// askLimit bounds the wait for what another peer says of itself, unless the
// caller does.
const askLimit = 2 * time.Second

// model is the driver of Options.Kernel.
const model = "model"

// Firewall implements api.Filter.
func (p *Peer) Firewall() api.Firewall {
	v := p.core.Store.View()
	out := api.Firewall{
		Peer: p.id.Name, ID: p.id.ID, Role: p.role(), Driver: p.driver(), Interface: p.opts.Config.Firewall.Interface,
		Door: p.door(v), Address: p.floating(v), Ports: p.portList(v),
	}
	if p.core.gate != nil {
		out.Rules = p.core.gate.rules(v, p.policy())
	}
	if p.probe != nil {
		servers, err := p.probe.Found()
		for _, s := range servers {
			out.Bypass = append(out.Bypass, api.DHCPServer{Address: s.Address.String(), MAC: s.MAC})
		}
		out.SelfTest = api.ErrorText(err)
	}
	return out
}

// policy is what the configuration says now about who may boot.
func (p *Peer) policy() firewall.Policy { return firewall.PolicyOf(p.config()) }

func (p *Peer) role() string { return strings.ToLower(p.core.Store.Stats().Role) }

// driver names the one in use, also where "auto" is configured.
func (p *Peer) driver() string {
	if p.core.gate == nil {
		return host.Noop
	}
	return p.core.gate.made.Driver
}

// newProbe returns the test of the other hosts' filters, nil where nothing is
// filtered, and where a model has no network.
func (p *Peer) newProbe() *probe.Probe {
	if p.driver() == host.Noop || p.driver() == model {
		return nil
	}
	return probe.New(probe.Options{Interface: p.core.gate.made.Interface, Random: p.opts.Random, Logger: p.opts.Logger})
}

func (p *Peer) door(v fsm.View) api.Door {
	out := api.Door{Recorded: recorded(v, v.PassDoor())}
	if p.core.gate == nil {
		out.Why = "this peer guards no door"
		return out
	}
	s := p.core.gate.Guard.Status()
	out.Model = p.driver() == model
	out.Open, out.Why, out.Token, out.Swaps, out.Lapses = s.Open, s.Why, s.Token, s.Swaps, s.Lapses
	out.Since = api.TimeText(s.Since)
	if _, led := p.core.Store.Leader(); !led && !s.Open {
		out.Why = noQuorum
		if unfit := p.core.Fitness.Fit(); errors.Is(unfit, leader.ErrHung) {
			out.Why = unfit.Error() // it keeps silent meanwhile; the others may well have a leader
		}
	}
	return out
}

// noQuorum is why every door is shut when nobody leads.
const noQuorum = "no quorum: without a leader every door stays shut"

// recorded translates what the log knows of a door.
func recorded(v fsm.View, d fsm.Door) api.Recorded {
	out := api.Recorded{Token: d.OpenBy, Unknown: d.Unknown}
	if !d.OpenBy.IsZero() {
		out.Peer, out.Since = nameOf(v, d.Peer), api.TimeText(time.UnixMilli(d.Wall))
	}
	return out
}

func (p *Peer) floating(v fsm.View) api.FloatingIP {
	out := api.FloatingIP{Recorded: recorded(v, v.AddressDoor())}
	if p.core.gate == nil || p.core.gate.made.Address == nil {
		return out
	}
	s := p.core.gate.Guard.Status()
	out.Address, out.Held, out.Why, out.Conflict = p.core.gate.made.AddressText, s.Held, s.AddressWhy, s.ConflictMAC
	return out
}

// rules compares the kernel's lists with the state.
func (g *gate) rules(v fsm.View, policy firewall.Policy) api.Rules {
	s, _ := g.Lists.State()
	out := api.Rules{
		Wanted: counts(firewall.Count(v, !s.Token.IsZero(), policy)), Actual: counts(s.Counts),
		AsOf: api.TimeText(s.Compared), Drift: s.Drift, Index: s.Index,
	}
	out.Equal, out.Problem = s.Err == nil && out.Wanted == out.Actual, api.ErrorText(s.Err)
	return out
}

func counts(c firewall.Counts) api.RuleCounts {
	return api.RuleCounts{Allow: c.Allow, Deny: c.Deny, Pass: c.Pass}
}

func (p *Peer) portList(v fsm.View) api.PortList {
	out := api.PortList{Ports: v.PortCount()}
	if pull, ok := v.Pull(); ok {
		out.Complete, out.Listed, out.AgeMS = true, api.TimeText(time.UnixMilli(pull.Wall)), p.listAge(v).Milliseconds()
	}
	if p.core.gate != nil {
		out.Problem = api.ErrorText(p.core.gate.Pull.Err())
	}
	return out
}

// listAge is how old the newest complete list of Ironic's ports is, 0 if there
// is none. Cluster time stands still without a leader; that is added.
func (p *Peer) listAge(v fsm.View) time.Duration {
	pull, ok := v.Pull()
	if !ok {
		return 0
	}
	return v.Now().Sub(pull.At) + p.stale(p.core.Store.Stats())
}

// Explain implements api.Filter.
func (p *Peer) Explain(mac string) (api.Explanation, error) {
	x, err := firewall.Explain(p.core.Store.View(), p.hostState(), mac)
	if err != nil {
		return api.Explanation{}, &api.Error{Status: http.StatusBadRequest, Code: api.CodeInvalid, Message: err.Error()}
	}
	out := api.Explanation{Peer: p.id.Name, ID: p.id.ID, Role: p.role(), MAC: x.MAC, Verdict: string(x.Verdict), Why: x.Why}
	for _, s := range x.Steps {
		out.Steps = append(out.Steps, api.Step{Rule: string(s.Rule), Verdict: string(s.Verdict), Reached: s.Reached, Text: s.Text})
	}
	return out, nil
}

func (p *Peer) hostState() firewall.HostState {
	if p.driver() == host.Noop {
		return firewall.HostState{Unfiltered: true}
	}
	g := p.core.gate
	lists, _ := g.Lists.State()
	down := silent(g.made.Interface)
	if g.made.Driver == model {
		down = nil // it has no interface
	}
	return firewall.HostState{
		Interface: g.made.Interface, InterfaceErr: down,
		Relays: firewall.Match(p.opts.Config.Firewall.Match).Relays(), Policy: p.policy(), Lists: lists, Guard: g.Guard.Status(),
		Files: g.made.Driver == host.Dnsmasq,
	}
}

// silent says why nothing arrives on an interface, nil if it may.
func silent(name string) error {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return fmt.Errorf("this host has no such interface: %w", err)
	}
	if link.Flags&net.FlagUp == 0 {
		return fmt.Errorf("it is down; set it up: 'ip link set %s up'", name)
	}
	return nil
}

// Ask implements api.Others.
func (p *Peer) Ask(ctx context.Context, path string) []api.Answer {
	if _, bounded := ctx.Deadline(); !bounded {
		limited, cancel := context.WithTimeout(ctx, askLimit)
		defer cancel()
		ctx = limited
	}
	others := p.others(p.core.Store.View())
	out := make([]api.Answer, len(others)) // a cluster has few members
	var asked sync.WaitGroup
	for i, m := range others {
		asked.Go(func() {
			body, err := p.forward.Ask(ctx, m, path)
			out[i] = api.Answer{Name: m.Name, ID: m.ID, Body: body, Err: err}
		})
	}
	asked.Wait()
	return out
}
