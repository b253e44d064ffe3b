package failover

import (
	"slices"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

func compatible() Settings {
	s := defaultSettings()
	s.Mode = ModeNooBaa
	s.NooBaa.Namespace = modelSpace
	return s
}

// deletedOn returns the names of the pods that were deleted on a node, sorted.
func (w *world) deletedOn(node string) (names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range w.audit {
		if d.verb == "delete" && d.what == node {
			names = append(names, d.uid)
		}
	}
	slices.Sort(names)
	return names
}

func (w *world) sick(name string, yes bool) { w.with(func() { w.pcs[name].sick = yes }) }

// nothingAt fails if a pod of a node was deleted.
func (w *world) nothingAt(node string) {
	w.t.Helper()
	w.pass(30 * time.Second)
	if names := w.deletedOn(node); len(names) > 0 {
		w.t.Errorf("%v were deleted on %s", names, node)
	}
}

// actsAt waits until so many pods of a node were deleted, and sees that it stays
// so.
func (w *world) actsAt(node string, want int) {
	w.t.Helper()
	w.until("pods were deleted on "+node, 2*time.Minute, func() bool { return len(w.deletedOn(node)) >= want })
	w.pass(30 * time.Second)
	if names := w.deletedOn(node); len(names) != want {
		w.t.Errorf("%v were deleted on %s, wanted %d pods", names, node, want)
	}
}

// inNooBaa runs f with a leader in the compatible mode. Pods there run on two
// machines now and then: that is what this mode does, and no violation.
func inNooBaa(t *testing.T, nodes int, change func(*world, *Settings), f func(w *world)) {
	t.Helper()
	inWorld(t, nodes, 4, func(w *world) {
		s := compatible()
		if change != nil {
			w.with(func() { change(w, &s) })
		}
		h := w.lead("h1", s, 0, 0)
		w.pass(5 * time.Second)
		f(w)
		h.leave()
		w.with(func() { w.wrong = nil })
		if len(w.ledger.view().RemediationHistory(0)) > 0 {
			t.Error("the compatible mode began a remediation")
		}
	})
}

// The test list of the reference, line by line. Every node has two pods of NooBaa:
// the one of the set and the one of the DaemonSet, which this mode does not spare.
func TestNooBaaEdges(t *testing.T) {
	t.Run("Ready to Unknown acts", func(t *testing.T) {
		inNooBaa(t, 3, nil, func(w *world) {
			w.cutPower("n1")
			w.actsAt("n1", 2)
		})
	})
	t.Run("Ready to False acts", func(t *testing.T) {
		inNooBaa(t, 3, nil, func(w *world) {
			w.sick("n1", true)
			w.until("both are gone", time.Minute, func() bool { return len(w.deletedOn("n1")) >= 2 })
		})
	})
	t.Run("False to Unknown does not act", func(t *testing.T) {
		inNooBaa(t, 3, nil, func(w *world) {
			w.sick("n1", true)
			w.actsAt("n1", 2)
			before := len(w.deletedOn("n1"))
			w.with(func() { w.make("late", "n1") })
			w.cutPower("n1")
			w.pass(2 * time.Minute)
			var ready kubestate.Ready
			w.with(func() { ready = w.nodes["n1"].Ready })
			if ready != kubestate.ReadyUnknown || len(w.deletedOn("n1")) != before {
				t.Errorf("not Ready to not Ready acted: %v", w.deletedOn("n1"))
			}
		})
	})
	t.Run("a Node made not Ready does not act", func(t *testing.T) {
		inNooBaa(t, 3, func(w *world, _ *Settings) { delete(w.nodes, "n3"); w.pcs["n3"].powerOff() }, func(w *world) {
			w.with(func() {
				w.register(w.pcs["n3"])
				w.nodes["n3"].Ready = kubestate.ReadyFalse
				w.make("late", "n3")
			})
			w.nothingAt("n3")
		})
	})
	t.Run("the scan at the start does", func(t *testing.T) {
		inNooBaa(t, 3, func(w *world, _ *Settings) { w.pcs["n1"].powerOff(); w.nodes["n1"].Ready = kubestate.ReadyUnknown },
			func(w *world) {
				w.actsAt("n1", 2)
			})
	})
	t.Run("a Node that is deleted does not act", func(t *testing.T) {
		inNooBaa(t, 3, nil, func(w *world) {
			w.with(func() { delete(w.nodes, "n1"); w.pcs["n1"].powerOff() })
			w.nothingAt("n1")
		})
	})
	t.Run("a node that flaps acts once for each edge", func(t *testing.T) {
		inNooBaa(t, 3, nil, func(w *world) {
			for range 2 {
				w.sick("n1", true)
				w.pass(3 * time.Second)
				w.sick("n1", false)
				w.pass(3 * time.Second)
			}
			if len(w.deletedOn("n1")) < 2 {
				t.Errorf("%v were deleted", w.deletedOn("n1"))
			}
		})
	})
}

func TestNooBaaFilters(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(w *world, s *Settings)
		want   int
	}{
		{"label", func(w *world, _ *Settings) { w.pods["s-1"].Labels = map[string]string{"app": "other"} }, 1},
		{"namespace", func(w *world, _ *Settings) { w.pods["s-1"].Namespace = "elsewhere" }, 1},
		{"the database", func(w *world, _ *Settings) {
			p := w.pods["d-n1"]
			delete(w.pods, "d-n1")
			p.Name = "noobaa-db-pg-0"
			w.pods[p.Name] = p
		}, 1},
		{"node", func(_ *world, s *Settings) { s.Remedy.Nodes = func(n Node) bool { return n.Name != "n1" } }, 0},
		{"dry run", func(_ *world, s *Settings) { s.DryRun = true }, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			inNooBaa(t, 3, row.change, func(w *world) {
				w.cutPower("n1")
				if row.want == 0 {
					w.pass(time.Minute)
					w.nothingAt("n1")
					return
				}
				w.actsAt("n1", row.want)
			})
		})
	}
}

