package health

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/trivet-ha/trivet/firewall/recorder"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

// Gauge adds a figure that is read when it is scraped.
func (f *Figures) Gauge(name, help string, value func() float64) {
	f.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "trivet", Name: name, Help: help}, value))
}

// Counter is Gauge for what never becomes less.
func (f *Figures) Counter(name, help string, value func() float64) {
	f.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "trivet", Name: name, Help: help}, value))
}

// Flag is Gauge for what is 1 or 0.
func (f *Figures) Flag(name, help string, value func() bool) {
	f.Gauge(name, help, func() float64 { return BoolValue(value()) })
}

// Desc describes a figure with labels.
func Desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("trivet_"+name, help, labels, nil)
}

// Show takes one value of a figure with labels.
type Show func(of *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string)

// Scraped are figures with labels that are read when they are scraped.
type Scraped struct {
	Figures []*prometheus.Desc
	Read    func(Show)
}

// Describe implements prometheus.Collector.
func (s *Scraped) Describe(out chan<- *prometheus.Desc) {
	for _, d := range s.Figures {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (s *Scraped) Collect(out chan<- prometheus.Metric) {
	s.Read(func(of *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(of, kind, value, labels...)
	})
}

// nodeFigures are those of introspections, and of awaited machines that do not come up. Every state and
// every finding is there, so that no alert waits for a series that was never seen.
func nodeFigures(view func() fsm.View) *Scraped {
	states := Desc("introspections", "Nodes with a record of their introspection, by its state, in the whole cluster.",
		"state")
	recent := Desc("introspections_recently_ended",
		"Introspections that ended within the last hour of cluster time, by how, in the whole cluster.", "state")
	stopped := Desc("boot_stopped_machines",
		"Machines that are awaited and do not come up, by what stops them first, in the whole cluster.", "finding")
	return &Scraped{[]*prometheus.Desc{states, recent, stopped}, func(show Show) {
		v := view()
		n, stops := countNodes(v), recorder.Stopped(v)
		for s := introspection.NodeStarting; s <= introspection.NodeAborting; s++ {
			show(states, prometheus.GaugeValue, float64(n.states[s]), s.String())
			if !s.Active() {
				show(recent, prometheus.GaugeValue, float64(n.recent[s]), s.String())
			}
		}
		for _, code := range recorder.Codes() {
			show(stopped, prometheus.GaugeValue, float64(stops[code]), code)
		}
	}}
}

// Register fills the registry of f. Nearly all figures are read when it is scraped: no
// counter can be forgotten on the way. leads says whether this peer leads with all its
// duties, and busy how many requests it works on.
func (s *Self) Register(f *Figures, leads func() bool, busy func() int) {
	store := s.Members.Log
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "trivet", Name: "build_info", Help: "Always 1; the labels say what runs.",
		ConstLabels: prometheus.Labels{"version": s.Facts.Binary, "peer": s.Members.Self.Name},
	})
	info.Set(1)
	f.MustRegister(f.commits, f.requests, f.Throttled, f.logins, f.elections, nodeFigures(store.View),
		warningFigures(s.ownWarnings), info,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	f.Flag("raft_leader", "1 while this peer leads with all its duties, by its own belief.", leads)
	f.Flag("leader_fit", "1 while this peer may lead, as far as its disk, its clock, its filter and Ironic are concerned.",
		func() bool { return s.Fitness.Fit() == nil })
	f.Gauge("clock_skew_seconds",
		"How far this peer's wall clock is off the median of all peers, ahead or behind; 0 while that is not known.",
		func() float64 {
			v := store.View()
			skew, _ := leader.Skew(v.Sessions(), v.Leadership().At, s.Members.Self.ID)
			return skew.Seconds()
		})
	f.Gauge("raft_term", "Raft term.", func() float64 { return float64(store.Stats().Term) })
	f.Gauge("raft_last_index", "Newest entry in this peer's log.",
		func() float64 { return float64(store.Stats().LastIndex) })
	f.Gauge("raft_applied_index", "Newest entry applied here.", func() float64 { return float64(store.Stats().Applied) })
	f.Gauge("raft_log_bytes", "Bytes logged since the last snapshot.",
		func() float64 { return float64(store.Stats().LogBytes) })
	f.Gauge("raft_write_seconds", "For how long the present write to the log has been under way.",
		func() float64 { return store.Writing().Seconds() })
	f.Gauge("raft_write_median_seconds", "How long the newest writes to the log took, their median.",
		func() float64 { return store.Stats().WriteTook.Seconds() })
	f.Gauge("leader_token", "Fencing token of the newest leadership this peer knows.",
		func() float64 { return float64(store.View().Leadership().Token) })
	f.Gauge("quorum_voters", "Voters of the cluster.", func() float64 { return float64(s.Quorum().Voters) })
	f.Gauge("quorum_live_voters", "Voters that live, as far as this peer knows.",
		func() float64 { return float64(s.Quorum().Live) })
	f.Gauge("quorum_can_lose", "Further voters that may die before writes stop.",
		func() float64 { return float64(s.Quorum().CanLose) })
	f.Gauge("introspection_nodes", "Nodes with a record of their introspection.",
		func() float64 { return float64(store.View().Nodes()) })
	f.Gauge("introspection_queue_length", "Requests that wait for a worker or are worked on, in the whole cluster.",
		func() float64 { return float64(store.View().QueueLength()) })
	f.Gauge("introspection_workers_busy", "Requests that this peer works on.", func() float64 { return float64(busy()) })
	f.Gauge("relay_pending", "Documents of ramdisks that Ironic has not taken yet, in the whole cluster.",
		func() float64 { return float64(store.View().RelaysPending()) })
	f.Gauge("relay_failed", "Documents that Ironic did not take, of those that are kept.",
		func() float64 { return float64(store.View().RelaysFailed()) })
	f.Gauge("ironic_inspected_nodes",
		"Nodes whose machines are let through since Ironic itself inspects them, in the whole cluster.",
		func() float64 { return float64(len(store.View().InspectedNodes())) })
	f.Gauge("hardware_unexpected_nodes", "Machines that differ from what was ordered, in the whole cluster.",
		func() float64 { return float64(store.View().Unexpected()) })
	f.Flag("ironic_reachable", "1 while this peer reaches Ironic.", func() bool { return s.Ironic.Ironic.Err() == nil })
	s.registerHost(f)
	s.Door.register(f)
	s.Kube.register(f)
}

// registerHost adds the figures of this host's certificate, of the data directory's disk, and of its log.
func (s *Self) registerHost(f *Figures) {
	f.Gauge("cert_expiry_timestamp_seconds", "When this peer's certificate ends, Unix time.",
		func() float64 { return float64(s.Renewal.Credentials().Leaf.NotAfter.Unix()) })
	f.Gauge("ca_expiry_timestamp_seconds", "When the cluster's CA ends, Unix time.",
		func() float64 { return float64(s.Renewal.Credentials().CA.NotAfter.Unix()) })
	f.Gauge("disk_free_bytes", "Free space on the disk of the data directory.",
		func() float64 { return float64(s.Ballast.State().Free) })
	f.Gauge("disk_size_bytes", "Size of the disk of the data directory.",
		func() float64 { return float64(s.Ballast.State().Size) })
	f.Gauge("disk_ballast_bytes", "Space held back for when that disk is full.",
		func() float64 { return float64(s.Ballast.State().Ballast) })
	f.Flag("disk_full", "1 while the log takes no entries because that disk is full.",
		func() bool { return s.Ballast.State().Dropped })
	f.Counter("log_lines_lost_total", "Lines of this peer's log that standard error did not take.",
		func() float64 { return float64(s.More.Stream.Lost()) })
}

// BoolValue is 1 for true.
func BoolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
