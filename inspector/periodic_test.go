package inspector

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/nodesync"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

// tenure is the authority of a leader that nobody challenges.
type tenure struct{ raftLog *fakeLog }

var _ leader.Authority = tenure{}

func (tenure) Token() fencing.Token                      { return 1 }
func (tenure) Confirm(context.Context, time.Time) error  { return nil }
func (tenure) Succeeds(uint64, uint64) (time.Time, bool) { return time.Time{}, false }
func (tenure) Configured() uint64                        { return 0 }
func (r tenure) Propose(_ context.Context, c fsm.Command) (fsm.Result, error) {
	return r.raftLog.write(fsm.Header{}, c)
}

func (o *rig) sweeps() *Sweeps {
	return &Sweeps{Live: o.live(), Log: o.raftLog, Ironic: o.ironic, Logger: o.log}
}

// sweep runs one round of a sweep.
func (o *rig) sweep(once func(context.Context, leader.Authority) error) {
	o.Helper()
	leads := crown{o.raftLog, o.raftLog.must(fsm.Lead{Peer: "id-h1", Boot: "b"}).Token}
	if err := once(o.ctx, leads); err != nil {
		o.Error(err)
	}
}

// A silent machine ends by its deadline, on a worker, and is asked for once.
func TestTimeoutSweep(t *testing.T) {
	inRig(t, func(o *rig) {
		o.conf.Timeout = time.Minute
		o.boots(nodeA, macA)
		o.sweep(o.sweeps().timeouts)
		if n := o.raftLog.truth().QueueLength(); n != 0 {
			t.Errorf("%d requests before the deadline", n)
		}
		time.Sleep(61 * time.Second) // in a bubble
		o.boots(nodeB, macB)
		for range 3 {
			o.sweep(o.sweeps().timeouts)
		}
		if n := o.raftLog.truth().QueueLength(); n != 1 {
			t.Errorf("%d requests for one silent machine", n)
		}
		o.work(func(*WorkerPool) {
			if rec := o.becomes(nodeA, introspection.NodeError, time.Second); rec.Error != textTimeout {
				t.Errorf("%q", rec.Error)
			}
		})
		if rec, _ := o.raftLog.truth().Record(nodeB); rec.State != introspection.NodeWaiting {
			t.Errorf("the other is %v", rec.State)
		}
		if calls := o.ironic.sent(""); len(calls) > 0 {
			t.Errorf("a time-out leaves the node as it is: %v", calls)
		}
	})
}

// A time-out waits for a node's lock: whoever holds it ends first.
func TestTimeoutWhileTheNodeIsClaimed(t *testing.T) {
	inRig(t, func(o *rig) {
		o.conf.Timeout = 10 * time.Second
		o.boots(nodeA, macA)
		claim := o.claims(o.calls(nodeA, macA, ""))
		o.raftLog.must(introspection.Advance{Claim: claim.Hold(), Event: introspection.EventProcess})
		time.Sleep(20 * time.Second) // in a bubble
		o.sweep(o.sweeps().timeouts)
		o.work(func(*WorkerPool) {
			time.Sleep(time.Second) // in a bubble
			if rec, _ := o.raftLog.truth().Record(nodeA); rec.State != introspection.NodeProcessing {
				t.Errorf("it is %v under somebody else's claim", rec.State)
			}
			o.raftLog.must(introspection.Advance{Claim: claim.Hold(), Event: introspection.EventFinish, Consume: true})
			time.Sleep(time.Second) // in a bubble
			if rec, _ := o.raftLog.truth().Record(nodeA); rec.State != introspection.NodeFinished || o.raftLog.truth().QueueLength() != 0 {
				t.Errorf("it became %v: %s", rec.State, rec.Error)
			}
		})
	})
}

func TestExpirySweep(t *testing.T) {
	inRig(t, func(o *rig) {
		o.conf.ReportExpiry = time.Hour
		o.raftLog.must(introspection.Start{Node: nodeA, Event: introspection.EventAdopt, Timeout: time.Second})
		o.boots(nodeB, macB)
		time.Sleep(2 * time.Second) // in a bubble
		o.raftLog.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventTimeout})
		o.work(func(*WorkerPool) { o.becomes(nodeA, introspection.NodeError, time.Second) })
		for i, want := range []int{2, 1, 1} {
			o.sweep(o.sweeps().expire)
			if n := o.raftLog.truth().Nodes(); n != want {
				t.Errorf("after %d hours %d reports, want %d", i, n, want)
			}
			time.Sleep(time.Hour + 5*time.Second) // in a bubble
		}
		o.conf.ReportExpiry = 0
		o.raftLog.must(introspection.Start{Node: nodeA, Event: introspection.EventAdopt, Timeout: time.Second})
		time.Sleep(2 * time.Second) // in a bubble
		o.raftLog.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventTimeout})
		o.work(func(*WorkerPool) { o.becomes(nodeA, introspection.NodeError, time.Second) })
		time.Sleep(24 * time.Hour) // in a bubble
		o.sweep(o.sweeps().expire)
		if n := o.raftLog.truth().Nodes(); n != 2 {
			t.Errorf("0 keeps for ever, %d are left", n)
		}
	})
}

