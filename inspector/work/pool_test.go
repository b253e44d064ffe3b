package work_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/membership"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/work"
	"github.com/trivet-ha/trivet/test/inspecttest"
)

// A claim whose answer comes after the pool was told to stop must not be left
// behind: its peer lives on, and so does its session.
func TestClaimUnderWayWhenThePoolStops(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.RaftLog.Late = func(c fsm.Command) time.Duration {
			if inspecttest.IsClaim(c) {
				return 2 * time.Second
			}
			return 0
		}
		o.Accept(inspecttest.NodeA, inspecttest.MacA)
		began := time.Now()
		o.Work(func(*work.Pool) { time.Sleep(time.Second) }) // in a bubble
		v := o.RaftLog.Truth()
		if held := v.Claims(); len(held) > 0 {
			t.Errorf("the pool has stopped and holds %+v", held)
		}
		for _, r := range v.QueueOf(inspecttest.NodeA) {
			if r.Attempts != 0 {
				t.Errorf("a request that nobody began counts %d attempts", r.Attempts)
			}
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the pool took %v to stop", took)
		}
		if calls := o.Ironic.Sent(""); len(calls) > 0 {
			t.Errorf("a stopping pool called Ironic: %v", calls)
		}
	})
}

// Without a leader the answer never comes, and stopping ends all the same.
func TestPoolStopsWithoutAnAnswer(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.RaftLog.Late = func(fsm.Command) time.Duration { return time.Hour }
		o.Accept(inspecttest.NodeA, inspecttest.MacA)
		o.Work(func(*work.Pool) { time.Sleep(time.Second) }) // in a bubble
		if now := o.RaftLog.Truth().Now(); time.Duration(now) > 10*time.Second {
			t.Errorf("it took until %v", now)
		}
	})
}

// A follower sees what it claimed a moment later; it must not claim it again
// meanwhile.
func TestClaimedOnceOnALaggingView(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Accept(inspecttest.NodeA, inspecttest.MacA)
		o.RaftLog.Freeze(true)
		o.Work(func(*work.Pool) {
			time.Sleep(500 * time.Millisecond) // in a bubble
			if n := o.RaftLog.Count(inspecttest.IsClaim); n != 1 {
				t.Errorf("the same request was claimed %d times", n)
			}
			o.RaftLog.Freeze(false)
			o.Becomes(inspecttest.NodeA, introspection.NodeWaiting, time.Second)
		})
	})
}

func TestWorkersAreBounded(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Ironic.On(func(ctx context.Context, call string) error {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
			return nil
		})
		for n := range 7 {
			o.Accept(inspecttest.NodeN(n), inspecttest.MacA)
		}
		o.Work(func(c *work.Pool) {
			for range 50 {
				time.Sleep(100 * time.Millisecond) // in a bubble
				if busy := c.Busy(); busy > o.Conf.Workers || len(o.RaftLog.Truth().Claims()) > o.Conf.Workers {
					t.Fatalf("%d tasks, %d claims, %d workers", busy, len(o.RaftLog.Truth().Claims()), o.Conf.Workers)
				}
			}
		})
	})
}

