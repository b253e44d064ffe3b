package app

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

// wantedVoters is what the design calls a cluster: one may die.
const wantedVoters = 3

// Status implements api.Local. It asks nobody and never blocks.
func (p *Peer) Status() api.Status {
	v := p.core.Store.View()
	h := p.hearing(v)
	s := p.basics(h)
	s.Peers, s.HeardBy, s.AsOfMS = p.peers(h), p.nameOf(v, h.By), h.Age.Milliseconds()
	reports := p.reports(v)
	s.Door = reports[p.id.ID].Door
	lead, _ := p.core.Store.Leader()
	leads := fsm.Member{ID: lead.ID, Name: p.nameOf(v, lead.ID)}
	s.PXE, s.FloatingIP = pxeService(v, leads, reports), addressHolder(v, leads, reports)
	s.Introspections, s.Failover, s.Leases = introspections(v), p.failoverCounts(v), p.leaseCounts(v)
	s.Warnings = slices.Concat(clusterWarnings(s, formerAddress(p.core.Store.Servers(), p.id)), suspicionWarnings(v), memberFlagWarnings(h), formerWarnings(v), leaseTableWarnings(tableUsages(v)), merged(v, p.id.ID, reports))
	s.Health = rated(s.Leader, s.Warnings)
	return s
}

// ownWarnings are those of the cluster and of this host: what this peer's figures
// show. Another host's are in the figures of that one.
func (p *Peer) ownWarnings() []api.Warning {
	return slices.DeleteFunc(p.Status().Warnings, func(w api.Warning) bool {
		return len(w.Hosts) > 0 && w.Code != "peer_silent" && !slices.Contains(w.Hosts, p.id.Name)
	})
}

// rated gives each warning its severity and returns the health that follows.
func rated(leader string, warnings []api.Warning) string {
	health := api.Healthy
	for i, w := range warnings {
		switch {
		case w.Severity == api.SeverityAdvice: // for a reason of its own
		case degrades(w.Code):
			warnings[i].Severity, health = api.SeverityDegraded, api.Degraded
		default:
			warnings[i].Severity = api.SeverityAdvice
		}
	}
	if leader == "" {
		return api.NoLeader
	}
	return health
}

// basics are what this peer knows of itself and of its leader.
func (p *Peer) basics(h contactView) api.Status {
	store, v := p.core.Store, h.view
	stats := store.Stats()
	s := api.Status{
		Name: p.id.Name, ID: p.id.ID, Cluster: p.id.Cluster, Version: p.opts.Binary, Role: strings.ToLower(stats.Role),
		Token: v.Leadership().Token, Term: stats.Term, Index: v.Index(), Directory: p.opts.Dir.Path(),
		Quorum: p.quorum(h), StaleMS: p.stale(stats).Milliseconds(),
	}
	if l, ok := store.Leader(); ok {
		s.Leader = p.nameOf(v, l.ID)
		if lead := v.Leadership(); lead.Peer == l.ID { // else its first entry is yet to come
			s.LeaderSince = api.TimeText(p.opts.Wall().Add(-v.Now().Sub(lead.At)))
		}
	}
	if err := p.core.Fitness.Fit(); err != nil {
		s.Refuses = err.Error()
	}
	flags := v.MemberFlags(p.id.ID)
	s.Observer, s.Maintenance = flags.Observer, flags.Maintenance
	s.Quorum.HasWrite = s.Leader != "" && s.Quorum.Live >= s.Quorum.Need
	s.Ready = s.Leader != "" && !p.core.Session.ID().IsZero()
	return s
}

// stale is for how long this peer has heard of no leader.
func (p *Peer) stale(stats raftstore.Stats) time.Duration {
	if _, ok := p.core.Store.Leader(); ok || stats.LastContact.IsZero() {
		return 0
	}
	return time.Since(stats.LastContact)
}

// peerWarnings are what is wrong with this peer itself.
func (p *Peer) peerWarnings(v fsm.View) []api.Warning {
	var out []api.Warning
	add := func(code, remedy, format string, args ...any) {
		out = append(out, api.Warning{Code: code, Text: fmt.Sprintf(format, args...), Remedy: remedy})
	}
	if unfit := p.core.Fitness.Fit(); unfit != nil && p.core.Fitness.Barred() == nil {
		add("refuses_to_lead", "mend what it names; this peer still votes and serves", "this peer refuses to lead: %v", unfit)
	}
	if away := p.core.Health.Err(); away != nil {
		add("ironic_away", "write the right ironic.endpoint, or see why it does not answer this host: 'trivet doctor --check services'", "%v; requests that need it wait here", away)
	}
	if away := p.keystoneAway(); away != nil {
		add("keystone_away", "see 'api.keystone' in the configuration and whether Keystone answers from this host",
			"Keystone did not say who a caller is: %v; who is not known here yet gets 503", away)
	}
	if skew, _ := leader.Skew(p.clocks(v), v.Leadership().At, p.id.ID); skew.Abs() > leader.MaxSkew/2 {
		add("clock_skew", "set the clock, for instance with 'chronyc makestep'", "this peer's clock is %v off the others'", skew)
	}
	h := p.hearing(v)
	for _, m := range byName(v.Members()) {
		if heard := h.Of(m.ID); heard.Live && heard.Away {
			add("peer_unreachable", "'trivet doctor --check peers' says what does not get through", "%s answers %s, but not this host", m.Name, p.nameOf(v, h.By))
		}
	}
	return out
}

var (
	errNoLeaderKnown = errors.New("no leader is known")
	errNoSession     = errors.New("this peer has no session in the log")
)

// checks are the lines of readyz.
func (p *Peer) checks() []api.HealthCheck {
	led := api.HealthCheck{Name: "leader"}
	if _, ok := p.core.Store.Leader(); !ok {
		led.Err = errNoLeaderKnown
	}
	session := api.HealthCheck{Name: "session"}
	if p.core.Session.ID().IsZero() {
		session.Err = errNoSession
	}
	disk := api.HealthCheck{Name: "disk", Note: api.ErrorText(p.ballast.Unfit())}
	if stuck := p.core.Store.Writing(); stuck > p.core.Watchdog.Limit() {
		disk.Err = fmt.Errorf("one write to the log has been under way for %v", stuck.Round(time.Millisecond))
	}
	checks := []api.HealthCheck{led, session, p.maintenanceCheck(), disk, p.ironicCheck(), {Name: "firewall", Err: p.core.filterErr()}}
	if p.address != nil {
		checks = append(checks, p.carries.check())
	}
	return append(checks, api.HealthCheck{Name: "failover", Note: p.kubeNote()})
}

// ironicCheck is the line of readyz about Ironic. Where no peer reaches it, none is
// better than this one: a balancer that drained them all would help no caller.
func (p *Peer) ironicCheck() api.HealthCheck {
	c := api.HealthCheck{Name: "ironic", Err: p.core.ironicAway()}
	if away := p.core.Health.Err(); away != nil && c.Err == nil {
		c.Warning = fmt.Errorf("%w; requests that need it wait here", away)
		if !ironicElsewhere(p.core.Store.View(), p.id.ID) {
			c.Warning = fmt.Errorf("%w, and no other peer reaches it; requests that need it wait", away)
		}
	}
	return c
}