func TestNooBaaFailures(t *testing.T) {
	t.Run("a deletion that fails is tried again", func(t *testing.T) {
		inNooBaa(t, 3, func(w *world, _ *Settings) { w.trouble.failDelete = 3 }, func(w *world) {
			w.cutPower("n1")
			w.actsAt("n1", 2)
		})
	})
	t.Run("a pod that is gone is no failure", func(t *testing.T) {
		inNooBaa(t, 3, nil, func(w *world) {
			w.after("list pods", func() { w.with(func() { delete(w.pods, "d-n1") }) })
			w.cutPower("n1")
			w.actsAt("n1", 1)
		})
	})
	t.Run("a pod made again under the name is not deleted", func(t *testing.T) {
		inNooBaa(t, 3, nil, func(w *world) {
			w.after("list pods", func() {
				w.with(func() { delete(w.pods, "s-1") })
				w.pass(3 * modelTick)
			})
			w.cutPower("n1")
			w.actsAt("n1", 1)
			if n := w.count("delete", ""); n != 1 {
				t.Errorf("%d pods were deleted: one that only had the name", n)
			}
		})
	})
	t.Run("two nodes at once", func(t *testing.T) {
		inNooBaa(t, 5, nil, func(w *world) {
			w.cutPower("n1", "n2")
			w.actsAt("n1", 2)
			w.actsAt("n2", 2)
		})
	})
	t.Run("three of five", func(t *testing.T) {
		inNooBaa(t, 5, nil, func(w *world) {
			w.cutPower("n1", "n2", "n3")
			for _, n := range []string{"n1", "n2", "n3"} {
				w.actsAt(n, 2)
			}
		})
	})
	t.Run("a pause holds", func(t *testing.T) {
		inNooBaa(t, 3, nil, func(w *world) {
			w.ledger.must(kubestate.PauseFailover{Paused: true})
			w.cutPower("n1")
			w.pass(time.Minute)
			w.nothingAt("n1")
			w.ledger.must(kubestate.PauseFailover{})
			w.actsAt("n1", 2)
		})
	})
}

// The leader is stopped right before its second deletion, another one finishes,
// and the first goes on: what it deletes then is what was decided before.
func TestNooBaaLeaderChangesInTheMiddle(t *testing.T) {
	for _, how := range []stop{killBefore, killAfter, pauseBefore, pauseAfter} {
		for at := 1; at <= 3; at++ {
			inWorld(t, 3, 4, func(w *world) {
				first := w.lead("h1", compatible(), at, how)
				w.pass(5 * time.Second)
				w.cutPower("n1")
				w.until("the first leader met its fate", 2*time.Minute, first.killed)
				second := w.lead("h2", compatible(), 0, 0)
				w.until("all is deleted", time.Minute, func() bool { return len(w.deletedOn("n1")) >= 2 })
				if how >= pauseBefore {
					first.thaw()
				}
				first.leave()
				w.pass(30 * time.Second)
				second.leave()
				if names := w.deletedOn("n1"); len(names) != 2 || names[0] == names[1] {
					t.Errorf("%v deed %d: %v were deleted, each is to be once", how, at, names)
				}
				w.with(func() { w.wrong = nil })
			})
		}
	}
}