// Three pools that see the same queue choose different requests at once, and
// what its own peer does not take, whoever looks at it long enough.
func TestTurns(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Conf.Workers = 64
		sessions := []*inspecttest.FakeSession{o.Member, o.RaftLog.NewSession("h2"), o.RaftLog.NewSession("h3")}
		for n := range 30 {
			o.Accept(inspecttest.NodeN(n), inspecttest.MacA)
		}
		v := o.RaftLog.Truth()
		chosen := make(map[fencing.Token]int)
		for _, s := range sessions {
			c := o.Workers(s)
			mine, again := c.Pick(v, 64)
			if len(mine) == 0 || again != work.TurnWait {
				t.Errorf("%d of 30 are this peer's at once, and it looks again in %v", len(mine), again)
			}
			for _, r := range mine {
				chosen[r]++
			}
			time.Sleep(work.TurnWait) // in a bubble
			if all, _ := c.Pick(v, 64); len(all) != 30 {
				t.Errorf("after %v it takes %d of 30", work.TurnWait, len(all))
			}
			if some, _ := c.Pick(v, 5); len(some) != 5 || !slices.IsSorted(some) {
				t.Errorf("five free workers take %v, the oldest first", some)
			}
			if none, again := c.Pick(v, 0); len(none) > 0 || again != o.Conf.QueueGetTimeout {
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
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		const many = 1100
		for n := range many {
			o.Boots(inspecttest.NodeN(n), inspecttest.MacA)
			o.RaftLog.Must(introspection.Enqueue{Node: inspecttest.NodeN(n), Event: introspection.EventDelete})
		}
		o.RaftLog.Must(introspection.Start{Node: inspecttest.NodeA, Event: introspection.EventEnroll, Timeout: time.Second})
		o.Ironic.Met("ping", inspecttest.Away())
		if o.Health.Check(o.Ctx) == nil {
			t.Fatal("Ironic is there")
		}
		o.Work(func(*work.Pool) {
			time.Sleep(2 * time.Second) // in a bubble
			o.RaftLog.Must(introspection.Enqueue{Node: inspecttest.NodeA, Event: introspection.EventTimeout})
			o.Becomes(inspecttest.NodeA, introspection.NodeError, 10*time.Second)
			if n := o.RaftLog.Truth().QueueLength(); n != many {
				t.Errorf("%d of %d requests that need Ironic wait for it", n, many)
			}
		})
	})
}

// Who has lost a claim on a document leaves it to the peers that have not, and
// takes it when there is none.
func TestWhoHasMetADocumentLeavesItToOthers(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Boots(inspecttest.NodeA, inspecttest.MacA)
		q := o.Calls(inspecttest.NodeA, inspecttest.MacA, "")
		other := o.RaftLog.NewSession("h2")
		inspecttest.Claimed(t, o.Member, q)
		o.RaftLog.Must(membership.EndSession{Session: o.Member.ID()})
		o.Member.Open("id-h1")
		time.Sleep(work.TurnWait) // in a bubble
		look := func(s *inspecttest.FakeSession) int {
			c := o.Workers(s)
			c.Pick(o.RaftLog.Truth(), 1)
			time.Sleep(work.TurnWait) // in a bubble
			wanted, _ := c.Pick(o.RaftLog.Truth(), 1)
			return len(wanted)
		}
		if look(o.Member) != 0 || look(other) != 1 {
			t.Error("the peer that lost the document takes it again while another has not met it")
		}
		other.Leave()
		time.Sleep(membership.SessionTTL + 2*time.Second) // in a bubble
		if look(o.Member) != 1 {
			t.Error("nobody takes it")
		}
	})
}

// Tasks may go on for a while after SIGTERM, then they are interrupted: a start
// is given back and counts for nothing, a callback that was begun fails and says
// why.
func TestPoolInterruptsTasks(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Hooks = []inspector.Hook{inspecttest.After("slow", func(ctx context.Context, _ *inspector.Task) error {
			<-ctx.Done()
			return ctx.Err()
		})}
		o.Boots(inspecttest.NodeB, inspecttest.MacB)
		o.Calls(inspecttest.NodeB, inspecttest.MacB, "")
		o.Accept(inspecttest.NodeA, inspecttest.MacA)
		o.Ironic.On(func(ctx context.Context, call string) error {
			if call == "boot pxe "+inspecttest.NodeA {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})
		var stopped time.Time
		o.Work(func(*work.Pool) {
			time.Sleep(time.Second) // in a bubble
			stopped = time.Now()
		})
		if took := time.Since(stopped); took < work.StopGrace || took > work.StopGrace+work.CallGrace+work.FlushGrace {
			t.Errorf("the pool stopped after %v", took)
		}
		v := o.RaftLog.Truth()
		if r := v.QueueOf(inspecttest.NodeA); len(v.Claims()) != 0 || len(r) != 1 || r[0].Attempts != 0 {
			t.Errorf("claims %v, start %+v", v.Claims(), r)
		}
		const want = "interrupted: peer h1 had to stop while it processed the data (context canceled); start the introspection again"
		if rec, _ := v.Record(inspecttest.NodeB); rec.State != introspection.NodeError || rec.Error != want ||
			rec.Delivered.Answer.Status != 500 {
			t.Errorf("the callback ended in %v: %q, answered %+v", rec.State, rec.Error, rec.Delivered.Answer)
		}
	})
}

