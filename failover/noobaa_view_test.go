package failover

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// says fails the test unless n1's verdict has a text, and an action if it would take one.
func (h *hand) says(would bool, texts ...string) {
	h.w.t.Helper()
	all := h.c.Verdicts("k")
	i := slices.IndexFunc(all, func(v Verdict) bool { return v.Node.Name == "n1" })
	if i < 0 {
		h.w.t.Fatalf("noobaa-view: no verdict of n1 among %+v", all)
	}
	why := strings.Join(all[i].Why, "; ")
	for _, text := range texts {
		if !strings.Contains(why, text) {
			h.w.t.Errorf("noobaa-view: of n1 it says %q, not %q", why, text)
		}
	}
	if all[i].Act || (all[i].Would == deleteNooBaa) != would || strings.Contains(why, "fenced") ||
		strings.Contains(why, "peers") {
		h.w.t.Errorf("noobaa-view: would %q, act %v, why %q", all[i].Would, all[i].Act, why)
	}
}

// What this mode did, does and will do is shown, in words of its own, and what it did is in
// an Event of the Node and in the events of the cluster.
func TestNooBaaSaysWhatItDoes(t *testing.T) {
	inNooBaa(t, 3, nil, func(w *world) {
		h := w.hands[0]
		h.says(false, "it is Ready")
		w.ledger.must(kubestate.PauseFailover{Paused: true, By: "ann"})
		w.cutPower("n1")
		w.pass(2 * time.Minute)
		h.says(false, "failover is paused by ann")
		w.with(func() { w.trouble.failDelete = 1000 })
		w.ledger.must(kubestate.PauseFailover{})
		w.pass(30 * time.Second)
		h.says(true, "failed: delete pod apps/")
		if len(w.reports) > 0 || w.count("event FailoverDeleted", "n1") > 0 {
			t.Errorf("noobaa-told: nothing was deleted, and %q is reported", w.reports)
		}
		w.with(func() { w.trouble.failDelete = 0 })
		w.actsAt("n1", 2)
		h.says(false, "2 pods were deleted, the last ", "as it was not Ready: apps/d-n1, apps/s-1")
		if w.count("event FailoverDeleted", "n1") != 1 || len(w.reports) != 1 ||
			!strings.HasPrefix(w.reports[0], "Kube node k/n1: 2 pods deleted in mode noobaa") {
			t.Errorf("noobaa-told: %d Events, reported %q", w.count("event FailoverDeleted", "n1"), w.reports)
		}
		w.wake("n1")
		w.pass(30 * time.Second)
		h.says(false, "it is Ready; 2 pods were deleted")
	})
	inNooBaa(t, 3, func(_ *world, s *Settings) { s.DryRun = true }, func(w *world) {
		w.cutPower("n1")
		w.pass(2 * time.Minute)
		w.hands[0].says(false, "dry run: 2 pods would have been deleted")
		if len(w.reports) > 0 || w.count("event FailoverDeleted", "n1") > 0 {
			t.Errorf("noobaa-told: a dry run reports %q", w.reports)
		}
	})
	inNooBaa(t, 3, func(_ *world, s *Settings) { s.Remedy.Nodes = func(n Node) bool { return n.Name != "n1" } },
		func(w *world) {
			w.cutPower("n1")
			w.pass(2 * time.Minute)
			w.hands[0].says(false, "failover.node_selector does not select it")
		})
}

// The watch stands still, and the storage says that the kube node is Ready again.
func TestNooBaaAsksTheStorage(t *testing.T) {
	inNooBaa(t, 3, nil, func(w *world) {
		w.ledger.must(kubestate.PauseFailover{Paused: true})
		w.cutPower("n1")
		w.pass(2 * time.Minute)
		w.with(func() { w.trouble.noNodes = true })
		w.wake("n1")
		w.pass(5 * time.Second)
		w.ledger.must(kubestate.PauseFailover{})
		w.pass(time.Minute)
		if names := w.deletedOn("n1"); len(names) > 0 {
			t.Errorf("ready-again: %v were deleted, though the storage says Ready", names)
		}
	})
}

// A kube node that is Ready again between two deletions keeps the second pod.
func TestNooBaaReadyBetweenTwoDeletions(t *testing.T) {
	inNooBaa(t, 3, nil, func(w *world) {
		w.after("delete pod", func() {
			w.wake("n1")
			w.pass(5 * modelTick)
		})
		w.cutPower("n1")
		w.pass(3 * time.Minute)
		if names := w.deletedOn("n1"); len(names) != 1 {
			t.Errorf("ready-again: %v were deleted, one came before it was Ready", names)
		}
	})
}
