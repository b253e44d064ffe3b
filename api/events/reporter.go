package events

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/internal/logs"
	"github.com/trivet-ha/trivet/internal/pace"
)

// Bounds of a reporter: 64 events a second at most, in one entry.
const (
	// ReportEvery is how long reports wait for others.
	ReportEvery = time.Second
	// MaxWaiting is how many events wait to be reported, while there is no quorum
	// above all. Later ones are counted. Those of the audit, which callers cause, take
	// half of it at most.
	MaxWaiting = 256
	maxAudits  = MaxWaiting / 2

	reportLimit = 10 * time.Second // of one entry
)

// Doer commits commands. cluster.Session is one.
type Doer interface {
	Do(ctx context.Context, client string, c fsm.Command) (fsm.Result, error)
}

// ReporterOptions are the parts of a Reporter. All must be set.
type ReporterOptions struct {
	Do Doer
	// View returns the state as this peer has applied it.
	View   func() fsm.View
	Wall   func() time.Time
	Logger *slog.Logger
}

// Reporter records in the log what no command records: what this peer has seen, and
// what its callers asked. An entry whose outcome is not known is sent again: an
// event may then be recorded twice, under two IDs.
type Reporter struct {
	o       ReporterOptions
	failing *slog.Logger

	mu      sync.Mutex
	waiting []eventring.Report
	left    int           // events that there was no room for
	wake    chan struct{} // capacity 1
}

// NewReporter returns a reporter. Run sends what is reported.
func NewReporter(o ReporterOptions) *Reporter {
	return &Reporter{o: o, failing: logs.Limit(o.Logger), wake: make(chan struct{}, 1)}
}

// Report has an event recorded as soon as that can be. It never blocks. Texts are cut
// to what an event may have; Millis is now unless it is set. It may be called
// concurrently.
func (r *Reporter) Report(e eventring.Report) {
	if e.Millis == 0 {
		e.Millis = r.o.Wall().UnixMilli()
	}
	e.Text = eventring.Text(e.Text)
	cut := make(map[string]string, len(e.Fields))
	for name, value := range e.Fields { // order-free: into a map
		if value != "" {
			cut[name] = eventring.Text(value)
		}
	}
	e.Fields = cut
	if err := e.Validate(); err != nil {
		r.failing.Warn("record event failed, dropping it", "event", e.Topic.String(), "err", err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) >= MaxWaiting || e.Topic == eventring.TopicAudit && r.audits() >= maxAudits {
		r.left++
		return
	}
	r.waiting = append(r.waiting, e)
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// audits counts the events of the audit that wait; the caller holds the lock.
func (r *Reporter) audits() (n int) {
	for _, e := range r.waiting {
		if e.Topic == eventring.TopicAudit {
			n++
		}
	}
	return n
}

// Run sends what is reported until ctx ends; what waits then is lost.
func (r *Reporter) Run(ctx context.Context) {
	for {
		select {
		case <-r.wake:
		case <-ctx.Done():
			return
		}
		for r.pending() {
			if !pace.Wait(ctx, ReportEvery) {
				return
			}
			r.send(ctx)
		}
	}
}

func (r *Reporter) pending() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting) > 0 || r.left > 0
}

// send commits the oldest reports. They stay where that fails.
func (r *Reporter) send(ctx context.Context) {
	if r.o.View().Admits(fsm.ReportEvents{}) != nil {
		r.forget() // an older member could not read them
		return
	}
	batch, left := r.next()
	ctx, cancel := context.WithTimeout(ctx, reportLimit)
	defer cancel()
	res, err := r.o.Do.Do(ctx, "", fsm.ReportEvents{Reports: batch})
	switch {
	case err != nil:
		return // no leader, or no session: the host may be cut off for long
	case res.Code != fsm.OK:
		r.failing.Warn("record events failed, dropping them", "count", len(batch), "err", res.Err())
	}
	if left > 0 {
		batch = batch[:len(batch)-1] // its count was no report of its own
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = slices.Delete(r.waiting, 0, min(len(batch), len(r.waiting)))
	r.left -= left
}

// next returns the oldest reports, and one with the number of those that there was no
// room for.
func (r *Reporter) next() (batch []eventring.Report, left int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	batch = slices.Clone(r.waiting[:min(len(r.waiting), fsm.MaxEventReports-1)])
	if r.left > 0 {
		batch = append(batch, eventring.Report{
			Topic: eventring.TopicWarning, Action: "left-out", Millis: r.o.Wall().UnixMilli(),
			Text: fmt.Sprintf("%d events of this host were left out: there were more than can be recorded.", r.left),
		})
	}
	return batch, r.left
}

func (r *Reporter) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting, r.left = nil, 0
}
