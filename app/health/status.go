package health

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/waits"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/doctor"
	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/internal/logs"
	"github.com/trivet-ha/trivet/raftstore/ballast"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

// wantedVoters is what the design calls a cluster: one may die.
const wantedVoters = 3

// Facts are what this peer says of itself that never changes.
type Facts struct {
	Binary    string // version of the build
	Directory string
	Lends     bool // leases are granted
}

// Self is what a peer knows of itself and of its host. Methods may be called
// concurrently; none asks another peer, and none blocks.
type Self struct {
	Facts    Facts
	Members  *Members
	Door     *Door
	Kube     *Kube       // nil: failover is off
	Address  *FloatingIP // nil: there is none
	Session  *cluster.Session
	Fitness  *leader.Fitness
	Watchdog *leader.Watchdog
	Ironic   *ironic.Reach
	Ballast  *ballast.Ballast
	Renewal  *cluster.Renewal
	Wall     func() time.Time
	// KeystoneAway tells why Keystone does not say who callers are; nil where it does,
	// or is not asked.
	KeystoneAway func() error
	More         Warnings

	report report
}

// Warnings are those of this host whose reason other parts of the peer know.
type Warnings struct {
	Keys          func(fsm.View) []api.Warning
	Backups       func() []api.Warning
	Components    func() []api.Warning
	Receivers     func() []api.Warning
	Configuration func() []api.Warning
	Ramdisks      func() []api.Warning
	Stream        *logs.Queue // of the log; nil: nothing is known of it
}

// Status is what this peer says of itself.
func (s *Self) Status() api.Status {
	v := s.Members.Log.View()
	out := s.summary(v)
	out.Waiting = s.sight(v, out).All()
	return out
}

// summary is the status without what waits for what.
func (s *Self) summary(v fsm.View) api.Status {
	h, reports := s.Members.Hearing(v), s.reports(v)
	out := s.hosts(h, reports)
	out.Introspections, out.Failover = Introspections(v), s.Kube.counts(v)
	out.Upgrade = s.upgrade(v, reports)
	if s.Facts.Lends {
		out.Leases = &api.LeaseCounts{Known: v.LeaseCount(), Held: v.LeasesHeld()}
	}
	out.Warnings = slices.Concat(clusterWarnings(out, formerAddress(s.Members.Log.Servers(), s.Members.Self)),
		suspicionWarnings(v), memberFlagWarnings(h), formerWarnings(v), leaseTableWarnings(tableUsages(v)),
		merged(v, s.Members.Self.ID, reports))
	out.Health = rated(out.Leader, out.Warnings)
	return out
}

// hosts are what this peer knows of itself and of its leader, what hosts say of themselves, and
// who hears whom.
func (s *Self) hosts(h ContactView, reports map[string]hostReport) api.Status {
	self, store, v := s.Members.Self, s.Members.Log, h.view
	stats := store.Stats()
	out := api.Status{
		Build: api.Build{Name: self.Name, ID: self.ID, Cluster: self.Cluster, Version: s.Facts.Binary},
		Leadership: api.Leadership{
			Role: strings.ToLower(stats.Role), Token: v.Leadership().Token, Term: stats.Term, Index: v.Index(),
			Quorum: s.Members.Quorum(h), StaleMS: s.Members.Stale().Milliseconds(), Refuses: api.ErrorText(s.Fitness.Fit()),
		},
		Directory: s.Facts.Directory,
	}
	lead, led := store.Leader()
	leads := membership.Member{ID: lead.ID, Name: s.Members.Name(v, lead.ID)}
	if led {
		out.Leader = leads.Name
		if l := v.Leadership(); l.Peer == lead.ID { // else its first entry is yet to come
			out.LeaderSince = api.TimeText(s.Wall().Add(-v.Now().Sub(l.At)))
		}
	}
	flags := v.MemberFlags(self.ID)
	out.Observer, out.Maintenance = flags.Observer, flags.Maintenance
	out.Quorum.HasWrite = out.Leader != "" && out.Quorum.Live >= out.Quorum.Need
	out.Ready = out.Leader != "" && !s.Session.ID().IsZero()
	out.Peers, out.HeardBy, out.AsOfMS = s.Members.Peers(h, s.Wall()), s.Members.Name(v, h.By), h.Age.Milliseconds()
	out.Door = reports[self.ID].Door
	for i, p := range out.Peers {
		out.Peers[i].WriteMS = reports[p.ID].WriteMS
	}
	out.PXE, out.FloatingIP = pxeService(v, leads, reports), addressHolder(v, leads, reports)
	return out
}

