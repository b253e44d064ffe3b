package periodic_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/boots"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/nodesync"
	"github.com/trivet-ha/trivet/inspector/periodic"
	"github.com/trivet-ha/trivet/raftstore/leader"
	"github.com/trivet-ha/trivet/test/inspecttest"
)

// The synchronisation does not delete a machine that is about to get its node.
func TestSyncLeavesEnrollingAlone(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.RaftLog.Must(introspection.Start{Node: inspecttest.NodeB, Event: introspection.EventEnroll, Timeout: time.Hour})
		o.Accept(inspecttest.NodeA, inspecttest.MacA)
		if got := periodic.Recorded(o.RaftLog.Truth()); !slices.Equal(got, []string{inspecttest.NodeA}) {
			t.Errorf("%v", got)
		}
	})
}

// A silent machine ends by its deadline, on a worker, and is asked for once.
func TestTimeoutSweep(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Conf.Timeout = time.Minute
		o.Boots(inspecttest.NodeA, inspecttest.MacA)
		o.Sweep(o.Sweeps().Timeouts)
		if n := o.RaftLog.Truth().QueueLength(); n != 0 {
			t.Errorf("%d requests before the deadline", n)
		}
		time.Sleep(61 * time.Second) // in a bubble
		o.Boots(inspecttest.NodeB, inspecttest.MacB)
		for range 3 {
			o.Sweep(o.Sweeps().Timeouts)
		}
		if n := o.RaftLog.Truth().QueueLength(); n != 1 {
			t.Errorf("%d requests for one silent machine", n)
		}
		o.Work(func(*inspecttest.Pool) {
			if rec := o.Becomes(inspecttest.NodeA, introspection.NodeError, time.Second); rec.Error != "Introspection timeout" {
				t.Errorf("%q", rec.Error)
			}
		})
		if rec, _ := o.RaftLog.Truth().Record(inspecttest.NodeB); rec.State != introspection.NodeWaiting {
			t.Errorf("the other is %v", rec.State)
		}
		if calls := o.Ironic.Sent(""); len(calls) > 0 {
			t.Errorf("a time-out leaves the node as it is: %v", calls)
		}
	})
}

// The log of a worker that ends a silent machine's introspection says why that did not come up and
// what to do; the error stays the contract's.
func TestTimeoutNamesTheFinding(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		var lines bytes.Buffer
		o.Log = slog.New(slog.NewTextHandler(&lines, nil))
		o.Conf.Timeout = time.Minute
		o.Boots(inspecttest.NodeA, inspecttest.MacA)
		leads := fsm.Header{Token: o.RaftLog.Must(fsm.Lead{Peer: "id-h1", Boot: "b"}).Token}
		rec, _ := o.RaftLog.Truth().Record(inspecttest.NodeA)
		found := entry.Finding{Code: "no-offer", Text: "no server offered it an address"}
		res, err := o.RaftLog.Write(leads, boots.Note{Judged: []boots.Judged{
			{Node: inspecttest.NodeA, Begun: rec.Begun, Findings: []entry.Finding{found}}}})
		if err := errors.Join(err, res.Err()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(61 * time.Second) // in a bubble
		o.Sweep(o.Sweeps().Timeouts) // of the next leader
		o.Work(func(*inspecttest.Pool) {
			rec := o.Becomes(inspecttest.NodeA, introspection.NodeError, time.Second)
			if rec.Error != "Introspection timeout" || rec.Finding != found {
				t.Errorf("error %q, finding %+v", rec.Error, rec.Finding)
			}
		})
		for _, part := range []string{`reason="Introspection timeout"`, "finding=no-offer",
			`found="no server offered it an address"`, "remedy=", "doctor --check dhcp"} {
			if !strings.Contains(lines.String(), part) {
				t.Errorf("the log lacks %s:\n%s", part, lines.String())
			}
		}
	})
}

// A time-out waits for a node's lock: whoever holds it ends first.
func TestTimeoutWhileTheNodeIsClaimed(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Conf.Timeout = 10 * time.Second
		o.Boots(inspecttest.NodeA, inspecttest.MacA)
		claim := o.Claims(o.Calls(inspecttest.NodeA, inspecttest.MacA, ""))
		o.RaftLog.Must(introspection.Advance{Claim: claim.Hold(), Event: introspection.EventProcess})
		time.Sleep(20 * time.Second) // in a bubble
		o.Sweep(o.Sweeps().Timeouts)
		o.Work(func(*inspecttest.Pool) {
			time.Sleep(time.Second) // in a bubble
			if rec, _ := o.RaftLog.Truth().Record(inspecttest.NodeA); rec.State != introspection.NodeProcessing {
				t.Errorf("it is %v under somebody else's claim", rec.State)
			}
			o.RaftLog.Must(introspection.Advance{Claim: claim.Hold(), Event: introspection.EventFinish, Consume: true})
			time.Sleep(time.Second) // in a bubble
			if rec, _ := o.RaftLog.Truth().Record(inspecttest.NodeA); rec.State != introspection.NodeFinished ||
				o.RaftLog.Truth().QueueLength() != 0 {
				t.Errorf("it became %v: %s", rec.State, rec.Error)
			}
		})
	})
}