// A sweep that fails is tried again and ends no leadership; it ends with it.
func TestPeriodicTask(t *testing.T) {
	inRig(t, func(o *rig) {
		rounds := 0
		o.conf.CleanUpPeriod = time.Minute
		p := periodic{"task", o.live(), func(context.Context, leader.Authority) error {
			rounds++
			return errors.New("no")
		}, o.log}
		ctx, cancel := context.WithTimeout(o.ctx, 10*time.Minute+time.Second)
		defer cancel()
		if err := p.Run(ctx, tenure{o.raftLog}); err != nil || rounds != 11 || p.Name() != "task" {
			t.Errorf("%d rounds, %v", rounds, err)
		}
		if n := len(o.sweeps().Duties()); n != 3 {
			t.Errorf("%d duties", n)
		}
	})
}

// What a sweep asks for may be overtaken; a log that does not take it is told.
func TestProposalsOfSweeps(t *testing.T) {
	inRig(t, func(o *rig) {
		for _, c := range []fsm.Command{
			introspection.DeleteNode{Node: nodeA}, introspection.Enqueue{Node: nodeA, Event: introspection.EventTimeout},
		} {
			if err := propose(o.ctx, tenure{o.raftLog}, c); err != nil {
				t.Errorf("%T: %v", c, err)
			}
		}
		why := errors.New("no quorum")
		o.raftLog.meets = func(fsm.Command) error { return why }
		if err := propose(o.ctx, tenure{o.raftLog}, introspection.DeleteNode{Node: nodeA}); !errors.Is(err, why) {
			t.Error(err)
		}
	})
}

// stocked records n nodes that Ironic lists as well.
func (o *rig) stocked(n int) {
	o.Helper()
	o.ironic.mu.Lock()
	clear(o.ironic.nodes)
	for i := range n {
		o.ironic.nodes[nodeN(i)] = Node{UUID: strings.ToUpper(nodeN(i)), Provision: "manageable"}
	}
	o.ironic.mu.Unlock()
	for i := range n {
		o.raftLog.must(introspection.Start{Node: nodeN(i), Event: introspection.EventAdopt, Timeout: time.Hour})
	}
}

// vanish takes nodes from Ironic.
func (o *rig) vanish(from, to int) {
	o.ironic.mu.Lock()
	defer o.ironic.mu.Unlock()
	for i := from; i < to; i++ {
		delete(o.ironic.nodes, nodeN(i))
	}
}

// deletions returns for how many nodes a deletion is queued.
func (o *rig) deletions() (n int) {
	for range o.raftLog.truth().Queue() {
		n++
	}
	return n
}

// The guard against erasing a site (docs/design.md#sync): what is doubted, and what is
// not.
func TestDoubt(t *testing.T) {
	for _, c := range []struct {
		missing, known, listed int
		doubted                bool
	}{
		{0, 10, 10, false}, {1, 1, 5, false}, {10, 10, 1, false}, {11, 12, 1, true}, {11, 55, 44, false}, {11, 54, 43, true},
		{2000, 10000, 8000, false}, {2001, 10000, 7999, true}, {3, 3, 0, true}, {0, 3, 0, true},
	} {
		if got := doubt(c.missing, c.known, c.listed); (got != "") != c.doubted {
			t.Errorf("%d of %d missing, %d listed: %q", c.missing, c.known, c.listed, got)
		}
	}
}

func TestSynchronisation(t *testing.T) {
	inRig(t, func(o *rig) {
		s := o.sweeps()
		o.sweep(s.synchronise)
		if calls := o.ironic.sent("list"); len(calls) > 0 {
			t.Errorf("with no records there is nothing to ask: %v", calls)
		}
		o.stocked(40)
		o.sweep(s.synchronise)
		o.vanish(0, 2)
		for range 3 {
			o.sweep(s.synchronise)
		}
		if n := o.deletions(); n != 2 {
			t.Errorf("%d deletions are queued for two nodes that are gone", n)
		}
		o.work(func(*WorkerPool) { time.Sleep(time.Second) }) // in a bubble
		if v := o.raftLog.truth(); v.Nodes() != 38 || v.QueueLength() != 0 {
			t.Errorf("%d records, %d requests", v.Nodes(), v.QueueLength())
		}
	})
}

