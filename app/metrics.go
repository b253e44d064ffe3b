package app

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// register fills the registry. Nearly all figures are read when it is scraped: no
// counter can be forgotten on the way.
func (p *Peer) register() {
	r := p.registry
	r.MustRegister(p.commits, p.requests, p.throttled, p.logins, p.elections, newNodeCollector(p.core.Store.View), newWarningCollector(p.ownWarnings))
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	gauge := func(name, help string, value func() float64) {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "trivet", Name: name, Help: help}, value))
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "trivet", Name: "build_info", Help: "Always 1; the labels say what runs.",
		ConstLabels: prometheus.Labels{"version": p.opts.Binary, "peer": p.id.Name},
	})
	info.Set(1)
	r.MustRegister(info)
	store := p.core.Store
	gauge("raft_leader", "1 while this peer leads with all its duties, by its own belief.", func() float64 {
		return boolValue(!p.core.Runner.Token().IsZero())
	})
	gauge("leader_fit", "1 while this peer may lead, as far as its disk, its clock, its filter and Ironic are concerned.", func() float64 {
		return boolValue(p.core.Fitness.Fit() == nil)
	})
	gauge("clock_skew_seconds", "How far this peer's wall clock is off the median of all peers, ahead or behind; 0 while that is not known.", func() float64 {
		return p.core.clockSkew().Seconds()
	})
	gauge("raft_term", "Raft term.", func() float64 { return float64(store.Stats().Term) })
	gauge("raft_last_index", "Newest entry in this peer's log.", func() float64 { return float64(store.Stats().LastIndex) })
	gauge("raft_applied_index", "Newest entry applied here.", func() float64 { return float64(store.Stats().Applied) })
	gauge("raft_log_bytes", "Bytes logged since the last snapshot.", func() float64 { return float64(store.Stats().LogBytes) })
	gauge("raft_write_seconds", "For how long the present write to the log has been under way.", func() float64 { return store.Writing().Seconds() })
	gauge("leader_token", "Fencing token of the newest leadership this peer knows.", func() float64 {
		return float64(store.View().Leadership().Token)
	})
	gauge("quorum_voters", "Voters of the cluster.", func() float64 { return float64(p.quorum(p.hearing(store.View())).Voters) })
	gauge("quorum_live_voters", "Voters that live, as far as this peer knows.", func() float64 { return float64(p.quorum(p.hearing(store.View())).Live) })
	gauge("quorum_can_lose", "Further voters that may die before writes stop.", func() float64 { return float64(p.quorum(p.hearing(store.View())).CanLose) })
	gauge("introspection_nodes", "Nodes with a record of their introspection.", func() float64 { return float64(store.View().Nodes()) })
	gauge("introspection_queue_length", "Requests that wait for a worker or are worked on, in the whole cluster.", func() float64 {
		return float64(store.View().QueueLength())
	})
	gauge("introspection_workers_busy", "Requests that this peer works on.", func() float64 { return float64(p.core.inspect.Workers.Busy()) })
	gauge("relay_pending", "Documents of ramdisks that Ironic has not taken yet, in the whole cluster.", func() float64 { return float64(store.View().RelaysPending()) })
	gauge("relay_failed", "Documents that Ironic did not take, of those that are kept.", func() float64 { return float64(store.View().RelaysFailed()) })
	gauge("ironic_reachable", "1 while this peer reaches Ironic.", func() float64 { return boolValue(p.core.Health.Err() == nil) })
	gauge("cert_expiry_timestamp_seconds", "When this peer's certificate ends, Unix time.", func() float64 {
		return float64(p.renewal.Credentials().Leaf.NotAfter.Unix())
	})
	p.diskMetrics(r)
	gauge("ca_expiry_timestamp_seconds", "When the cluster's CA ends, Unix time.", func() float64 {
		return float64(p.renewal.Credentials().CA.NotAfter.Unix())
	})
	p.backups.metrics(r)
	p.authMetrics(r)
	p.doorMetrics(r)
	p.kubeMetrics(r)
}

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
