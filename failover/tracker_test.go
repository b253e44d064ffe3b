package failover

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// tracked is a tracker that knows one node, with an API server that answers.
func tracked() *Tracker {
	tr := NewTracker()
	tr.answered(time.Now(), time.Now(), nil)
	tr.Node(modelNodeNamed(0))
	tr.Renewed("n0", Renewal{At: "1"})
	tr.allTold()
	return tr
}

// asked lets d go by, in a bubble, with a good answer every second.
func asked(tr *Tracker, d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(time.Second)
		tr.answered(time.Now(), time.Now(), nil)
	}
}

func only(t *testing.T, tr *Tracker) WatchedNode {
	t.Helper()
	w := tr.Look()
	if len(w.Nodes) != 1 {
		t.Fatalf("%d nodes are watched, want 1", len(w.Nodes))
	}
	return w.Nodes[0]
}

func TestTrackerAgesOnItsOwnClock(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, _ *rand.Rand) {
		tr := tracked()
		asked(tr, 7*time.Second)
		if n := only(t, tr); n.LeaseAge != 7*time.Second || n.Renewed >= 0 || !n.Leased {
			t.Errorf("after 7 s: age %v, renewed %v", n.LeaseAge, n.Renewed)
		}
		tr.Renewed("n0", Renewal{At: "1"}) // a new list tells it again
		if n := only(t, tr); n.LeaseAge != 7*time.Second || n.Renewed >= 0 {
			t.Errorf("a renewal told twice is no sign of life: age %v, renewed %v", n.LeaseAge, n.Renewed)
		}
		// Whatever a kubelet with a wrong clock writes, a change is a change.
		tr.Renewed("n0", Renewal{At: "1970-01-01T00:00:00.000000Z"})
		asked(tr, 3*time.Second)
		if n := only(t, tr); n.LeaseAge != 3*time.Second || n.Renewed != 3*time.Second {
			t.Errorf("after a renewal with a clock of 1970: age %v, renewed %v ago, want 3s", n.LeaseAge, n.Renewed)
		}
	})
}

// Each silence is kept in a bubble.
func TestTrackerFreezesAndBeginsAnew(t *testing.T) {
	for name, silence := range map[string]func(tr *Tracker){
		"fails": func(tr *Tracker) {
			for range 30 {
				time.Sleep(time.Second)
				tr.answered(time.Now(), time.Now(), errors.New("connection refused"))
			}
		},
		"hangs": func(*Tracker) { time.Sleep(30 * time.Second) },
		"slow": func(tr *Tracker) {
			for range 10 {
				sent := time.Now()
				time.Sleep(askLimit + time.Second)
				tr.answered(sent, time.Now(), nil)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, _ *rand.Rand) {
				tr := tracked()
				asked(tr, 10*time.Second)
				silence(tr)
				w := tr.Look()
				if w.API.Answers || w.API.Why == "" || w.API.Silence < 29*time.Second {
					t.Errorf("after 30 s of silence: %+v", w.API)
				}
				if n := only(t, tr); n.LeaseAge != 10*time.Second {
					t.Errorf("ages-frozen: the age is %v after 30 s of silence, want 10s", n.LeaseAge)
				}
				asked(tr, time.Second)
				if w = tr.Look(); !w.API.Answers || w.API.Back != 0 {
					t.Errorf("after the silence: %+v", w.API)
				}
				asked(tr, 4*time.Second)
				if n := only(t, tr); n.LeaseAge != 4*time.Second {
					t.Errorf("ages-restart: the age is %v 4 s after the silence, want 4s", n.LeaseAge)
				}
			})
		})
	}
}