// A doubtful list deletes nothing and says why, once, until it is confirmed or
// has said the same for a day.
func TestSuspicion(t *testing.T) {
	for _, settled := range []string{"confirmed", "a day later"} {
		inRig(t, func(o *rig) {
			s := o.sweeps()
			o.stocked(40)
			o.ironic.met("list", errors.New(strings.Repeat("page 2: ", 200)))
			o.sweep(s.synchronise)
			if got, ok := o.raftLog.truth().SyncSuspicion(); !ok || got.Known != 40 || got.Digest != "" || len(got.Reason) > maxReason+100 ||
				!strings.HasPrefix(got.Reason, "Ironic's nodes could not be listed: page 2") {
				t.Errorf("%+v", got)
			}
			o.ironic.answers()
			o.vanish(0, 30)
			for range 5 {
				o.sweep(s.synchronise)
				time.Sleep(time.Hour) // in a bubble
			}
			got, ok := o.raftLog.truth().SyncSuspicion()
			if !ok || got.Missing != 30 || got.Known != 40 || got.Reason != "Ironic's list lacks 30 of the 40 nodes that are known here" || o.deletions() > 0 {
				t.Errorf("%+v, %d deletions", got, o.deletions())
			}
			if n := o.raftLog.count(func(c fsm.Command) bool { _, is := c.(nodesync.Suspect); return is }); n != 2 {
				t.Errorf("it was said %d times", n)
			}
			switch settled {
			case "confirmed":
				if res, err := o.raftLog.write(fsm.Header{}, nodesync.Confirm{Digest: "another digest"}); err != nil || res.Code != fsm.Conflict {
					t.Errorf("the confirmation of another list: %+v, %v", res, err)
				}
				o.sweep(s.synchronise)
				if o.deletions() > 0 {
					t.Error("the confirmation of another list was taken")
				}
				o.raftLog.must(nodesync.Confirm{Digest: got.Digest})
			default:
				time.Sleep(suspectFor - time.Duration(o.raftLog.truth().Now().Sub(got.Since)) - time.Minute) // in a bubble
				o.sweep(s.synchronise)
				if o.deletions() > 0 {
					t.Error("it was settled too early")
				}
				time.Sleep(2 * time.Minute) // in a bubble
			}
			o.sweep(s.synchronise)
			if n := o.deletions(); n != 30 {
				t.Errorf("%s: %d deletions", settled, n)
			}
			if left, ok := o.raftLog.truth().SyncSuspicion(); ok {
				t.Errorf("%s, and still there: %+v", settled, left)
			}
		})
	}
}

// Of an empty list few nodes are asked for one by one: what Ironic says of each
// of them settles it. One that is there, or cannot be asked for, is a list that
// lies; and many are not asked for.
func TestEmptyListIsCheckedNodeByNode(t *testing.T) {
	for _, c := range []struct {
		name      string
		known     int
		before    func(o *rig)
		deletions int
	}{
		{"all are gone", suspectCount, func(o *rig) { o.vanish(0, suspectCount) }, suspectCount},
		{"one is there", suspectCount, func(o *rig) {
			o.vanish(0, suspectCount)
			o.ironic.on(func(_ context.Context, call string) error {
				if call == "node "+nodeN(7) {
					return away()
				}
				return nil
			})
		}, 0},
		{"too many", suspectCount + 1, func(o *rig) { o.vanish(0, suspectCount+1) }, 0},
	} {
		inRig(t, func(o *rig) {
			s := o.sweeps()
			o.stocked(c.known)
			c.before(o)
			o.sweep(s.synchronise)
			_, suspected := o.raftLog.truth().SyncSuspicion()
			if n := o.deletions(); n != c.deletions || suspected == (c.deletions > 0) {
				t.Errorf("empty-list: %s: %d deletions, want %d; suspected: %v", c.name, n, c.deletions, suspected)
			}
		})
	}
}

// One confirmation settles a list of any length.
func TestConfirmationOfALongList(t *testing.T) {
	inRig(t, func(o *rig) {
		const all, gone = 3000, 2500
		s := o.sweeps()
		o.stocked(all)
		o.vanish(0, gone)
		o.sweep(s.synchronise)
		got, _ := o.raftLog.truth().SyncSuspicion()
		o.raftLog.must(nodesync.Confirm{Digest: got.Digest})
		for round := range 3 {
			o.sweep(s.synchronise)
			if n, want := o.deletions(), min((round+1)*maxSweep, gone); n != want {
				t.Fatalf("round %d: %d deletions are queued, want %d: %v", round, n, want, fmt.Sprint(o.raftLog.truth().SyncSuspicion()))
			}
		}
		if left, ok := o.raftLog.truth().SyncSuspicion(); ok {
			t.Errorf("settled, and still there: %+v", left)
		}
	})
}
