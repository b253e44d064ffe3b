package inspector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// node returns the UUID of the n-th of many nodes.
func nodeN(n int) string { return fmt.Sprintf("33333333-3333-4333-8333-%012d", n) }

func isClaim(c fsm.Command) bool { _, is := c.(introspection.ClaimRequests); return is }

// A claim whose answer comes after the pool was told to stop must not be left
// behind: its peer lives on, and so does its session.
func TestClaimUnderWayWhenThePoolStops(t *testing.T) {
	inRig(t, func(o *rig) {
		o.raftLog.late = func(c fsm.Command) time.Duration {
			if isClaim(c) {
				return 2 * time.Second
			}
			return 0
		}
		o.accept(nodeA, macA)
		began := time.Now()
		o.work(func(*WorkerPool) { time.Sleep(time.Second) }) // in a bubble
		v := o.raftLog.truth()
		if held := v.Claims(); len(held) > 0 {
			t.Errorf("the pool has stopped and holds %+v", held)
		}
		for _, r := range v.QueueOf(nodeA) {
			if r.Attempts != 0 {
				t.Errorf("a request that nobody began counts %d attempts", r.Attempts)
			}
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the pool took %v to stop", took)
		}
		if calls := o.ironic.sent(""); len(calls) > 0 {
			t.Errorf("a stopping pool called Ironic: %v", calls)
		}
	})
}

// Without a leader the answer never comes, and stopping ends all the same.
func TestPoolStopsWithoutAnAnswer(t *testing.T) {
	inRig(t, func(o *rig) {
		o.raftLog.late = func(fsm.Command) time.Duration { return time.Hour }
		o.accept(nodeA, macA)
		o.work(func(*WorkerPool) { time.Sleep(time.Second) }) // in a bubble
		if now := o.raftLog.truth().Now(); time.Duration(now) > 10*time.Second {
			t.Errorf("it took until %v", now)
		}
	})
}

// A follower sees what it claimed a moment later; it must not claim it again
// meanwhile.
func TestClaimedOnceOnALaggingView(t *testing.T) {
	inRig(t, func(o *rig) {
		o.accept(nodeA, macA)
		o.raftLog.freeze(true)
		o.work(func(*WorkerPool) {
			time.Sleep(500 * time.Millisecond) // in a bubble
			if n := o.raftLog.count(isClaim); n != 1 {
				t.Errorf("the same request was claimed %d times", n)
			}
			o.raftLog.freeze(false)
			o.becomes(nodeA, introspection.NodeWaiting, time.Second)
		})
	})
}

func TestWorkersAreBounded(t *testing.T) {
	inRig(t, func(o *rig) {
		o.ironic.on(func(ctx context.Context, call string) error {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
			return nil
		})
		for n := range 7 {
			o.accept(nodeN(n), macA)
		}
		o.work(func(c *WorkerPool) {
			for range 50 {
				time.Sleep(100 * time.Millisecond) // in a bubble
				if busy := c.Busy(); busy > o.conf.Workers || len(o.raftLog.truth().Claims()) > o.conf.Workers {
					t.Fatalf("%d tasks, %d claims, %d workers", busy, len(o.raftLog.truth().Claims()), o.conf.Workers)
				}
			}
		})
	})
}

// Three pools that see the same queue choose different requests at once, and
// what its own peer does not take, whoever looks at it long enough.
func TestTurns(t *testing.T) {
	inRig(t, func(o *rig) {
		o.conf.Workers = 64
		sessions := []*fakeSession{o.member, o.raftLog.newSession("h2"), o.raftLog.newSession("h3")}
		for n := range 30 {
			o.accept(nodeN(n), macA)
		}
		v := o.raftLog.truth()
		chosen := make(map[fencing.Token]int)
		for _, s := range sessions {
			c := o.workers(s)
			mine, again := c.pick(v, 64)
			if len(mine) == 0 || again != turnWait {
				t.Errorf("%d of 30 are this peer's at once, and it looks again in %v", len(mine), again)
			}
			for _, r := range mine {
				chosen[r]++
			}
			time.Sleep(turnWait) // in a bubble
			if all, _ := c.pick(v, 64); len(all) != 30 {
				t.Errorf("after %v it takes %d of 30", turnWait, len(all))
			}
			if some, _ := c.pick(v, 5); len(some) != 5 || !slices.IsSorted(some) {
				t.Errorf("five free workers take %v, the oldest first", some)
			}
			if none, again := c.pick(v, 0); len(none) > 0 || again != o.conf.QueueGetTimeout {
				t.Errorf("nobody is free, and it takes %v", none)
			}
		}
		for r, n := range chosen {
			if n != 1 {
				t.Errorf("request %v is the turn of %d peers", r, n)
			}
		}
		if len(chosen) != 30 {
			t.Errorf("%d of 30 requests are some peer's turn", len(chosen))
		}
	})
}