// A task that ends within the grace is not disturbed.
func TestPoolLetsTasksEnd(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Accept(inspecttest.NodeA, inspecttest.MacA)
		o.Ironic.On(func(ctx context.Context, call string) error {
			time.Sleep(time.Second) // in a bubble
			return nil
		})
		o.Work(func(*work.Pool) { time.Sleep(500 * time.Millisecond) }) // in a bubble
		if rec, _ := o.RaftLog.Truth().Record(inspecttest.NodeA); rec.State != introspection.NodeWaiting {
			t.Errorf("the start ended in %v: %s", rec.State, rec.Error)
		}
	})
}

// A paused pool ends what it has begun and begins nothing more; then it may
// go on.
func TestPoolRests(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Slowly("boot", 2*time.Second, inspecttest.Nothing)
		o.Accept(inspecttest.NodeA, inspecttest.MacA)
		o.Work(func(c *work.Pool) {
			time.Sleep(time.Second) // in a bubble
			c.Pause(true)
			if c.Idle() {
				t.Error("it is idle in the middle of a start")
			}
			o.Accept(inspecttest.NodeB, inspecttest.MacB)
			time.Sleep(10 * time.Second) // in a bubble
			a, _ := o.RaftLog.Truth().Record(inspecttest.NodeA)
			b, _ := o.RaftLog.Truth().Record(inspecttest.NodeB)
			if !c.Idle() || a.State != introspection.NodeWaiting || b.State != introspection.NodeStarting ||
				len(o.RaftLog.Truth().Claims()) > 0 {
				t.Errorf("at rest: idle %v, %v and %v, claims %v", c.Idle(), a.State, b.State, o.RaftLog.Truth().Claims())
			}
			c.Pause(false)
			o.Becomes(inspecttest.NodeB, introspection.NodeWaiting, o.Conf.QueueGetTimeout+3*time.Second)
		})
	})
}

// A claim that is under way when the pool is paused is waited for.
func TestPoolIsNotIdleWhileItClaims(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.RaftLog.Late = func(fsm.Command) time.Duration { return time.Second }
		o.Accept(inspecttest.NodeA, inspecttest.MacA)
		o.Work(func(c *work.Pool) {
			time.Sleep(500 * time.Millisecond) // in a bubble
			if c.Pause(true); c.Idle() {
				t.Error("it is idle and will have a claim")
			}
			o.Becomes(inspecttest.NodeA, introspection.NodeWaiting, 10*time.Second)
		})
	})
}

// A claim that fails is tried again after a moment, not at once and not never.
func TestClaimsAreTriedAgain(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Accept(inspecttest.NodeA, inspecttest.MacA)
		tries := 0
		o.RaftLog.Meets = func(c fsm.Command) error {
			if tries++; inspecttest.IsClaim(c) && tries <= 5 {
				return errors.New("no")
			}
			return nil
		}
		began := time.Now()
		o.Work(func(*work.Pool) { o.Becomes(inspecttest.NodeA, introspection.NodeWaiting, time.Minute) })
		if took := time.Since(began); tries < 6 || took < 5*work.TurnWait || took > time.Second {
			t.Errorf("%d tries in %v", tries, took)
		}
	})
}
