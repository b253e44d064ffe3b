package simtest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/api/events"
	"github.com/trivet-ha/trivet/api/receivers"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/raftstore/leader"
	"github.com/trivet-ha/trivet/test/history"
)

// TestReceiversMissNothing loses leaders in all ways while events are sent to a receiver that
// refuses, hangs and loses its answers in turn: it gets every event at least once and for
// the first time in the order of the log, and one ID names one content.
func TestReceiversMissNothing(t *testing.T) {
	t.Parallel()
	Simulate(t, 3, 79, func(c *Cluster) {
		secret := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(secret, []byte("whsec_"+strings.Repeat("A", 32)), 0o600); err != nil {
			t.Fatal(err)
		}
		conf := config.Events{Receivers: []string{"cmdb=http://receiver.example/"}, Secrets: []string{"cmdb=" + secret},
			Kinds: []string{"cmdb=filter", "cmdb=leadership"}}
		sink := &eventSink{t: t, contents: make(map[string]string)}
		c.Duties = func(p *Peer) []leader.Duty {
			made, err := receivers.Open(conf, receivers.Options{Wall: p.wall, Logger: c.logger(p, nil), Network: sink})
			if err != nil {
				t.Fatal(err)
			}
			d := receivers.New(c.logger(p, nil))
			d.Set(made)
			return []leader.Duty{d.Duty(logOf{p})}
		}
		for _, p := range c.Peers { // each is made again with the duty
			if err := p.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range c.Peers {
			if err := p.Start(); err != nil {
				t.Fatal(err)
			}
		}
		c.AwaitLeader(successionLimit)
		var from eventring.ID
		c.Until(successionLimit, "the receiver is noted", func() bool {
			p, known := c.Peers[0].Core().Store.View().Delivered("cmdb")
			from = p.Taken
			return known
		})
		ctx, stop := context.WithCancel(context.Background())
		reports := &reporting{c: c, each: 3}
		var work sync.WaitGroup
		work.Go(func() { reports.run(ctx) })
		ways := Losses()
		for i := range 2 * len(ways) {
			c.Lose(ways[i%len(ways)])
			time.Sleep(3 * time.Second) // in a bubble
		}
		stop()
		work.Wait()
		sink.heal()
		var view fsm.View
		c.Until(time.Hour, "the receiver has the newest event", func() bool {
			view = c.Peers[0].Core().Store.View()
			return sink.has(view)
		})
		sink.judge(view, from)
		c.T.Logf("%d events in %d requests, of which %d were taken", len(sink.order), sink.requests, sink.taken)
	})
}

// logOf is the log of whatever process a peer runs.
type logOf struct{ peer *Peer }

// Changed implements receivers.Log.
func (l logOf) Changed() (fsm.View, <-chan struct{}) { return l.peer.Core().Store.Changed() }

// eventSink is the receiver of all peers.
type eventSink struct {
	t *testing.T

	mu              sync.Mutex
	contents        map[string]string // by ID of the delivery
	order           []string          // IDs of events that were taken, each when it was taken first
	requests, taken int
	healthy         bool
}

// RoundTrip implements http.RoundTripper.
func (s *eventSink) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.requests++
	mood, id := s.requests%5, r.Header.Get("webhook-id")
	if before, known := s.contents[id]; known && before != string(body) {
		s.t.Errorf("receivers: ID %s names two contents", id)
	}
	s.contents[id] = string(body)
	healthy := s.healthy
	s.mu.Unlock()
	switch {
	case healthy:
	case mood == 1:
		return &http.Response{Status: "503", StatusCode: 503, Body: http.NoBody, Header: http.Header{}}, nil
	case mood == 2:
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	s.take(body)
	if mood == 3 && !healthy {
		return nil, errors.New("the answer is lost")
	}
	return &http.Response{Status: "204", StatusCode: 204, Body: http.NoBody, Header: http.Header{}}, nil
}

func (s *eventSink) take(body []byte) {
	var m struct{ Data receivers.Data }
	if err := json.Unmarshal(body, &m); err != nil {
		s.t.Error(err)
	}
	if m.Data.Gap != nil {
		s.t.Errorf("receivers: a gap %+v", *m.Data.Gap)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken++
	seen := make(map[string]bool, len(s.order))
	for _, id := range s.order {
		seen[id] = true
	}
	for _, text := range m.Data.Events {
		var e events.Event
		if err := json.Unmarshal(text, &e); err != nil {
			s.t.Error(err)
		}
		if !seen[e.ID] {
			s.order = append(s.order, e.ID)
		}
	}
}

func (s *eventSink) heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.healthy = true
}

// wanted are the IDs of the events after a place that the receiver wants.
func wanted(v fsm.View, from eventring.ID) (out []string) {
	for e := range v.Events().After(from) {
		if e.Topic() == eventring.TopicFilter || e.Topic() == eventring.TopicLeadership {
			out = append(out, e.ID().String())
		}
	}
	return out
}

// has reports whether the newest event that is wanted was taken.
func (s *eventSink) has(v fsm.View) bool {
	all := wanted(v, eventring.ID{})
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.order) > 0 && s.order[len(s.order)-1] == all[len(all)-1]
}

func (s *eventSink) judge(v fsm.View, from eventring.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	want := wanted(v, from)
	if diff := history.FirstDifference(s.order, want); diff != "" {
		s.t.Errorf("receivers: %s", diff)
	}
	if len(want) < 100 || s.taken == s.requests {
		s.t.Errorf("only %d events, and %d of %d requests were taken", len(want), s.taken, s.requests)
	}
}