// While Ironic cannot be reached from here, what does not need it goes on, also
// behind thousands of requests that do.
func TestWithoutIronicOnlyEndsAreCarriedOut(t *testing.T) {
	inRig(t, func(o *rig) {
		const many = 1100
		for n := range many {
			o.boots(nodeN(n), macA)
			o.raftLog.must(introspection.Enqueue{Node: nodeN(n), Event: introspection.EventDelete})
		}
		o.raftLog.must(introspection.Start{Node: nodeA, Event: introspection.EventEnroll, Timeout: time.Second})
		o.ironic.met("ping", away())
		if o.health.Check(o.ctx) == nil {
			t.Fatal("Ironic is there")
		}
		o.work(func(*WorkerPool) {
			time.Sleep(2 * time.Second) // in a bubble
			o.raftLog.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventTimeout})
			o.becomes(nodeA, introspection.NodeError, 10*time.Second)
			if n := o.raftLog.truth().QueueLength(); n != many {
				t.Errorf("%d of %d requests that need Ironic wait for it", n, many)
			}
		})
	})
}

// Who has lost a claim on a document leaves it to the peers that have not, and
// takes it when there is none.
func TestWhoHasMetADocumentLeavesItToOthers(t *testing.T) {
	inRig(t, func(o *rig) {
		o.boots(nodeA, macA)
		q := o.calls(nodeA, macA, "")
		other := o.raftLog.newSession("h2")
		claimed(t, o.member, q)
		o.raftLog.must(membership.EndSession{Session: o.member.ID()})
		o.member.open("id-h1")
		time.Sleep(turnWait) // in a bubble
		look := func(s *fakeSession) int {
			c := o.workers(s)
			c.pick(o.raftLog.truth(), 1)
			time.Sleep(turnWait) // in a bubble
			wanted, _ := c.pick(o.raftLog.truth(), 1)
			return len(wanted)
		}
		if look(o.member) != 0 || look(other) != 1 {
			t.Error("the peer that lost the document takes it again while another has not met it")
		}
		other.leave()
		time.Sleep(membership.SessionTTL + 2*time.Second) // in a bubble
		if look(o.member) != 1 {
			t.Error("nobody takes it")
		}
	})
}

