package simtest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/inspector/ironic"

	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
)

// portMaker is a hook that makes many calls of Ironic.
type portMaker struct{ ports int }

// Name implements inspector.Hook.
func (portMaker) Name() string { return "port_maker" }

// After implements inspector.After.
func (h portMaker) After(ctx context.Context, t *inspector.Task) error {
	for n := range h.ports {
		if _, err := t.Ironic.CreatePort(ctx,
			ironic.Port{Node: t.Node().UUID, Address: fmt.Sprintf("52:54:00:cc:00:%02x", n)}); err != nil {
			return err
		}
	}
	return nil
}

// TestOrderlyStopWithSlowIronic stops the leader while twenty callbacks are
// processed and every call of Ironic takes a second: all of them finish, and no
// machine is switched twice.
func TestOrderlyStopWithSlowIronic(t *testing.T) {
	t.Parallel()
	const machines, calls = 20, 8
	conf := quick()
	conf.Workers = machines
	var mu sync.Mutex
	switched := make(map[string]int)
	SimulateSite(t, 3, 270, func(c *Cluster) *Site {
		s := NewSite(c, machines, conf, portMaker{calls}, patcher{})
		s.Trouble(func(_, call, node string) (time.Duration, error) {
			if call == "PUT power" {
				mu.Lock()
				switched[node]++
				mu.Unlock()
			}
			return time.Second, nil
		})
		return s
	}, func(c *Cluster, s *Site) {
		lead := c.AwaitLeader(successionLimit)
		s.Machine(s.Nodes()[0]).Asks = lead
		var beginning sync.WaitGroup
		for _, node := range s.Nodes() { // at once, so that they are processed at once
			beginning.Go(func() {
				if !s.begin(node) {
					t.Errorf("%s was not accepted", node)
				}
			})
		}
		beginning.Wait()
		c.Until(time.Minute, "all callbacks are being processed", func() bool {
			v, ok := c.newest()
			processing := 0
			for rec := range v.Records() {
				if rec.State == introspection.NodeProcessing {
					processing++
				}
			}
			return ok && processing == machines
		})
		v, _ := c.newest()
		if len(heldBy(v, lead.Core().Session.ID(), introspection.EventProcess)) == 0 {
			t.Fatal("the leader processes no callback")
		}
		c.must(lead.Stop())
		c.must(lead.Start())
		s.awaitEnds(2*time.Minute, s.Nodes())
		v, _ = c.newest()
		for _, node := range s.Nodes() {
			if rec, _ := v.Record(node); rec.State != introspection.NodeFinished {
				t.Errorf("%s ended in %v: %s", node, rec.State, rec.Error)
			}
			if switched[node] != 2 { // on, off
				t.Errorf("%s was sent %d power commands", node, switched[node])
			}
		}
	})
}