func TestExpirySweep(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Conf.ReportExpiry = time.Hour
		o.RaftLog.Must(introspection.Start{Node: inspecttest.NodeA, Event: introspection.EventAdopt, Timeout: time.Second})
		o.Boots(inspecttest.NodeB, inspecttest.MacB)
		time.Sleep(2 * time.Second) // in a bubble
		o.RaftLog.Must(introspection.Enqueue{Node: inspecttest.NodeA, Event: introspection.EventTimeout})
		o.Work(func(*inspecttest.Pool) { o.Becomes(inspecttest.NodeA, introspection.NodeError, time.Second) })
		for i, want := range []int{2, 1, 1} {
			o.Sweep(o.Sweeps().Expire)
			if n := o.RaftLog.Truth().Nodes(); n != want {
				t.Errorf("after %d hours %d reports, want %d", i, n, want)
			}
			time.Sleep(time.Hour + 5*time.Second) // in a bubble
		}
		o.Conf.ReportExpiry = 0
		o.RaftLog.Must(introspection.Start{Node: inspecttest.NodeA, Event: introspection.EventAdopt, Timeout: time.Second})
		time.Sleep(2 * time.Second) // in a bubble
		o.RaftLog.Must(introspection.Enqueue{Node: inspecttest.NodeA, Event: introspection.EventTimeout})
		o.Work(func(*inspecttest.Pool) { o.Becomes(inspecttest.NodeA, introspection.NodeError, time.Second) })
		time.Sleep(24 * time.Hour) // in a bubble
		o.Sweep(o.Sweeps().Expire)
		if n := o.RaftLog.Truth().Nodes(); n != 2 {
			t.Errorf("0 keeps for ever, %d are left", n)
		}
	})
}

// A sweep that fails is tried again and ends no leadership; it ends with it.
func TestPeriodicTask(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		rounds := 0
		o.Conf.CleanUpPeriod = time.Minute
		p := periodic.NewTask("task", o.Live(), func(context.Context, leader.Authority) error {
			rounds++
			return errors.New("no")
		}, o.Log)
		ctx, cancel := context.WithTimeout(o.Ctx, 10*time.Minute+time.Second)
		defer cancel()
		if err := p.Run(ctx, inspecttest.Tenure{Log: o.RaftLog}); err != nil || rounds != 11 || p.Name() != "task" {
			t.Errorf("%d rounds, %v", rounds, err)
		}
		if n := len(o.Sweeps().Duties()); n != 4 {
			t.Errorf("%d duties", n)
		}
	})
}

// What a sweep asks for may be overtaken; a log that does not take it is told.
func TestProposalsOfSweeps(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		for _, c := range []fsm.Command{
			introspection.DeleteNode{Node: inspecttest.NodeA},
			introspection.Enqueue{Node: inspecttest.NodeA, Event: introspection.EventTimeout},
		} {
			if err := periodic.Propose(o.Ctx, inspecttest.Tenure{Log: o.RaftLog}, c); err != nil {
				t.Errorf("%T: %v", c, err)
			}
		}
		why := errors.New("no quorum")
		o.RaftLog.Meets = func(fsm.Command) error { return why }
		if err := periodic.Propose(o.Ctx, inspecttest.Tenure{Log: o.RaftLog},
			introspection.DeleteNode{Node: inspecttest.NodeA}); !errors.Is(err, why) {
			t.Error(err)
		}
	})
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
		if got := nodesync.WhyDoubted("nodes", c.missing, c.known, c.listed); (got != "") != c.doubted {
			t.Errorf("%d of %d missing, %d listed: %q", c.missing, c.known, c.listed, got)
		}
	}
}

func TestSynchronisation(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Sweeps()
		o.Sweep(s.Synchronise)
		if calls := o.Ironic.Sent("list"); len(calls) > 0 {
			t.Errorf("with no records there is nothing to ask: %v", calls)
		}
		o.Stocked(40)
		o.Sweep(s.Synchronise)
		o.Vanish(0, 2)
		for range 3 {
			o.Sweep(s.Synchronise)
		}
		if n := o.Deletions(); n != 2 {
			t.Errorf("%d deletions are queued for two nodes that are gone", n)
		}
		o.Work(func(*inspecttest.Pool) { time.Sleep(time.Second) }) // in a bubble
		if v := o.RaftLog.Truth(); v.Nodes() != 38 || v.QueueLength() != 0 {
			t.Errorf("%d records, %d requests", v.Nodes(), v.QueueLength())
		}
	})
}