// Tasks may go on for a while after SIGTERM, then they are interrupted: a start
// is given back and counts for nothing, a callback that was begun fails and says
// why.
func TestPoolInterruptsTasks(t *testing.T) {
	inRig(t, func(o *rig) {
		o.hooks = []Hook{afterHook{"slow", func(ctx context.Context, _ *Task) error {
			<-ctx.Done()
			return ctx.Err()
		}}}
		o.boots(nodeB, macB)
		o.calls(nodeB, macB, "")
		o.accept(nodeA, macA)
		o.ironic.on(func(ctx context.Context, call string) error {
			if call == "boot pxe "+nodeA {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})
		var stopped time.Time
		o.work(func(*WorkerPool) {
			time.Sleep(time.Second) // in a bubble
			stopped = time.Now()
		})
		if took := time.Since(stopped); took < stopGrace || took > stopGrace+callGrace+flushGrace {
			t.Errorf("the pool stopped after %v", took)
		}
		v := o.raftLog.truth()
		if r := v.QueueOf(nodeA); len(v.Claims()) != 0 || len(r) != 1 || r[0].Attempts != 0 {
			t.Errorf("claims %v, start %+v", v.Claims(), r)
		}
		const want = "interrupted: peer h1 had to stop while it processed the data (context canceled); start the introspection again"
		if rec, _ := v.Record(nodeB); rec.State != introspection.NodeError || rec.Error != want || rec.Delivered.Answer.Status != 500 {
			t.Errorf("the callback ended in %v: %q, answered %+v", rec.State, rec.Error, rec.Delivered.Answer)
		}
	})
}

// A task that ends within the grace is not disturbed.
func TestPoolLetsTasksEnd(t *testing.T) {
	inRig(t, func(o *rig) {
		o.accept(nodeA, macA)
		o.ironic.on(func(ctx context.Context, call string) error {
			time.Sleep(time.Second) // in a bubble
			return nil
		})
		o.work(func(*WorkerPool) { time.Sleep(500 * time.Millisecond) }) // in a bubble
		if rec, _ := o.raftLog.truth().Record(nodeA); rec.State != introspection.NodeWaiting {
			t.Errorf("the start ended in %v: %s", rec.State, rec.Error)
		}
	})
}

// A paused pool ends what it has begun and begins nothing more; then it may
// go on.
func TestPoolRests(t *testing.T) {
	inRig(t, func(o *rig) {
		o.slowly("boot", 2*time.Second, nothing)
		o.accept(nodeA, macA)
		o.work(func(c *WorkerPool) {
			time.Sleep(time.Second) // in a bubble
			c.Pause(true)
			if c.Idle() {
				t.Error("it is idle in the middle of a start")
			}
			o.accept(nodeB, macB)
			time.Sleep(10 * time.Second) // in a bubble
			a, _ := o.raftLog.truth().Record(nodeA)
			b, _ := o.raftLog.truth().Record(nodeB)
			if !c.Idle() || a.State != introspection.NodeWaiting || b.State != introspection.NodeStarting || len(o.raftLog.truth().Claims()) > 0 {
				t.Errorf("at rest: idle %v, %v and %v, claims %v", c.Idle(), a.State, b.State, o.raftLog.truth().Claims())
			}
			c.Pause(false)
			o.becomes(nodeB, introspection.NodeWaiting, o.conf.QueueGetTimeout+3*time.Second)
		})
	})
}

// A claim that is under way when the pool is paused is waited for.
func TestPoolIsNotIdleWhileItClaims(t *testing.T) {
	inRig(t, func(o *rig) {
		o.raftLog.late = func(fsm.Command) time.Duration { return time.Second }
		o.accept(nodeA, macA)
		o.work(func(c *WorkerPool) {
			time.Sleep(500 * time.Millisecond) // in a bubble
			if c.Pause(true); c.Idle() {
				t.Error("it is idle and will have a claim")
			}
			o.becomes(nodeA, introspection.NodeWaiting, 10*time.Second)
		})
	})
}

// A claim that fails is tried again after a moment, not at once and not never.
func TestClaimsAreTriedAgain(t *testing.T) {
	inRig(t, func(o *rig) {
		o.accept(nodeA, macA)
		tries := 0
		o.raftLog.meets = func(c fsm.Command) error {
			if tries++; isClaim(c) && tries <= 5 {
				return errors.New("no")
			}
			return nil
		}
		began := time.Now()
		o.work(func(*WorkerPool) { o.becomes(nodeA, introspection.NodeWaiting, time.Minute) })
		if took := time.Since(began); tries < 6 || took < 5*turnWait || took > time.Second {
			t.Errorf("%d tries in %v", tries, took)
		}
	})
}

// afterHook and beforeHook are hooks of one function.
type afterHook struct {
	name string
	do   func(ctx context.Context, t *Task) error
}

func (h afterHook) Name() string                             { return h.name }
func (h afterHook) After(ctx context.Context, t *Task) error { return h.do(ctx, t) }

type beforeHook struct {
	name string
	do   func(ctx context.Context, d *Document) error
}

func (h beforeHook) Name() string                                  { return h.name }
func (h beforeHook) Before(ctx context.Context, d *Document) error { return h.do(ctx, d) }
