package inspector

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/introspection"
)

// slowly makes calls with a prefix take a while, and something happen meanwhile.
func (o *rig) slowly(prefix string, d time.Duration, meanwhile func()) {
	o.ironic.on(func(ctx context.Context, call string) error {
		if strings.HasPrefix(call, prefix) {
			select {
			case <-time.After(d):
			case <-ctx.Done():
			}
			meanwhile()
		}
		return nil
	})
}

func nothing() {}

func takenBy(o *rig, node, state string) func() {
	return func() { o.ironic.set(node, func(n *Node) { n.Provision = state }) }
}

func TestStartOfANode(t *testing.T) {
	inRig(t, func(o *rig) {
		o.accept(nodeA, macA)
		o.work(func(*WorkerPool) { o.becomes(nodeA, introspection.NodeWaiting, time.Second) })
		want := fmt.Sprint([]string{"node " + nodeA, "boot pxe " + nodeA, PowerReboot + " " + nodeA})
		if got := fmt.Sprint(o.ironic.sent("")); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

// Before each effect the node is read anew, unless that was done a moment ago:
// who deploys it while its boot device is set keeps it (docs/design.md#guard).
func TestNodeIsReadBeforeEachEffect(t *testing.T) {
	inRig(t, func(o *rig) {
		o.slowly("boot", 5*time.Second, takenBy(o, nodeA, "active"))
		o.accept(nodeA, macA)
		o.work(func(*WorkerPool) {
			rec := o.becomes(nodeA, introspection.NodeError, time.Minute)
			if !strings.HasPrefix(rec.Error, `Invalid provision state for introspection: "active"`) {
				t.Errorf("it ended with %q", rec.Error)
			}
		})
		if calls := o.ironic.sent(PowerReboot); len(calls) > 0 {
			t.Errorf("a deployed node was reset: %v", calls)
		}
	})
}

// A start whose time is over does not reset its node.
func TestStartThatTakesTooLong(t *testing.T) {
	inRig(t, func(o *rig) {
		o.slowly("boot", o.conf.Timeout+time.Second, nothing)
		o.accept(nodeA, macA)
		o.work(func(*WorkerPool) {
			if rec := o.becomes(nodeA, introspection.NodeError, o.conf.Timeout+time.Minute); rec.Error != textTimeout {
				t.Errorf("it ended with %q", rec.Error)
			}
		})
		if calls := o.ironic.sent(PowerReboot); len(calls) > 0 {
			t.Errorf("after the time-out: %v", calls)
		}
	})
}

func TestStartFails(t *testing.T) {
	said := &IronicError{Status: 500, Message: "said Ironic"}
	for _, c := range []struct{ call, want string }{
		{"node", "Failed to read the node from Ironic: said Ironic"},
		{"boot", "Failed to set boot device to PXE: said Ironic"},
		{PowerReboot, "Failed to power on the node, check its power management configuration: said Ironic"},
		{"ports", "Failed to list the node's ports: said Ironic"},
	} {
		inRig(t, func(o *rig) {
			o.ironic.met(c.call, said)
			o.raftLog.must(introspection.Start{Node: nodeA, Event: introspection.EventStart, ManageBoot: true, Timeout: time.Minute,
				Attributes: introspection.Attributes{BMC: []string{"198.18.0.1"}}})
			o.work(func(*WorkerPool) {
				if rec := o.becomes(nodeA, introspection.NodeError, time.Minute); rec.Error != c.want {
					t.Errorf("%s: %q, want %q", c.call, rec.Error, c.want)
				}
			})
		})
	}
}

// A node that is gone, and an error of no known kind.
func TestStartFailsOtherwise(t *testing.T) {
	for want, err := range map[string]error{
		"Node " + nodeA + " was not found in Ironic": fmt.Errorf("%w: x", ErrNoNode),
		"out of paper": errors.New("out of paper"),
	} {
		inRig(t, func(o *rig) {
			o.ironic.met("node", err)
			o.accept(nodeA, macA)
			o.work(func(*WorkerPool) {
				if rec := o.becomes(nodeA, introspection.NodeError, time.Minute); rec.Error != want {
					t.Errorf("%q, want %q", rec.Error, want)
				}
			})
		})
	}
}

// A start that was carried out is not carried out again.
func TestStartMetAgain(t *testing.T) {
	inRig(t, func(o *rig) {
		q := o.accept(nodeA, macA)
		claim := o.claims(q)
		o.raftLog.must(introspection.Advance{Claim: claim.Hold(), Event: introspection.EventWait})
		o.raftLog.must(introspection.Release{Claim: claim.Hold()})
		o.work(func(*WorkerPool) { time.Sleep(time.Second) }) // in a bubble
		if v := o.raftLog.truth(); v.QueueLength() != 0 || len(o.ironic.sent("")) > 0 {
			t.Errorf("%d requests, calls %v", v.QueueLength(), o.ironic.sent(""))
		}
	})
}

// What belongs to an earlier introspection is dropped.
func TestRequestOfAnEarlierIntrospection(t *testing.T) {
	inRig(t, func(o *rig) {
		o.boots(nodeA, macA)
		o.calls(nodeA, macA, "")
		o.accept(nodeA, macA)
		o.work(func(*WorkerPool) { o.becomes(nodeA, introspection.NodeWaiting, time.Second) })
		if v := o.raftLog.truth(); v.QueueLength() != 0 || len(o.ironic.sent(PowerReboot)) != 1 {
			t.Errorf("%d requests, calls %v", v.QueueLength(), o.ironic.sent(""))
		}
	})
}

// Ironic that cannot be reached fails nothing: the request goes to a peer that
// reaches it, and the attempt does not count.
func TestStartIsGivenBack(t *testing.T) {
	inRig(t, func(o *rig) {
		q := o.accept(nodeA, macA)
		o.ironic.met("", away())
		o.work(func(*WorkerPool) {
			time.Sleep(time.Second) // in a bubble
			r, _ := o.raftLog.truth().QueuedRequest(q.Request)
			if r.Attempts != 0 || !r.Claim.IsZero() || o.health.Err() == nil {
				t.Errorf("%+v, Ironic %v", r, o.health.Err())
			}
			if n := o.raftLog.count(isClaim); n != 1 {
				t.Errorf("it was claimed %d times while Ironic is away", n)
			}
		})
		o.ironic.answers()
		other := NewIronicHealth(o.ironic, o.log)
		o.health, o.member = other, o.raftLog.newSession("h2")
		o.work(func(*WorkerPool) { o.becomes(nodeA, introspection.NodeWaiting, time.Second) })
	})
}

// A request that waited for Ironic longer than it may ends all the same.
func TestRequestsEndWithoutIronic(t *testing.T) {
	inRig(t, func(o *rig) {
		o.conf.Timeout = time.Minute
		o.ironic.met("", away())
		if o.health.Check(o.ctx) == nil {
			t.Fatal("Ironic is there")
		}
		o.accept(nodeA, macA)
		o.boots(nodeB, macB)
		q := o.calls(nodeB, macB, "")
		o.work(func(*WorkerPool) {
			o.becomes(nodeA, introspection.NodeError, 2*time.Minute)
			rec := o.becomes(nodeB, introspection.NodeError, time.Minute)
			if rec.Error != textTimeout || rec.Delivered.Request != q.Request || rec.Delivered.Answer.Status != 400 {
				t.Errorf("%q, delivered %+v", rec.Error, rec.Delivered)
			}
		})
	})
}

// Turns come one by one, a worker that waits for one is free for others, and a
// node whose turn would come too late fails at once instead of keeping its lock.
func TestThrottle(t *testing.T) {
	inRig(t, func(o *rig) {
		o.conf.RebootThrottle, o.conf.Timeout, o.conf.Workers = 20*time.Second, time.Minute, 1
		for n := range 10 {
			o.ironic.nodes[nodeN(n)] = Node{UUID: nodeN(n), Provision: "manageable"}
			o.accept(nodeN(n), macA)
		}
		began := time.Now()
		o.work(func(*WorkerPool) {
			time.Sleep(5 * time.Second) // in a bubble
			late := 0
			v := o.raftLog.truth()
			for rec := range v.Records() {
				if rec.State == introspection.NodeError && strings.Contains(rec.Error, "introspection_delay") {
					late++
				}
			}
			if late != 7 || len(v.Claims()) != 2 {
				t.Errorf("%d of 10 have no turn within a minute of three, %d wait for theirs", late, len(v.Claims()))
			}
			o.raftLog.must(introspection.Start{Node: nodeB, Event: introspection.EventEnroll, Timeout: time.Minute})
			o.calls(nodeB, macB, "")
			o.becomes(nodeB, introspection.NodeFinished, time.Second)
			time.Sleep(time.Minute) // in a bubble
			var at []time.Duration
			for _, when := range o.ironic.when(PowerReboot) {
				at = append(at, when.Sub(began).Round(time.Second))
			}
			if fmt.Sprint(at) != "[0s 20s 40s]" {
				t.Errorf("powered on after %v", at)
			}
			o.accept(nodeA, macA)
			o.becomes(nodeA, introspection.NodeWaiting, 30*time.Second) // the burst is forgotten
		})
	})
}

// A start that waits for its turn is interrupted by SIGTERM and given back.
func TestThrottleIsInterrupted(t *testing.T) {
	inRig(t, func(o *rig) {
		o.conf.RebootThrottle = time.Minute
		o.accept(nodeA, macA)
		o.accept(nodeB, macB)
		o.work(func(*WorkerPool) { time.Sleep(time.Second) }) // in a bubble
		v := o.raftLog.truth()
		if len(v.Claims()) != 0 || v.QueueLength() != 1 || len(o.ironic.sent(PowerReboot)) != 1 {
			t.Errorf("claims %v, %d requests, %v", v.Claims(), v.QueueLength(), o.ironic.sent(PowerReboot))
		}
	})
}

// A gateway fails at one thing at once, and Ironic answers all else: the worker that
// has the request tries a few times, and then the introspection ends in error. To give
// the request back each time would fill the log.
func TestGatewayFailsAtStart(t *testing.T) {
	for call, want := range map[string]string{
		"node":      "Failed to read the node from Ironic: bad gateway",
		"boot":      "Failed to set boot device to PXE: bad gateway",
		PowerReboot: "Failed to power on the node, check its power management configuration: bad gateway",
	} {
		inRig(t, func(o *rig) {
			ctx, cancel := context.WithCancel(o.ctx)
			go o.health.Run(ctx)
			defer cancel()
			tries := 0
			o.ironic.on(func(_ context.Context, met string) error {
				if !strings.HasPrefix(met, call) {
					return nil
				}
				tries++
				time.Sleep(20 * time.Millisecond) // in a bubble
				return &IronicError{Status: http.StatusBadGateway, Message: "bad gateway"}
			})
			began := time.Now()
			o.accept(nodeA, macA)
			o.work(func(*WorkerPool) {
				rec := o.becomes(nodeA, introspection.NodeError, time.Hour)
				if took := time.Since(began); rec.Error != want || took > 5*time.Second || tries < 2 || tries > 10 {
					t.Errorf("one-thing: %s: ended after %v and %d tries: %q", call, took, tries, rec.Error)
				}
			})
		})
	}
}