// A kube node that has stopped being Ready and was deleted is no reason to delete the
// pods of another one under its name.
func TestEdgeEndsWithItsNode(t *testing.T) {
	e := newEdges(func(Node) bool { return true })
	e.node(Node{Name: "w1", UID: "old", Ready: kubestate.ReadyFalse})
	e.node(Node{Name: "w2", UID: "kept", Ready: kubestate.ReadyFalse})
	tried, _ := e.takeDue()
	e.nodeGone("old")
	e.node(Node{Name: "w1", UID: "new", Ready: kubestate.ReadyTrue})
	e.again(tried)
	if len(e.queue) != 1 || e.queue[0].uid != "kept" {
		t.Errorf("edge: after the Node was replaced the queue is %+v", e.queue)
	}
	e.nodeGone("kept")
	if len(e.queue) != 0 {
		t.Errorf("edge: after the Node was deleted the queue is %+v", e.queue)
	}
}

// A pause, or a row of failures, may last longer than a machine needs to return. What is
// Ready again by then keeps its pods, and so does what is not selected any more.
func TestNooBaaEdgeOfWhatIsReadyAgain(t *testing.T) {
	skipped := func(_ *world, s *Settings) {
		s.Remedy.Nodes = func(n Node) bool { return n.Labels["ours"] != "no" }
	}
	paused := func(yes bool) func(w *world) {
		return func(w *world) { w.ledger.must(kubestate.PauseFailover{Paused: yes}) }
	}
	for _, row := range []struct {
		name          string
		holds, letsGo func(w *world)
		returns       func(w *world)
	}{
		{name: "after a pause", holds: paused(true), letsGo: paused(false), returns: func(w *world) { w.wake("n1") }},
		{name: "after failures", returns: func(w *world) { w.wake("n1") },
			holds:  func(w *world) { w.with(func() { w.trouble.forbidden = "list pods" }) },
			letsGo: func(w *world) { w.with(func() { w.trouble.forbidden = "" }) }},
		{name: "between two deletions", returns: func(w *world) { w.wake("n1") },
			holds:  func(w *world) { w.with(func() { w.trouble.failDelete = 1000 }) },
			letsGo: func(w *world) { w.with(func() { w.trouble.failDelete = 0 }) }},
		{name: "not selected any more", holds: paused(true), letsGo: paused(false), returns: func(w *world) {
			w.with(func() {
				w.nodes["n1"].Labels = map[string]string{"ours": "no"}
				w.touch(w.nodes["n1"])
			})
		}},
		{name: "another Node of the name", holds: paused(true), letsGo: paused(false), returns: func(w *world) {
			w.with(func() { w.pcs["n1"].powerOn(); w.pcs["n1"].up = time.Now(); w.register(w.pcs["n1"]) })
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			inNooBaa(t, 3, skipped, func(w *world) {
				row.holds(w)
				w.cutPower("n1")
				w.pass(90 * time.Second) // it is not Ready by now
				row.returns(w)
				w.pass(5 * time.Second)
				row.letsGo(w)
				w.pass(2 * time.Minute)
				if names := w.deletedOn("n1"); len(names) > 0 {
					t.Errorf("ready-again: %v were deleted", names)
				}
			})
		})
	}
}

// A pause that comes between two deletions holds the second, which comes when it ends.
func TestNooBaaPauseBetweenTwoDeletions(t *testing.T) {
	inNooBaa(t, 3, nil, func(w *world) {
		w.after("delete pod", func() { w.ledger.must(kubestate.PauseFailover{Paused: true}) })
		w.cutPower("n1")
		w.pass(3 * time.Minute)
		if names := w.deletedOn("n1"); len(names) != 1 {
			t.Errorf("paused-between: %v were deleted, one came before the pause", names)
		}
		w.ledger.must(kubestate.PauseFailover{})
		w.actsAt("n1", 2)
	})
}
