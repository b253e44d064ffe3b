package work_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/inspector/work"
	"github.com/trivet-ha/trivet/test/inspecttest"
)

func TestStartOfANode(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Accept(inspecttest.NodeA, inspecttest.MacA)
		o.Work(func(*work.Pool) { o.Becomes(inspecttest.NodeA, introspection.NodeWaiting, time.Second) })
		want := fmt.Sprint([]string{"node " + inspecttest.NodeA, "boot pxe " + inspecttest.NodeA,
			ironic.PowerReboot + " " + inspecttest.NodeA})
		if got := fmt.Sprint(o.Ironic.Sent("")); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

// Before each effect the node is read anew, unless that was done a moment ago:
// who deploys it while its boot device is set keeps it (docs/design.md#guard).
func TestNodeIsReadBeforeEachEffect(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Slowly("boot", 5*time.Second, inspecttest.TakenBy(o, inspecttest.NodeA, "active"))
		o.Accept(inspecttest.NodeA, inspecttest.MacA)
		o.Work(func(*work.Pool) {
			rec := o.Becomes(inspecttest.NodeA, introspection.NodeError, time.Minute)
			if !strings.HasPrefix(rec.Error, `Invalid provision state for introspection: "active"`) {
				t.Errorf("it ended with %q", rec.Error)
			}
		})
		if calls := o.Ironic.Sent(ironic.PowerReboot); len(calls) > 0 {
			t.Errorf("a deployed node was reset: %v", calls)
		}
	})
}

// A start whose time is over does not reset its node.
func TestStartThatTakesTooLong(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Slowly("boot", o.Conf.Timeout+time.Second, inspecttest.Nothing)
		o.Accept(inspecttest.NodeA, inspecttest.MacA)
		o.Work(func(*work.Pool) {
			if rec := o.Becomes(
				inspecttest.NodeA, introspection.NodeError, o.Conf.Timeout+time.Minute); rec.Error != work.TextTimeout {
				t.Errorf("it ended with %q", rec.Error)
			}
		})
		if calls := o.Ironic.Sent(ironic.PowerReboot); len(calls) > 0 {
			t.Errorf("after the time-out: %v", calls)
		}
	})
}

func TestStartFails(t *testing.T) {
	said := &ironic.Error{Status: 500, Message: "said Ironic"}
	for _, c := range []struct{ call, want string }{
		{"node", "Failed to read the node from Ironic: said Ironic"},
		{"boot", "Failed to set boot device to PXE: said Ironic"},
		{ironic.PowerReboot, "Failed to power on the node, check its power management configuration: said Ironic"},
		{"ports", "Failed to list the node's ports: said Ironic"},
	} {
		inspecttest.InRig(t, func(o *inspecttest.Rig) {
			o.Ironic.Met(c.call, said)
			o.RaftLog.Must(introspection.Start{Node: inspecttest.NodeA, Event: introspection.EventStart, ManageBoot: true,
				Timeout:    time.Minute,
				Attributes: introspection.Attributes{BMC: []string{"198.18.0.1"}}})
			o.Work(func(*work.Pool) {
				if rec := o.Becomes(inspecttest.NodeA, introspection.NodeError, time.Minute); rec.Error != c.want {
					t.Errorf("%s: %q, want %q", c.call, rec.Error, c.want)
				}
			})
		})
	}
}

// A node that is gone, and an error of no known kind.
func TestStartFailsOtherwise(t *testing.T) {
	for want, err := range map[string]error{
		"Node " + inspecttest.NodeA + " was not found in Ironic": fmt.Errorf("%w: x", ironic.ErrNoNode),
		"out of paper": errors.New("out of paper"),
	} {
		inspecttest.InRig(t, func(o *inspecttest.Rig) {
			o.Ironic.Met("node", err)
			o.Accept(inspecttest.NodeA, inspecttest.MacA)
			o.Work(func(*work.Pool) {
				if rec := o.Becomes(inspecttest.NodeA, introspection.NodeError, time.Minute); rec.Error != want {
					t.Errorf("%q, want %q", rec.Error, want)
				}
			})
		})
	}
}

