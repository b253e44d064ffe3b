package health

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/trivet-ha/trivet/raftstore/leader"
)

// Gauge adds a figure that is read when it is scraped.
func (f *Figures) Gauge(name, help string, value func() float64) {
	f.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "trivet", Name: name, Help: help}, value))
}

func (f *Figures) counter(name, help string, value func() float64) {
	f.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "trivet", Name: name, Help: help}, value))
}

// Register fills the registry of f. Nearly all figures are read when it is scraped: no
// counter can be forgotten on the way. leads says whether this peer leads with all its
// duties, and busy how many requests it works on.
func (s *Self) Register(f *Figures, leads func() bool, busy func() int) {
	store := s.Members.Log
	f.MustRegister(f.commits, f.requests, f.Throttled, f.logins, f.elections, newNodeCollector(store.View),
		newBootCollector(store.View), newWarningCollector(s.ownWarnings))
	f.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "trivet", Name: "build_info", Help: "Always 1; the labels say what runs.",
		ConstLabels: prometheus.Labels{"version": s.Facts.Binary, "peer": s.Members.Self.Name},
	})
	info.Set(1)
	f.MustRegister(info)
	f.Gauge("raft_leader", "1 while this peer leads with all its duties, by its own belief.", func() float64 {
		return BoolValue(leads())
	})
	f.Gauge("leader_fit",
		"1 while this peer may lead, as far as its disk, its clock, its filter and Ironic are concerned.", func() float64 {
			return BoolValue(s.Fitness.Fit() == nil)
		})
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
	f.Gauge("leader_token", "Fencing token of the newest leadership this peer knows.", func() float64 {
		return float64(store.View().Leadership().Token)
	})
	f.Gauge("quorum_voters", "Voters of the cluster.", func() float64 { return float64(s.Quorum().Voters) })
	f.Gauge("quorum_live_voters", "Voters that live, as far as this peer knows.",
		func() float64 { return float64(s.Quorum().Live) })
	f.Gauge("quorum_can_lose", "Further voters that may die before writes stop.",
		func() float64 { return float64(s.Quorum().CanLose) })
	f.Gauge("introspection_nodes", "Nodes with a record of their introspection.",
		func() float64 { return float64(store.View().Nodes()) })
	f.Gauge("introspection_queue_length", "Requests that wait for a worker or are worked on, in the whole cluster.",
		func() float64 {
			return float64(store.View().QueueLength())
		})
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
	f.Gauge("ironic_reachable", "1 while this peer reaches Ironic.",
		func() float64 { return BoolValue(s.Ironic.Ironic.Err() == nil) })
	f.Gauge("cert_expiry_timestamp_seconds", "When this peer's certificate ends, Unix time.", func() float64 {
		return float64(s.Renewal.Credentials().Leaf.NotAfter.Unix())
	})
	registerDisk(f, s.Ballast)
	registerLog(f, s.More.Stream)
	f.Gauge("ca_expiry_timestamp_seconds", "When the cluster's CA ends, Unix time.", func() float64 {
		return float64(s.Renewal.Credentials().CA.NotAfter.Unix())
	})
	s.Door.register(f)
	s.Kube.register(f)
}

// BoolValue is 1 for true.
func BoolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