func TestTrackerNotReady(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, _ *rand.Rand) {
		tr := NewTracker()
		tr.answered(time.Now(), time.Now(), nil)
		down := modelNodeNamed(0)
		down.Ready = kubestate.ReadyUnknown
		tr.Node(down)
		tr.allTold()
		asked(tr, 5*time.Second)
		n := only(t, tr)
		if !n.Late || n.NotReady != 5*time.Second || n.Known >= 0 {
			t.Errorf("not Ready in the first list: %+v", n)
		}
		tr.Renewed("n0", Renewal{At: "1"})
		if !only(t, tr).Late {
			t.Error("the first renewal that is seen is no sign of life")
		}
		tr.Renewed("n0", Renewal{At: "2"})
		if n = only(t, tr); n.Late {
			t.Errorf("late in spite of a renewal: %+v", n)
		}
		tr.Node(modelNodeNamed(0))
		if n = only(t, tr); n.NotReady != 0 {
			t.Errorf("Ready again, yet not Ready for %v", n.NotReady)
		}
		another := modelNodeNamed(0)
		another.UID = "another"
		tr.Node(another) // of the same name
		asked(tr, time.Second)
		if n = only(t, tr); n.Leased || n.Known != time.Second {
			t.Errorf("another node of the same name: %+v", n)
		}
		tr.NodeGone("n0", "uid-0")
		if len(tr.Look().Nodes) != 1 {
			t.Error("the end of the old node is not that of the new one")
		}
		tr.NodeGone("n0", "another")
		if len(tr.Look().Nodes) != 0 {
			t.Error("the node is gone")
		}
	})
}

// A machine that boots is not Ready at first, however long it was ill before.
func TestTrackerBoots(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, _ *rand.Rand) {
		tr := NewTracker()
		tr.answered(time.Now(), time.Now(), nil)
		ill := modelNodeNamed(0)
		ill.Ready = kubestate.ReadyFalse
		tr.Node(ill)
		tr.allTold()
		asked(tr, 5*time.Second)
		ill.BootID = "booted since"
		tr.Node(ill)
		asked(tr, time.Second)
		if n := only(t, tr); n.Late || n.NotReady != time.Second {
			t.Errorf("late-boots: it has booted since, and is late: %t; not Ready for %v", n.Late, n.NotReady)
		}
	})
}

// What was written before another renewal that was seen is none, whether a watch tells it
// late or the storage has it because etcd was restored. After that renewals count again.
func TestTrackerLeaseGoesBack(t *testing.T) {
	at := func(second int, version uint64, stored bool) Renewal {
		return Renewal{At: fmt.Sprintf("2026-01-02T03:04:%02dZ", second), Version: version, Stored: stored}
	}
	for _, row := range []struct {
		name    string
		told    Renewal
		age     time.Duration // 3 s later
		renewed bool
	}{
		{"an event that comes late", at(10, 100, false), 10 * time.Second, false},
		{"a storage that went back", at(10, 100, true), 3 * time.Second, false},
		{"the same again", at(20, 200, true), 10 * time.Second, false},
		{"another field of it", at(20, 201, false), 10 * time.Second, false},
		{"a clock that went back", at(10, 300, false), 3 * time.Second, true},
		{"a renewal", at(30, 300, true), 3 * time.Second, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, _ *rand.Rand) {
				tr := NewTracker()
				tr.answered(time.Now(), time.Now(), nil)
				tr.Node(modelNodeNamed(0))
				tr.Renewed("n0", at(20, 200, true))
				tr.allTold()
				asked(tr, 7*time.Second)
				tr.Renewed("n0", row.told)
				asked(tr, 3*time.Second)
				if n := only(t, tr); n.LeaseAge != row.age || (n.Renewed >= 0) != row.renewed {
					t.Errorf("lease-back: its age is %v, want %v; renewed %v ago, want one: %v", n.LeaseAge, row.age, n.Renewed,
						row.renewed)
				}
				tr.Renewed("n0", at(40, max(row.told.Version, 200)+1, false))
				if row.told.Stored { // it goes on from what the storage has
					tr.Renewed("n0", at(50, row.told.Version+2, false))
				}
				if n := only(t, tr); n.LeaseAge != 0 || n.Renewed != 0 {
					t.Errorf("lease-back: a renewal after it does not count: age %v, renewed %v", n.LeaseAge, n.Renewed)
				}
			})
		})
	}
	inBubble(t, 1, func(t *testing.T, _ *rand.Rand) {
		tr := tracked()
		tr.Renewed("n0", at(20, 200, true))
		tr.Renewed("n0", at(10, 100, true))
		asked(tr, 5*time.Second)
		tr.Renewed("n0", at(20, 101, false)) // below what was seen before the storage went back
		if n := only(t, tr); n.Renewed != 0 {
			t.Errorf("lease-back: a renewal in the storage's new history does not count: %v", n.Renewed)
		}
	})
}
