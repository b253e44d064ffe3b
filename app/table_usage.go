package app

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/fsm"
)

// tableUsage is one table that other programs fill: leases, values, group members. Entries stay,
// free leases above all, and the table fills unnoticed.
type tableUsage struct {
	name, what string
	used, most int
	remedy     string
}

func tableUsages(v fsm.View) []tableUsage {
	return []tableUsage{
		{"leases", "leases, free ones with them", v.LeaseCount(), fsm.MaxLeases, "have free ones forgotten: 'trivet lease list', 'trivet lease forget NAME'"},
		{"values", "values", v.ValueCount(), fsm.MaxValues, "find who writes them and have some deleted: GET and DELETE /v1/kv"},
		{"group_members", "members of groups", v.GroupMemberCount(), fsm.MaxGroupMembers, "find who joins so often: GET /v1/groups/COMPONENT"},
		{"value_bytes", "bytes of values", v.ValueBytes(), fsm.MaxValueBytes, "find who writes them and have some deleted: GET and DELETE /v1/kv"},
	}
}

// nearFull reports whether more than four fifths of a table are in use.
func (l tableUsage) nearFull() bool { return 5*l.used > 4*l.most }

func leaseTableWarnings(tables []tableUsage) (out []api.Warning) {
	for _, l := range tables {
		if l.nearFull() {
			out = append(out, api.Warning{
				Code: "lease_table_near_full", Remedy: l.remedy,
				Text: fmt.Sprintf("there are %d %s, of %d that may be: at the last one programs are refused", l.used, l.what, l.most),
			})
		}
	}
	return out
}

// leaseTableCollector reads the tables' figures when they are asked for.
type leaseTableCollector struct {
	view                         func() fsm.View
	used, most, held, bytes, all *prometheus.Desc
}

func newLeaseTableCollector(view func() fsm.View) *leaseTableCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("trivet_lease_table"+name, help, labels, nil)
	}
	return &leaseTableCollector{
		view:  view,
		used:  desc("_entries", "Entries of the tables of other programs, by table, in the whole cluster: leases (free ones with them), values, members of groups.", "table"),
		most:  desc("_limit", "Entries that a table can have.", "table"),
		held:  desc("_leases_held", "Leases that somebody holds, in the whole cluster; the others of trivet_lease_table_entries are free and kept."),
		bytes: desc("_value_bytes", "Length of all values together."),
		all:   desc("_value_limit_bytes", "Length that all values together can have."),
	}
}

// Describe implements prometheus.Collector.
func (c *leaseTableCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.used, c.most, c.held, c.bytes, c.all} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *leaseTableCollector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
	}
	v := c.view()
	for _, l := range tableUsages(v) {
		if l.name == "value_bytes" { // has a unit of its own
			gauge(c.bytes, l.used)
			gauge(c.all, l.most)
			continue
		}
		gauge(c.used, l.used, l.name)
		gauge(c.most, l.most, l.name)
	}
	gauge(c.held, v.LeasesHeld())
}
