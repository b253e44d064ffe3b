package app

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/leader"
	"github.com/trivet-ha/trivet/raftstore"
)

// wantedVoters is what the design calls a cluster: one may die.
const wantedVoters = 3

// Status implements api.Local. It asks nobody and never blocks.
func (p *Peer) Status() api.Status {
	store := p.core.Store
	v, stats := store.View(), store.Stats()
	s := api.Status{
		Name: p.id.Name, ID: p.id.ID, Cluster: p.id.Cluster, Version: p.opts.Binary, Role: strings.ToLower(stats.Role),
		Token: v.Leadership().Token, Term: stats.Term, Index: v.Index(), Directory: p.opts.Dir.Path(),
		Quorum: p.quorum(v), StaleMS: p.stale(stats).Milliseconds(),
	}
	if l, ok := store.Leader(); ok {
		s.Leader = nameOf(v, l.ID)
	}
	if err := p.core.Fitness.Fit(); err != nil {
		s.Refuses = err.Error()
	}
	standing := v.Standing(p.id.ID)
	s.Observer, s.Maintenance = standing.Observer, standing.Maintenance
	s.Quorum.HasWrite = s.Leader != "" && s.Quorum.Live >= s.Quorum.Need
	s.Ready = s.Leader != "" && !p.core.Session.ID().IsZero()
	s.Door = p.door(v)
	s.Warnings = slices.Concat(p.warnings(v, s), p.standingWarnings(v), p.keyWarnings(v), p.backups.warnings(), p.doorWarnings(v), floatingWarnings(FloatingProblems(p.config())), p.kubeWarnings(v), p.ha.warnings(), p.configWarnings(), lentWarnings(lentTables(v)), differWarnings(v), diskWarnings(p.ballast.State()))
	return s
}

// stale is for how long this peer has heard of no leader.
func (p *Peer) stale(stats raftstore.Stats) time.Duration {
	if _, ok := p.core.Store.Leader(); ok || stats.LastContact.IsZero() {
		return 0
	}
	return time.Since(stats.LastContact)
}

// living returns who lives as far as this peer knows. Without a leader the
// sessions in the state are frozen, so gossip says it.
func (p *Peer) living(v fsm.View) func(id string) bool {
	_, led := p.core.Store.Leader()
	gossip := p.gossip.States()
	return func(id string) bool {
		_, session := v.SessionOf(id)
		return id == p.id.ID || led && session || !led && gossip[id] == "alive"
	}
}

// quorum counts votes.
func (p *Peer) quorum(v fsm.View) api.Quorum {
	lives := p.living(v)
	var q api.Quorum
	for _, srv := range p.core.Store.Servers() {
		if !srv.Voter {
			continue
		}
		q.Voters++
		if lives(srv.ID) {
			q.Live++
		}
	}
	q.Need = q.Voters/2 + 1
	q.CanLose = max(q.Live-q.Need, 0)
	return q
}

func (p *Peer) warnings(v fsm.View, s api.Status) []api.Warning {
	var out []api.Warning
	add := func(code, remedy, format string, args ...any) {
		out = append(out, api.Warning{Code: code, Text: fmt.Sprintf(format, args...), Remedy: remedy})
	}
	switch {
	case s.Leader == "":
		add("no_leader", "bring the other peers back; for a majority lost for ever see 'trivet recover --help'",
			"no leader: %d of %d voters seem to live, %d are needed", s.Quorum.Live, s.Quorum.Voters, s.Quorum.Need)
	case s.Quorum.Voters == 2:
		add("two_voters", "join a third peer: 'trivet token create'", "two voters are worse than one: the cluster stops when either dies")
	case s.Quorum.Voters < wantedVoters:
		add("few_voters", "join more peers: 'trivet token create'", "%d voter: nothing may die", s.Quorum.Voters)
	case s.Quorum.CanLose == 0:
		add("no_margin", "bring the missing peer back, or replace it: 'trivet remove', then join", "no further voter may die")
	}
	if s.Refuses != "" && p.core.Fitness.Barred() == nil {
		add("refuses_to_lead", "mend what it names; this peer still votes and serves", "this peer refuses to lead: %s", s.Refuses)
	}
	if away := p.core.Reach.Err(); away != nil {
		add("ironic_away", "see 'ironic' in the configuration and whether it answers from this host", "%v; requests that need it wait here", away)
	}
	if away := p.keystoneAway(); away != nil {
		add("keystone_away", "see 'api.keystone' in the configuration and whether Keystone answers from this host",
			"Keystone did not say who a caller is: %v; who is not known here yet gets 503", away)
	}
	if suspicion, ok := inspector.SuspicionOf(v); ok {
		add("sync_suspicion", "if that is right: 'trivet node sync --confirm'", "no node is deleted: %s", suspicion.Reason)
	}
	if skew, _ := leader.Skew(p.clocks(v), v.Leadership().At, p.id.ID); skew.Abs() > leader.MaxSkew/2 {
		add("clock_skew", "set the clock, for instance with 'chronyc makestep'", "this peer's clock is %v off the others'", skew)
	}
	return out
}

// Peers implements api.Local.
func (p *Peer) Peers() []api.Peer {
	v := p.core.Store.View()
	leading, _ := p.core.Store.Leader()
	gossip, lives := p.gossip.States(), p.living(v)
	out := []api.Peer{}
	for _, srv := range p.core.Store.Servers() {
		row := api.Peer{
			ID: srv.ID, Name: nameOf(v, srv.ID), Address: srv.Address, Voter: srv.Voter,
			Leader: srv.ID == leading.ID, Self: srv.ID == p.id.ID, Live: lives(srv.ID), Gossip: "unknown",
		}
		if state, ok := gossip[srv.ID]; ok {
			row.Gossip = state
		}
		standing := v.Standing(srv.ID)
		row.Observer, row.Maintenance = standing.Observer, standing.Maintenance
		if ses, ok := v.SessionOf(srv.ID); ok {
			row.Applied, row.SkewMS, row.Refuses = ses.Applied, ses.SkewMillis, ses.Refuses
		}
		out = append(out, row)
	}
	return out
}

var (
	errNoLeaderKnown = errors.New("no leader is known")
	errNoSession     = errors.New("this peer has no session in the log")
)

// checks are the lines of readyz.
func (p *Peer) checks() []api.HealthCheck {
	s := p.Status()
	led := api.HealthCheck{Name: "leader"}
	if s.Leader == "" {
		led.Err = errNoLeaderKnown
	}
	session := api.HealthCheck{Name: "session"}
	if p.core.Session.ID().IsZero() {
		session.Err = errNoSession
	}
	disk := api.HealthCheck{Name: "disk", Note: text(p.ballast.Unfit())}
	if stuck := p.core.Store.Writing(); stuck > p.core.Watchdog.Limit() {
		disk.Err = fmt.Errorf("one write to the log has been under way for %v", stuck.Round(time.Millisecond))
	}
	return []api.HealthCheck{led, session, p.maintenanceCheck(), disk, {Name: "ironic", Err: p.core.ironicAway()}, {Name: "firewall", Err: p.core.filterErr()}, {Name: "failover", Note: p.kubeNote()}}
}
