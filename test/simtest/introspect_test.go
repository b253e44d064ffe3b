package simtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/inspector/ironic"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
)

// patcher is a hook that leaves a trace in Ironic and takes its time about it.
type patcher struct{}

// Name implements inspector.Hook.
func (patcher) Name() string { return "patcher" }

// After implements inspector.After.
func (patcher) After(ctx context.Context, t *inspector.Task) error {
	if err := t.PatchNode(ctx, ironic.Patch{Op: "add", Path: "/properties/cpus", Value: "8"}); err != nil {
		return err
	}
	return t.Data.Set("cpus", 8)
}

// quick is a configuration whose introspections end within a minute.
func quick() config.Inspection {
	conf := config.Default().Inspection
	conf.Timeout = 60 * time.Second
	conf.CleanUpPeriod = 2 * time.Second
	conf.Workers = 4
	return conf
}

// beginAll starts the introspection of every node.
func (s *Site) beginAll() {
	s.c.T.Helper()
	s.mustBegin(s.Nodes())
}

// mustBegin is begin for nodes that have to be accepted.
func (s *Site) mustBegin(nodes []string) {
	s.c.T.Helper()
	for _, node := range nodes {
		if !s.begin(node) {
			s.c.T.Fatalf("%s was not accepted", node)
		}
	}
}

// begin starts the introspection of a node through any peer that takes it, and
// reports whether one did.
func (s *Site) begin(node string) bool {
	for range 20 {
		p := s.c.someone()
		if core := p.Core(); core != nil && !p.paused() {
			ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
			err := core.Service.Start(ctx, node, true)
			cancel()
			var said *inspector.Refusal
			if err == nil || errors.As(err, &said) && said.Status == 400 {
				return true // a start that was repeated after a lost answer is refused, and was accepted
			}
		}
		time.Sleep(500 * time.Millisecond) // in a bubble
	}
	return false
}

// awaitEnds waits until every accepted introspection has ended.
func (s *Site) awaitEnds(limit time.Duration, accepted []string) {
	s.c.T.Helper()
	s.c.Until(limit, "no-stuck: every accepted introspection ends", func() bool {
		v, ok := s.c.newest()
		if !ok {
			return false
		}
		for _, node := range accepted {
			if rec, known := v.Record(node); !known || rec.State.Active() {
				return false
			}
		}
		return v.QueueLength() == 0
	})
}

// TestIntrospectionsSurvive loses one peer after the other, in every way there
// is, while machines are introspected; whatever was accepted ends.
func TestIntrospectionsSurvive(t *testing.T) {
	t.Parallel()
	const machines = 24
	for i, how := range Losses() {
		t.Run(how.Name, func(t *testing.T) {
			var site *Site
			SimulateSite(t, 3, uint64(100+i), func(c *Cluster) *Site {
				site = NewSite(c, machines, quick(), patcher{})
				site.Machine(site.Nodes()[0]).Silent = true
				return site
			}, func(c *Cluster, s *Site) {
				c.AwaitLeader(successionLimit)
				var accepted []string
				for n, node := range s.Nodes() {
					if s.begin(node) {
						accepted = append(accepted, node)
					}
					if n%8 == 7 {
						c.Lose(how)
					}
				}
				if len(accepted) < machines*9/10 {
					t.Errorf("only %d of %d starts were accepted", len(accepted), machines)
				}
				s.awaitEnds(3*time.Minute, accepted)
				v, _ := c.newest()
				finished := 0
				for _, node := range accepted {
					if rec, _ := v.Record(node); rec.State == introspection.NodeFinished {
						finished++
					}
				}
				t.Logf("%d of %d finished", finished, len(accepted))
				if finished < len(accepted)/2 {
					t.Errorf("only %d of %d introspections finished", finished, len(accepted))
				}
				if rec, ok := v.Record(s.Nodes()[0]); ok && rec.Error != "Introspection timeout" {
					t.Errorf("the silent machine ended in %v with %q", rec.State, rec.Error)
				}
			})
		})
	}
}