// A start that was carried out is not carried out again.
func TestStartMetAgain(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		q := o.Accept(inspecttest.NodeA, inspecttest.MacA)
		claim := o.Claims(q)
		o.RaftLog.Must(introspection.Advance{Claim: claim.Hold(), Event: introspection.EventWait})
		o.RaftLog.Must(introspection.Release{Claim: claim.Hold()})
		o.Work(func(*work.Pool) { time.Sleep(time.Second) }) // in a bubble
		if v := o.RaftLog.Truth(); v.QueueLength() != 0 || len(o.Ironic.Sent("")) > 0 {
			t.Errorf("%d requests, calls %v", v.QueueLength(), o.Ironic.Sent(""))
		}
	})
}

// What belongs to an earlier introspection is dropped.
func TestRequestOfAnEarlierIntrospection(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Boots(inspecttest.NodeA, inspecttest.MacA)
		o.Calls(inspecttest.NodeA, inspecttest.MacA, "")
		o.Accept(inspecttest.NodeA, inspecttest.MacA)
		o.Work(func(*work.Pool) { o.Becomes(inspecttest.NodeA, introspection.NodeWaiting, time.Second) })
		if v := o.RaftLog.Truth(); v.QueueLength() != 0 || len(o.Ironic.Sent(ironic.PowerReboot)) != 1 {
			t.Errorf("%d requests, calls %v", v.QueueLength(), o.Ironic.Sent(""))
		}
	})
}

// Ironic that cannot be reached fails nothing: the request goes to a peer that
// reaches it, and the attempt does not count.
func TestStartIsGivenBack(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		q := o.Accept(inspecttest.NodeA, inspecttest.MacA)
		o.Ironic.Met("", inspecttest.Away())
		o.Work(func(*work.Pool) {
			time.Sleep(time.Second) // in a bubble
			r, _ := o.RaftLog.Truth().QueuedRequest(q.Request)
			if r.Attempts != 0 || !r.Claim.IsZero() || o.Health.Err() == nil {
				t.Errorf("%+v, Ironic %v", r, o.Health.Err())
			}
			if n := o.RaftLog.Count(inspecttest.IsClaim); n != 1 {
				t.Errorf("it was claimed %d times while Ironic is away", n)
			}
		})
		o.Ironic.Answers()
		other := ironic.NewHealth(o.Ironic, o.Log)
		o.Health, o.Member = other, o.RaftLog.NewSession("h2")
		o.Work(func(*work.Pool) { o.Becomes(inspecttest.NodeA, introspection.NodeWaiting, time.Second) })
	})
}

// A request that waited for Ironic longer than it may ends all the same.
func TestRequestsEndWithoutIronic(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Conf.Timeout = time.Minute
		o.Ironic.Met("", inspecttest.Away())
		if o.Health.Check(o.Ctx) == nil {
			t.Fatal("Ironic is there")
		}
		o.Accept(inspecttest.NodeA, inspecttest.MacA)
		o.Boots(inspecttest.NodeB, inspecttest.MacB)
		q := o.Calls(inspecttest.NodeB, inspecttest.MacB, "")
		o.Work(func(*work.Pool) {
			o.Becomes(inspecttest.NodeA, introspection.NodeError, 2*time.Minute)
			rec := o.Becomes(inspecttest.NodeB, introspection.NodeError, time.Minute)
			if rec.Error != work.TextTimeout || rec.Delivered.Request != q.Request || rec.Delivered.Answer.Status != 400 {
				t.Errorf("%q, delivered %+v", rec.Error, rec.Delivered)
			}
		})
	})
}