// A doubtful list deletes nothing and says why, once, until it is confirmed or
// has said the same for a day.
func TestSuspicion(t *testing.T) {
	for _, settled := range []string{"confirmed", "a day later"} {
		inspecttest.InRig(t, func(o *inspecttest.Rig) {
			s := o.Sweeps()
			o.Stocked(40)
			o.Ironic.Met("list", errors.New(strings.Repeat("page 2: ", 200)))
			o.Sweep(s.Synchronise)
			if got, ok := o.RaftLog.Truth().SyncSuspicion(); !ok || got.Known != 40 || got.Digest != "" ||
				len(got.Reason) > periodic.MaxReason+100 ||
				!strings.HasPrefix(got.Reason, "Ironic's nodes could not be listed: page 2") {
				t.Errorf("%+v", got)
			}
			o.Ironic.Answers()
			o.Vanish(0, 30)
			for range 5 {
				o.Sweep(s.Synchronise)
				time.Sleep(time.Hour) // in a bubble
			}
			got, ok := o.RaftLog.Truth().SyncSuspicion()
			if !ok || got.Missing != 30 || got.Known != 40 ||
				got.Reason != "Ironic's list lacks 30 of the 40 nodes that are known here" || o.Deletions() > 0 {
				t.Errorf("%+v, %d deletions", got, o.Deletions())
			}
			if n := o.RaftLog.Count(func(c fsm.Command) bool { _, is := c.(nodesync.Suspect); return is }); n != 2 {
				t.Errorf("it was said %d times", n)
			}
			switch settled {
			case "confirmed":
				if res, err := o.RaftLog.Write(fsm.Header{}, nodesync.Confirm{Digest: "another digest"}); err != nil ||
					res.Code != fsm.Conflict {
					t.Errorf("the confirmation of another list: %+v, %v", res, err)
				}
				o.Sweep(s.Synchronise)
				if o.Deletions() > 0 {
					t.Error("the confirmation of another list was taken")
				}
				o.RaftLog.Must(nodesync.Confirm{Digest: got.Digest})
			default:
				time.Sleep(nodesync.SuspectFor - time.Duration(o.RaftLog.Truth().Now().Sub(got.Since)) - time.Minute) // in a bubble
				o.Sweep(s.Synchronise)
				if o.Deletions() > 0 {
					t.Error("it was settled too early")
				}
				time.Sleep(2 * time.Minute) // in a bubble
			}
			o.Sweep(s.Synchronise)
			if n := o.Deletions(); n != 30 {
				t.Errorf("%s: %d deletions", settled, n)
			}
			if left, ok := o.RaftLog.Truth().SyncSuspicion(); ok {
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
		before    func(o *inspecttest.Rig)
		deletions int
	}{
		{"all are gone", nodesync.SuspectCount, func(o *inspecttest.Rig) { o.Vanish(0, nodesync.SuspectCount) },
			nodesync.SuspectCount},
		{"one is there", nodesync.SuspectCount, func(o *inspecttest.Rig) {
			o.Vanish(0, nodesync.SuspectCount)
			o.Ironic.On(func(_ context.Context, call string) error {
				if call == "node "+inspecttest.NodeN(7) {
					return inspecttest.Away()
				}
				return nil
			})
		}, 0},
		{"too many", nodesync.SuspectCount + 1, func(o *inspecttest.Rig) { o.Vanish(0, nodesync.SuspectCount+1) }, 0},
	} {
		inspecttest.InRig(t, func(o *inspecttest.Rig) {
			s := o.Sweeps()
			o.Stocked(c.known)
			c.before(o)
			o.Sweep(s.Synchronise)
			_, suspected := o.RaftLog.Truth().SyncSuspicion()
			if n := o.Deletions(); n != c.deletions || suspected == (c.deletions > 0) {
				t.Errorf("empty-list: %s: %d deletions, want %d; suspected: %v", c.name, n, c.deletions, suspected)
			}
		})
	}
}

// One confirmation settles a list of any length.
func TestConfirmationOfALongList(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		const all, gone = 3000, 2500
		s := o.Sweeps()
		o.Stocked(all)
		o.Vanish(0, gone)
		o.Sweep(s.Synchronise)
		got, _ := o.RaftLog.Truth().SyncSuspicion()
		o.RaftLog.Must(nodesync.Confirm{Digest: got.Digest})
		for round := range 3 {
			o.Sweep(s.Synchronise)
			if n, want := o.Deletions(), min((round+1)*periodic.MaxSweep, gone); n != want {
				t.Fatalf("round %d: %d deletions are queued, want %d: %v", round, n, want,
					fmt.Sprint(o.RaftLog.Truth().SyncSuspicion()))
			}
		}
		if left, ok := o.RaftLog.Truth().SyncSuspicion(); ok {
			t.Errorf("settled, and still there: %+v", left)
		}
	})
}

// A period counts from the moment it is set: a longer one does not have to run
// out first.
func TestPeriodIsReloaded(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Conf.CleanUpPeriod = 24 * time.Hour
		live := o.Live()
		rounds := 0
		p := periodic.NewTask("task", live, func(context.Context, leader.Authority) error {
			if rounds++; rounds == 1 {
				time.AfterFunc(time.Minute, func() {
					s := live.Now()
					s.Config.CleanUpPeriod = time.Hour
					live.Set(s)
				})
			}
			return nil
		}, o.Log)
		ctx, cancel := context.WithTimeout(o.Ctx, 3*time.Hour+time.Minute)
		defer cancel()
		if err := p.Run(ctx, inspecttest.Tenure{Log: o.RaftLog}); err != nil || rounds != 4 {
			t.Errorf("%d rounds in three hours, of one each, %v", rounds, err)
		}
	})
}