// Peers are the servers of raft, and the members that are none yet.
func (s *Self) Peers() []api.Peer {
	return s.Members.Peers(s.Members.Hearing(s.Members.Log.View()), s.Wall())
}

// Quorum counts votes at this moment.
func (s *Self) Quorum() api.Quorum { return s.Members.Quorum(s.Members.Hearing(s.Members.Log.View())) }

// ownWarnings are those of the cluster and of this host: what this peer's figures
// show. Another host's are in the figures of that one.
func (s *Self) ownWarnings() []api.Warning {
	return slices.DeleteFunc(s.summary(s.Members.Log.View()).Warnings, func(w api.Warning) bool {
		return len(w.Hosts) > 0 && w.Code != "peer_silent" && !slices.Contains(w.Hosts, s.Members.Self.Name)
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

// peerWarnings are what is wrong with this peer itself.
func (s *Self) peerWarnings(v fsm.View) []api.Warning {
	var out warningList
	if unfit := s.Fitness.Fit(); unfit != nil && s.Fitness.Barred() == nil {
		out.add("refuses_to_lead", "mend what it names; this peer still votes and serves", "this peer refuses to lead: %v",
			unfit)
	}
	if away := s.Ironic.Ironic.Err(); away != nil {
		out.add("ironic_away",
			"write the right ironic.endpoint, or see why it does not answer this host: 'trivet doctor --check services'",
			"%v; requests that need it wait here", away)
	}
	if own, apart := s.Ironic.Apart(); apart && own.Err() != nil {
		out.add("ramdisk_endpoint_away",
			"write the right ironic.ramdisk_endpoint, or see why it does not answer this host: 'trivet doctor --check services'",
			"%v; callbacks that are relayed wait", own.Err())
	}
	if away := s.KeystoneAway(); away != nil {
		out.add("keystone_away", "see 'api.keystone' in the configuration and whether Keystone answers from this host",
			"Keystone did not say whose a token is: %v; who is not known here yet gets 503", away)
	}
	clocks := v.VoterSessions() // by them this peer's is judged, and an observer's by its own, too
	if v.MemberFlags(s.Members.Self.ID).Observer {
		clocks = v.Sessions()
	}
	if skew, _ := leader.Skew(clocks, v.Leadership().At, s.Members.Self.ID); skew.Abs() > leader.MaxSkew/2 {
		out.add("clock_skew", "set the clock, for instance with 'chronyc makestep'",
			"this peer's clock is %v off the others'", skew)
	}
	h := s.Members.Hearing(v)
	for _, m := range byName(v.Members()) {
		if heard := h.Of(m.ID); heard.Live && heard.Away {
			out.add("peer_unreachable", doctor.AskPeers+" says what does not get through",
				"%s answers %s, but not this host", m.Name, s.Members.Name(v, h.By))
		}
	}
	return out
}

// Checks are the lines of readyz.
func (s *Self) Checks() []api.HealthCheck {
	led := api.HealthCheck{Name: "leader"}
	if _, ok := s.Members.Log.Leader(); !ok {
		led.Err = errors.New("no leader is known")
	}
	session := api.HealthCheck{Name: "session"}
	if s.Session.ID().IsZero() {
		session.Err = errors.New("this peer has no session in the log")
	}
	maintenance := api.HealthCheck{Name: "maintenance"}
	v, self := s.Members.Log.View(), s.Members.Self.ID
	if v.MemberFlags(self).Maintenance {
		// A balancer is to send its callers elsewhere. The peer would serve them; an operator who says maintenance is
		// about to stop it, and a balancer that drains it before costs no caller an error.
		maintenance.Err = errors.New("this peer is in maintenance: it serves, but send callers to others")
	}
	disk := api.HealthCheck{Name: "disk", Note: api.ErrorText(s.Ballast.Unfit())}
	if stuck := s.Members.Log.Writing(); stuck > s.Watchdog.Limit() {
		disk.Err = fmt.Errorf("one write to the log has been under way for %v", stuck.Round(time.Millisecond))
	}
	reach := api.HealthCheck{Name: "ironic", Err: IronicAway(s.Ironic, v, self)}
	if away := s.Ironic.Ironic.Err(); away != nil && reach.Err == nil {
		reach.Warning = fmt.Errorf("%w; requests that need it wait here", away)
		if !ironicElsewhere(v, self) { // a balancer that drained all peers would help no caller
			reach.Warning = fmt.Errorf("%w, and no other peer reaches it; requests that need it wait", away)
		}
	}
	checks := []api.HealthCheck{led, session, maintenance, disk, reach, {Name: "firewall", Err: s.Door.err()}}
	if s.Address != nil {
		checks = append(checks, s.Address.check())
	}
	return append(checks, api.HealthCheck{Name: "failover", Note: s.Kube.readyzLine()})
}

// upgrade tells of one that is not finalized, nil if there is none.
func (s *Self) upgrade(v fsm.View, reports map[string]hostReport) *api.Upgrade {
	at := v.ClusterVersion()
	if at >= fsm.Version || v.ClusterID() == "" { // else the log has yet to come
		return nil
	}
	out := &api.Upgrade{LogVersion: at, Newest: fsm.Version, HeldBack: fsm.HeldBack(at)}
	for _, m := range byName(v.Members()) {
		if reports[m.ID].Knows < fsm.Version {
			out.WaitsFor = append(out.WaitsFor, m.Name)
		}
	}
	if ran, all := cluster.AllRunFor(v); all && len(out.WaitsFor) == 0 {
		out.Since = api.TimeText(s.Wall().Add(-ran))
	}
	return out
}

// WaitsOf lists what a node waits for.
func (s *Self) WaitsOf(node string) []api.Wait {
	v := s.Members.Log.View()
	return s.sight(v, s.hosts(s.Members.Hearing(v), s.reports(v))).Of(node)
}

// sight is what this peer sees, by which waits are judged.
func (s *Self) sight(v fsm.View, seen api.Status) waits.Sight {
	lead, _ := s.Members.Log.Leader()
	out := waits.Sight{View: v, Config: s.Door.Config(), Wall: s.Wall(), Leader: lead.ID, Servers: s.Members.Log.Servers(),
		Seen: seen, Idle: failover.Settings{}.Idle()}
	if s.Kube != nil {
		out.Idle = s.Kube.Settings.Idle()
	}
	return out
}

// pxeService says on which host machines can boot, from what the hosts that answer
// say of themselves. lead is the leader, whose ID is "" for none.
func pxeService(v fsm.View, lead membership.Member, reports map[string]hostReport) api.PXEService {
	out := api.PXEService{OpenOn: []string{}}
	recorded := v.PassDoor()
	for _, m := range byName(v.Members()) {
		r, answers := reports[m.ID]
		out.Guarded = out.Guarded || r.Guarded
		if answers && r.Guarded && r.Door.Open {
			out.OpenOn, out.Since = append(out.OpenOn, m.Name), r.Door.Since
		}
	}
	if len(out.OpenOn) > 0 || !out.Guarded {
		return out
	}
	_, heard := reports[recorded.Peer]
	switch {
	case lead.ID == "":
		out.Why = noQuorum
	case !recorded.OpenBy.IsZero() && !heard:
		out.Why = NameIn(v, recorded.Peer) + ", which does not answer, may have opened it; its kernel closes it by itself"
	case reports[lead.ID].Door.Why != "":
		out.Why = lead.Name + ", the leader: " + reports[lead.ID].Door.Why
	default:
		out.Why = lead.Name + ", the leader, has not opened it yet"
	}
	return out
}

// addressHolder says which host has the floating IP, nil where no host that
// answers has one configured.
func addressHolder(v fsm.View, lead membership.Member, reports map[string]hostReport) *api.AddressHolder {
	var out *api.AddressHolder
	for _, m := range byName(v.Members()) {
		at := reports[m.ID].Address
		if at.Address == "" {
			continue
		}
		if out == nil {
			out = &api.AddressHolder{Address: at.Address}
		}
		if at.Held {
			out.Address, out.Holder = at.Address, m.Name
		}
	}
	if out == nil || out.Holder != "" {
		return out
	}
	at, answers := reports[lead.ID]
	switch {
	case lead.ID == "":
		out.Why = "no leader"
	case !answers:
		out.Why = lead.Name + ", the leader, does not answer this host"
	case at.Address.Address == "":
		out.Why = lead.Name + ", the leader, has no floating_ip in its configuration"
	default:
		out.Why = lead.Name + ", the leader: " + cmp.Or(at.Address.Why, "it has not taken it yet")
	}
	return out
}

// Introspections counts nodes by the state of their introspection.
func Introspections(v fsm.View) map[string]int {
	out := make(map[string]int)
	for state, n := range countNodes(v).states { // order-free: another map
		out[state.String()] = n
	}
	return out
}