// Turns come one by one, a worker that waits for one is free for others, and a
// node whose turn would come too late fails at once instead of keeping its lock.
func TestThrottle(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Conf.RebootThrottle, o.Conf.Timeout, o.Conf.Workers = 20*time.Second, time.Minute, 1
		for n := range 10 {
			o.Ironic.Nodes[inspecttest.NodeN(n)] = ironic.Node{UUID: inspecttest.NodeN(n), Provision: "manageable"}
			o.Accept(inspecttest.NodeN(n), inspecttest.MacA)
		}
		began := time.Now()
		o.Work(func(*work.Pool) {
			time.Sleep(5 * time.Second) // in a bubble
			late := 0
			v := o.RaftLog.Truth()
			for rec := range v.Records() {
				if rec.State == introspection.NodeError && strings.Contains(rec.Error, "introspection_delay") {
					late++
				}
			}
			if late != 7 || len(v.Claims()) != 2 {
				t.Errorf("%d of 10 have no turn within a minute of three, %d wait for theirs", late, len(v.Claims()))
			}
			o.RaftLog.Must(introspection.Start{Node: inspecttest.NodeB, Event: introspection.EventEnroll, Timeout: time.Minute})
			o.Calls(inspecttest.NodeB, inspecttest.MacB, "")
			o.Becomes(inspecttest.NodeB, introspection.NodeFinished, time.Second)
			time.Sleep(time.Minute) // in a bubble
			var at []time.Duration
			for _, when := range o.Ironic.When(ironic.PowerReboot) {
				at = append(at, when.Sub(began).Round(time.Second))
			}
			if fmt.Sprint(at) != "[0s 20s 40s]" {
				t.Errorf("powered on after %v", at)
			}
			o.Accept(inspecttest.NodeA, inspecttest.MacA)
			o.Becomes(inspecttest.NodeA, introspection.NodeWaiting, 30*time.Second) // the burst is forgotten
		})
	})
}

// A start whose turn came while Ironic was busy keeps it: it does not go behind all that wait, and is reset soon
// after Ironic has time, apart from others to which that happened.
func TestThrottleWhileIronicIsBusy(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Conf.RebootThrottle, o.Conf.Timeout, o.Conf.Workers = 20*time.Second, 5*time.Minute, 1
		began := time.Now()
		o.Ironic.On(func(_ context.Context, call string) error {
			if strings.HasPrefix(call, ironic.PowerReboot) && time.Since(began) < 50*time.Second {
				return &ironic.Error{Status: 503, Own: true,
					Message: "Requested action cannot be performed due to lack of free conductor workers."}
			}
			return nil
		})
		const nodes = 15 // their turns are 0 to 280 s
		for n := range nodes {
			o.Ironic.Nodes[inspecttest.NodeN(n)] = ironic.Node{UUID: inspecttest.NodeN(n), Provision: "manageable"}
			o.Accept(inspecttest.NodeN(n), inspecttest.MacA)
		}
		o.Work(func(*work.Pool) {
			time.Sleep(3 * time.Minute) // in a bubble
			early := o.Ironic.Sent(ironic.PowerReboot)
			for n := range nodes {
				if rec := booted(o, inspecttest.NodeN(n)); rec.State != introspection.NodeWaiting {
					t.Errorf("turn-kept: node %d: %s", n, rec.Error)
				}
			}
			if len(early) < 9 { // 0, 20 and 40 s are tried again, 60 to 160 s have their turn
				t.Errorf("turn-kept: after 3 minutes %d were reset", len(early))
			}
			if again := o.Ironic.When(ironic.PowerReboot); len(again) != nodes {
				t.Errorf("turn-kept: %d resets", len(again))
			}
		})
	})
}

