package api

import (
	"bufio"
	"context"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/api/events"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/test/testwait"
)

// BenchmarkEventStreams measures what 500 clients of the stream cost while 50 events a
// second pass: the share of a core that this process needs, which is server and
// clients together.
func BenchmarkEventStreams(b *testing.B) {
	const clients, perSecond = 500, 50
	l := newEventLog(b)
	hub := events.NewHub(l)
	defer hub.Close()
	limits := streamLimits()
	limits.Conns, limits.Share = 2*clients, 2*clients
	url := listen(b, eventAPI(b, hub), limits) + "/v1/events?kind=filter"
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	seen := make(chan struct{}, clients*perSecond)
	for range clients {
		go countEvents(ctx, url, seen)
	}
	testwait.Until(b, "all clients follow", func() bool { return hub.Readers() == clients })
	pace := time.NewTicker(time.Second / perSecond)
	defer pace.Stop()
	for b.Loop() {
		before, began := processorTime(b), time.Now()
		for range perSecond {
			l.report(eventring.TopicFilter,
				"Another program changed the rules of the PXE filter on h1; they were rebuilt, closed.")
			testwait.Receive(b, pace.C, "the time for the next event")
		}
		for range clients * perSecond {
			testwait.Receive(b, seen, "an event at a client")
		}
		b.ReportMetric(100*(processorTime(b)-before).Seconds()/time.Since(began).Seconds(), "%-of-a-core")
	}
}

// processorTime is what this process has used.
func processorTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func countEvents(ctx context.Context, url string, seen chan<- struct{}) {
	r, err := http.NewRequestWithContext(ctx, "GET", url, http.NoBody)
	if err != nil {
		return
	}
	r.Header.Set("Authorization", asAdmin)
	r.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	for in := bufio.NewScanner(resp.Body); in.Scan(); {
		if len(in.Bytes()) > 5 && string(in.Bytes()[:5]) == "data:" {
			select {
			case seen <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	}
}
