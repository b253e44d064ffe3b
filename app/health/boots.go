package health

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/firewall/recorder"
	"github.com/trivet-ha/trivet/fsm"
)

// Heard lists the machines that asked to boot here and are not under introspection, and what the
// filter makes of them.
func (d *Door) Heard() api.Heard {
	out := api.Heard{Peer: d.Members.Self.Name, ID: d.Members.Self.ID, Machines: []api.StrangerMachine{}}
	if d.Recorder == nil {
		out.Error = "nothing is recorded here: firewall.recorder is false, or there is no PXE filter"
		return out
	}
	all, unread := d.Recorder.Strangers()
	out.Unread, out.Error = unread, api.ErrorText(d.Recorder.Err())
	v, state := d.Members.Log.View(), d.hostState()
	for _, s := range all {
		m := api.StrangerMachine{MAC: s.MAC, Asked: s.Asked,
			First: api.MillisText(s.First.UnixMilli()), Last: api.MillisText(s.Last.UnixMilli()),
			Firmware: recorder.Firmware(s.Client, s.Arch), Relay: s.Relay, UUID: s.UUID, Offered: s.Server}
		if x, err := firewall.Explain(v, state, s.MAC); err == nil { // what was heard is a MAC
			m.Verdict, m.Why = string(x.Verdict), x.Why
		}
		out.Machines = append(out.Machines, m)
	}
	return out
}

// bootCollector counts the awaited machines that do not come up when it is asked.
type bootCollector struct {
	view    func() fsm.View
	stopped *prometheus.Desc
}

func newBootCollector(view func() fsm.View) *bootCollector {
	return &bootCollector{view: view, stopped: prometheus.NewDesc("trivet_boot_stopped_machines",
		"Machines that are awaited and do not come up, by what stops them first, in the whole cluster.",
		[]string{"finding"}, nil)}
}

// Describe implements prometheus.Collector.
func (c *bootCollector) Describe(out chan<- *prometheus.Desc) { out <- c.stopped }

// Collect implements prometheus.Collector. Every finding is there, so that no alert waits for a
// series that was never seen.
func (c *bootCollector) Collect(out chan<- prometheus.Metric) {
	stopped := recorder.Stopped(c.view())
	for _, code := range recorder.Codes() {
		out <- prometheus.MustNewConstMetric(c.stopped, prometheus.GaugeValue, float64(stopped[code]), code)
	}
}
