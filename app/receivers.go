package app

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/api/receivers"
	"github.com/trivet-ha/trivet/app/health"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/doctor"
)

// behindAfter is how old the oldest event must be that a receiver has not taken before
// status warns of it: a restart of the receiver takes less.
const behindAfter = time.Minute

// openReceivers makes what sends events to the receivers of the configuration. It reads
// files and opens no connection.
func openReceivers(o Options) (*receivers.Deliverer, error) {
	d := receivers.New(o.Logger)
	put, err := prepareReceivers(o, d, o.Config)
	if err != nil {
		return nil, err
	}
	put()
	return d, nil
}

func prepareReceivers(o Options, d *receivers.Deliverer, next config.Config) (put func(), err error) {
	made, err := receivers.Open(next.Events, receivers.Options{Wall: o.Wall, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	return func() { d.Set(made) }, nil
}

// receiverWarnings are those of receivers that do not take events, on the leader.
func receiverWarnings(d *receivers.Deliverer, wall func() time.Time) (out []api.Warning) {
	for _, s := range d.States() {
		age := undelivered(s, wall)
		if s.Err == nil || s.Oldest > 0 && age < behindAfter {
			continue
		}
		text := "receiver " + s.Receiver + " is sent no events: "
		if s.Oldest > 0 {
			text = "receiver " + s.Receiver + " has not taken the events of the last " + age.Round(time.Second).String() + ": "
		}
		out = append(out, api.Warning{Code: "receiver_behind", Text: text + api.ErrorText(s.Err),
			Remedy: "mend the receiver, or its URL, secret or CA: 'trivet doctor --check services' asks it from every host; nothing else waits for it"})
	}
	return out
}

// undelivered is the age of the oldest event that a receiver has not taken, 0 for none.
func undelivered(s receivers.State, wall func() time.Time) time.Duration {
	if s.Oldest == 0 {
		return 0
	}
	return max(wall().Sub(time.UnixMilli(s.Oldest)), 0)
}

// receiverServices asks each receiver, for doctor, with a delivery of no events: every host
// may lead.
func receiverServices(ctx context.Context, d *receivers.Deliverer, cluster string) []doctor.Service {
	all, _ := d.Receivers()
	out := make([]doctor.Service, len(all)) // as many as are configured
	var work sync.WaitGroup
	for i, r := range all {
		work.Go(func() {
			out[i] = doctor.Service{What: "receiver " + r.Name(), Section: "events", Error: api.ErrorText(r.Ping(ctx, cluster))}
		})
	}
	work.Wait()
	return out
}

// receiverFigures show what a peer knows of receivers.
func receiverFigures(d *receivers.Deliverer, wall func() time.Time) *health.Scraped {
	tries := health.Desc("event_deliveries_total",
		"Tries of this peer to deliver events to a receiver: taken, refused by its answer, unreachable, unproven when nothing was sent because leadership could not be proven.",
		"receiver", "outcome")
	gaps := health.Desc("event_delivery_gaps_total",
		"Deliveries that told a receiver of events that are gone and that it was not sent.", "receiver")
	oldest := health.Desc("event_undelivered_seconds",
		"Age of the oldest event that a receiver has not taken; 0 while there is none. The leader has it.", "receiver")
	return &health.Scraped{Figures: []*prometheus.Desc{tries, gaps, oldest}, Read: func(show health.Show) {
		for _, s := range d.States() {
			for i, outcome := range receivers.Outcomes() {
				show(tries, prometheus.CounterValue, float64(s.Counts[i]), s.Receiver, outcome)
			}
			show(gaps, prometheus.CounterValue, float64(s.Gaps), s.Receiver)
			show(oldest, prometheus.GaugeValue, undelivered(s, wall).Seconds(), s.Receiver)
		}
	}}
}
