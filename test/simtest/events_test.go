package simtest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/api/events"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/test/history"
)

// TestEventsReachEveryClientOnce follows the events at all peers, across many changes of
// leaders, with clients that go from peer to peer when one is lost or falls silent:
// each sees every event once, in the order of the log. `make sim` has 1,000 changes.
func TestEventsReachEveryClientOnce(t *testing.T) {
	const perBubble = 20
	total := countFrom(t, "TRIVET_SIM_EVENTS", 20)
	for i := range (total + perBubble - 1) / perBubble {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			Simulate(t, 3, uint64(i+77), func(c *Cluster) { followThroughLosses(c, min(perBubble, total-i*perBubble), 6, 0) })
		})
	}
}

// TestManyEventsReachEveryClientOnce is the same with 20 clients and many events while
// 20 leaders are lost: 100,000 in `make sim`.
func TestManyEventsReachEveryClientOnce(t *testing.T) {
	t.Parallel()
	total := countFrom(t, "TRIVET_SIM_EVENT_COUNT", 5000)
	Simulate(t, 3, 78, func(c *Cluster) { followThroughLosses(c, 20, 20, total) })
}

// followThroughLosses loses so many leaders, one after the other and, if atLeast is not
// 0, not before its share of so many events was reported.
func followThroughLosses(c *Cluster, losses, readers, atLeast int) {
	c.AwaitLeader(successionLimit)
	begin := c.Peers[0].Core().Store.View().Events().Last()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var work, watch sync.WaitGroup
	reports := &reporting{c: c, each: 3}
	if atLeast > 0 {
		reports.each = fsm.MaxEventReports
	}
	work.Go(func() { reports.run(ctx) })
	clients := make([]*eventClient, readers)
	watching, stopWatching := context.WithCancel(context.Background())
	defer stopWatching()
	for i := range clients {
		clients[i] = &eventClient{c: c, peers: slices.Clone(c.Peers), batch: 7 + reports.each, at: i, last: begin.String()}
		watch.Go(func() { clients[i].run(watching) })
	}
	ways := Losses()
	for i := range losses {
		c.Lose(ways[i%len(ways)])
		c.Until(time.Hour, "the events are reported",
			func() bool { return reports.made.Load() >= int64(atLeast)*int64(i+1)/int64(losses) })
	}
	stop()
	work.Wait()
	c.Agree(successionLimit)
	var view fsm.View
	c.Until(successionLimit, "every client has the newest event", func() bool {
		view = c.Peers[0].Core().Store.View() // a session may end late
		for _, client := range clients {
			if client.position() != view.Events().Last().String() {
				return false
			}
		}
		return true
	})
	stopWatching()
	watch.Wait()
	var want []string
	recorded, made := 0, int(reports.made.Load())
	for e := range view.Events().After(begin) {
		want = append(want, e.ID().String())
		if e.Topic() == eventring.TopicFilter {
			recorded++
		}
	}
	if recorded < made {
		c.T.Errorf("events-once: %d events were acknowledged, %d are recorded", made, recorded)
	}
	for i, client := range clients {
		if diff := history.FirstDifference(client.seen, want); diff != "" {
			c.T.Errorf("events-once: client %d: %s", i, diff)
		}
	}
	if made < losses {
		c.T.Errorf("only %d events were reported in %d losses", made, losses)
	}
	c.T.Logf("%d events, %d of them reported, at %d clients that went to another peer %d times", len(want), made,
		len(clients), hops(clients))
}

func hops(clients []*eventClient) (n int) {
	for _, client := range clients {
		n += client.hops
	}
	return n
}

// reporting reports events through all peers in turn.
type reporting struct {
	c    *Cluster
	each int          // events of one entry
	made atomic.Int64 // events whose report was acknowledged
}

func (r *reporting) run(ctx context.Context) {
	peers := slices.Clone(r.c.Peers)
	for i := 0; ctx.Err() == nil; i++ {
		time.Sleep(50 * time.Millisecond) // in a bubble
		core := peers[i%len(peers)].Core()
		if core == nil {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, time.Second)
		report := eventring.Report{Topic: eventring.TopicFilter, Action: "seen", Text: fmt.Sprintf("Report %d.", i)}
		res, err := core.Session.Do(limited, "", fsm.ReportEvents{Reports: slices.Repeat([]eventring.Report{report}, r.each)})
		cancel()
		if err == nil && res.Code == fsm.OK {
			r.made.Add(int64(r.each))
		}
	}
}

// eventClient follows the events at one peer, and goes on at the next when that one is
// gone or has been silent for a second, as a client does whose connection broke.
type eventClient struct {
	c     *Cluster
	peers []*Peer
	batch int // events that it takes at once
	at    int // of peers
	hops  int
	seen  []string

	mu   sync.Mutex
	last string
}

func (e *eventClient) position() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last
}

func (e *eventClient) run(ctx context.Context) {
	for ctx.Err() == nil {
		if core := e.peers[e.at%len(e.peers)].Core(); core != nil {
			e.follow(ctx, events.NewHub(core.Store))
		} else {
			time.Sleep(10 * time.Millisecond) // in a bubble
		}
		e.at++
		e.hops++
	}
}

// follow reads until the peer is silent.
func (e *eventClient) follow(ctx context.Context, hub *events.Hub) {
	defer hub.Close()
	r, err := hub.Open(e.position(), events.Filter{Admin: true})
	if err != nil {
		e.c.Oracle.broken("events: open at %s: %v", e.position(), err)
		return
	}
	defer r.Close()
	for {
		b, err := r.Next(ctx, e.batch, time.Second)
		if err != nil {
			return
		}
		if b.Reset != nil {
			e.c.Oracle.broken("events-once: reset to %s: %s", b.Reset.First, b.Reset.Reason)
		}
		for _, one := range b.Events {
			e.seen = append(e.seen, one.ID.String())
		}
		e.mu.Lock()
		e.last = b.Last.String()
		e.mu.Unlock()
		if len(b.Events) == 0 {
			return
		}
	}
}
