package simtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
)

// TestDiscoverySurvives boots machines that nobody knows while one peer after
// the other is lost: each gets one node at most (assertion one-node), whose
// introspection ends.
func TestDiscoverySurvives(t *testing.T) {
	t.Parallel()
	const strangers = 24
	for i, how := range Losses() {
		t.Run(how.Name, func(t *testing.T) {
			SimulateSite(t, 3, uint64(300+i), func(c *Cluster) *Site {
				conf := quick()
				conf.Processing.NodeNotFoundHook = "enroll"
				return NewSite(c, 1, conf, patcher{})
			}, func(c *Cluster, s *Site) {
				c.AwaitLeader(successionLimit)
				s.Strangers(strangers)
				for range 4 {
					time.Sleep(4 * time.Second) // in a bubble
					c.Lose(how)
				}
				s.ramdisks.Wait()
				made := s.discovered()
				s.awaitEnds(3*time.Minute, made)
				v, _ := c.newest()
				finished := 0
				for _, node := range made {
					if rec, _ := v.Record(node); rec.State == introspection.NodeFinished {
						finished++
					}
				}
				t.Logf("%d of %d machines got a node, %d finished", len(made), strangers, finished)
				if finished < strangers/2 {
					t.Errorf("only %d of %d strangers were introspected", finished, strangers)
				}
			})
		})
	}
}

// discovered returns the nodes that were made of strangers.
func (s *Site) discovered() (nodes []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.strangers {
		if m.UUID != "" {
			nodes = append(nodes, m.UUID)
		}
	}
	return nodes
}

// teller is a hook that changes the data alone and takes its time about it.
type teller struct{}

// Name implements inspector.Hook.
func (teller) Name() string { return "teller" }

// After implements inspector.After.
func (teller) After(_ context.Context, t *inspector.Task) error {
	time.Sleep(2 * time.Second) // in a bubble
	return t.Data.Set("told", true)
}

// again asks for a node's data to be processed again, through any peer that
// takes it, and reports whether one did.
func (s *Site) again(node string, body []byte) bool {
	for range 20 {
		p := s.c.Peers[s.c.rng.IntN(len(s.c.Peers))]
		if core := p.Core(); core != nil && !p.paused() {
			ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second) // in a bubble
			err := core.Service.Reapply(ctx, node, body)
			cancel()
			var said *inspector.Refusal
			if err == nil || errors.As(err, &said) && said.Status == 409 {
				return true // one that was repeated after a lost answer finds the node locked
			}
		}
		time.Sleep(500 * time.Millisecond) // in a bubble
	}
	return false
}

// TestReapplySurvives processes stored data again while one peer after the other
// is lost: whatever was accepted ends well, for nothing of it is strict.
func TestReapplySurvives(t *testing.T) {
	t.Parallel()
	for i, how := range Losses() {
		t.Run(how.Name, func(t *testing.T) {
			SimulateSite(t, 3, uint64(320+i), func(c *Cluster) *Site {
				conf := quick()
				conf.Timeout = 3 * time.Minute
				return NewSite(c, 8, conf, teller{})
			}, func(c *Cluster, s *Site) {
				c.AwaitLeader(successionLimit)
				s.beginAll()
				s.awaitEnds(2*time.Minute, s.Nodes())
				brought := make(map[string]string)
				for n, node := range s.Nodes() {
					body := ""
					if n%2 == 0 {
						body = fmt.Sprintf(`{"brought":%d}`, n)
						brought[node] = body
					}
					if !s.again(node, []byte(body)) {
						t.Fatalf("%s was not accepted", node)
					}
					if n%3 == 2 {
						c.Lose(how)
					}
				}
				s.awaitEnds(4*time.Minute, s.Nodes())
				s.checkReapplied(brought)
			})
		})
	}
}

// checkReapplied compares how reapplies ended and what is stored.
func (s *Site) checkReapplied(brought map[string]string) {
	s.c.T.Helper()
	v, _ := s.c.newest()
	service := s.c.AwaitLeader(successionLimit).Core().Service
	for _, node := range s.Nodes() {
		rec, _ := v.Record(node)
		if rec.State != introspection.NodeFinished {
			s.c.T.Errorf("no-stuck: %s ended in %v: %s", node, rec.State, rec.Error)
			continue
		}
		body, ok := brought[node]
		if !ok {
			continue
		}
		data, err := service.Data(context.Background(), node, true, inspector.Linearizable)
		if want := body[:len(body)-1] + `,"told":true}`; err != nil || string(data) != want {
			s.c.T.Errorf("%s has %s, %v, want %s", node, data, err, want)
		}
	}
}