// A node that gets another user while its start waits, for its turn or for a busy Ironic, is let in no longer, and
// its machine is left alone.
func TestNodeOfAnotherUserWhileItsStartWaits(t *testing.T) {
	for _, busy := range []bool{false, true} {
		inspecttest.InRig(t, func(o *inspecttest.Rig) {
			o.Conf.RebootThrottle = 10 * time.Minute
			if busy {
				o.Conf.RebootThrottle = 0
				o.Ironic.Met("boot pxe "+inspecttest.NodeA, noConductor(404))
			}
			o.Accept(inspecttest.NodeB, inspecttest.MacB)
			o.Work(func(*work.Pool) {
				o.Becomes(inspecttest.NodeB, introspection.NodeWaiting, time.Second)
				o.Accept(inspecttest.NodeA, inspecttest.MacA)
				time.Sleep(time.Minute) // in a bubble
				if v := o.RaftLog.Truth(); !v.Allowed(inspecttest.MacA) {
					t.Errorf("taken-in-starting: busy %t: a free node is not let in", busy)
				}
				o.Ironic.Set(inspecttest.NodeA, func(n *ironic.Node) { n.Provision = "active" })
				time.Sleep(time.Minute) // in a bubble
				v := o.RaftLog.Truth()
				rec, _ := v.Record(inspecttest.NodeA)
				if v.Allowed(inspecttest.MacA) || !strings.HasPrefix(rec.Error, "Invalid provision state") {
					t.Errorf("taken-in-starting: busy %t: it may boot: %t, error %q", busy, v.Allowed(inspecttest.MacA), rec.Error)
				}
				if calls := o.Ironic.Sent(ironic.PowerReboot); len(calls) != 1 {
					t.Errorf("taken-in-starting: busy %t: %v", busy, calls)
				}
			})
		})
	}
}

// A start that waits for its turn is interrupted by SIGTERM and given back.
func TestThrottleIsInterrupted(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Conf.RebootThrottle = time.Minute
		o.Accept(inspecttest.NodeA, inspecttest.MacA)
		o.Accept(inspecttest.NodeB, inspecttest.MacB)
		o.Work(func(*work.Pool) { time.Sleep(time.Second) }) // in a bubble
		v := o.RaftLog.Truth()
		if len(v.Claims()) != 0 || v.QueueLength() != 1 || len(o.Ironic.Sent(ironic.PowerReboot)) != 1 {
			t.Errorf("claims %v, %d requests, %v", v.Claims(), v.QueueLength(), o.Ironic.Sent(ironic.PowerReboot))
		}
	})
}

// A gateway fails at one thing at once, or Ironic does without a BMC behind it, and Ironic answers all else: the
// worker that has the request tries a few times, and then the introspection ends in error. To give the request back
// each time would fill the log.
func TestGatewayFailsAtStart(t *testing.T) {
	gateway := &ironic.Error{Status: http.StatusBadGateway, Message: "bad gateway"}
	for call, c := range map[string]struct {
		want string
		err  error
	}{
		"boot":             {"Failed to set boot device to PXE: bad gateway", gateway},
		ironic.PowerReboot: {"Failed to power on the node, check its power management configuration: bad gateway", gateway},
		"node":             {"Failed to read the node from Ironic: bad gateway", gateway},
		"node " + inspecttest.NodeA: {"Failed to read the node from Ironic: Unexpected error",
			&ironic.Error{Status: http.StatusInternalServerError, Own: true, NoBMC: true, Message: "Unexpected error"}},
	} {
		inspecttest.InRig(t, func(o *inspecttest.Rig) {
			ctx, cancel := context.WithCancel(o.Ctx)
			go o.Health.Run(ctx)
			defer cancel()
			tries := 0
			o.Ironic.On(func(_ context.Context, met string) error {
				if !strings.HasPrefix(met, call) {
					return nil
				}
				tries++
				time.Sleep(20 * time.Millisecond) // in a bubble
				return c.err
			})
			began := time.Now()
			o.Accept(inspecttest.NodeA, inspecttest.MacA)
			o.Work(func(*work.Pool) {
				rec := o.Becomes(inspecttest.NodeA, introspection.NodeError, time.Hour)
				if took := time.Since(began); rec.Error != c.want || took > 5*time.Second || tries < 2 || tries > 10 {
					t.Errorf("one-thing: %s: ended after %v and %d tries: %q", call, took, tries, rec.Error)
				}
			})
		})
	}
}
