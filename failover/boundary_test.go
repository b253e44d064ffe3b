package failover

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// deedsOf returns what a leader does, deed by deed, from the intent until the kube
// node has recovered.
func deedsOf(t *testing.T, happens func(w *world)) (deeds []string) {
	inWorld(t, 3, 3, func(w *world) {
		w.with(func() { w.trouble.operator = true })
		h := w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		happens(w)
		w.until("it has recovered", 10*time.Minute, func() bool { return w.state("n1") == kubestate.RemRecovered })
		h.leave()
		deeds = h.deeds
	})
	return deeds
}

// crossings are the deeds at which a leader is stopped: all, but of a row of the
// same (the power is read again and again) only the first and the last.
func crossings(deeds []string) (at []int) {
	for i, what := range deeds {
		inner := i > 0 && i+1 < len(deeds) && deeds[i-1] == what && deeds[i+1] == what
		if !inner {
			at = append(at, i+1)
		}
	}
	return at
}

// onceInEffect says what a remediation did more than once, or not in its order.
func (w *world) onceInEffect() (wrong []string) {
	deleted := make(map[string]int)
	tokens := make(map[string]uint64)
	w.mu.Lock()
	defer w.mu.Unlock()
	off, tainted := false, false
	for _, d := range w.audit {
		switch d.verb {
		case "off":
			off = true
		case "add " + TaintOutOfService:
			if !off {
				wrong = append(wrong, "the taint came before the power-off")
			}
			tainted = true
		case "delete":
			if !off || !tainted {
				wrong = append(wrong, "a pod was deleted before the taint or the power-off")
			}
			if deleted[d.uid]++; deleted[d.uid] > 1 {
				wrong = append(wrong, fmt.Sprintf("pod %s was deleted twice", d.uid))
			}
		}
		if strings.HasPrefix(d.verb, "add ") || strings.HasPrefix(d.verb, "remove ") {
			if d.token < tokens[d.what] {
				wrong = append(wrong, fmt.Sprintf("token %d was written over token %d on %s", d.token, tokens[d.what], d.what))
			}
			tokens[d.what] = d.token
		}
	}
	return wrong
}

// A leader is killed at every deed, before it and after it, and the next one goes
// on; or it is stopped there, another finishes, and then it goes on as if nothing
// had been.
func TestEveryBoundary(t *testing.T) {
	crossAll(t, 1, func(w *world) { w.cutPower("n1") })
}

// The same with a machine that lives until its power is taken; every third
// boundary will do where not all are asked for.
func TestEveryBoundaryOfAMachineThatLives(t *testing.T) {
	crossAll(t, 3, func(w *world) {
		w.after("switch off", func() { w.cut(false, "n1") })
		w.cut(true, "n1")
	})
}

func crossAll(t *testing.T, every int, happens func(w *world)) {
	deeds := deedsOf(t, happens)
	if len(deeds) < 20 {
		t.Fatalf("only %d deeds: %v", len(deeds), deeds)
	}
	_, all := mixedRuns(t)
	for _, how := range []stop{killBefore, killAfter, pauseBefore, pauseAfter} {
		for i, at := range crossings(deeds) {
			if !all && (i%4 != int(how) || i%every != 0) {
				continue // each is crossed in one way
			}
			t.Run(fmt.Sprintf("%v %d %s", how, at, deeds[at-1]), func(t *testing.T) {
				t.Parallel()
				inWorld(t, 3, 3, func(w *world) { w.crosses(at, how, happens) })
			})
		}
	}
}

// crosses lets a leader meet its fate at a deed and another finish.
func (w *world) crosses(at int, how stop, happens func(w *world)) {
	w.watchRules()
	w.with(func() { w.trouble.operator = true })
	first := w.lead("h1", safe(), at, how)
	w.pass(time.Minute)
	happens(w)
	// One deed fewer than in the run that counted them is possible, when two timers end
	// at the same moment: then the leader ends after its last deed.
	w.until("the first leader met its fate", 10*time.Minute,
		func() bool { return first.killed() || w.state("n1") == kubestate.RemRecovered })
	if !first.killed() {
		first.end()
	}
	w.pass(3 * time.Second) // an election
	second := w.lead("h2", safe(), 0, 0)
	defer second.leave()
	w.until("a remediation has begun", 10*time.Minute, func() bool { return w.state("n1") != 0 })
	w.recovers()
	if first.stopped() {
		first.thaw()
	}
	first.leave()
	w.recovers()
	offs := 0
	w.with(func() { offs = w.pcs["n1"].offs })
	all := w.remediations("n1")
	// nobody can take that back; it is remedied anew
	again := how == pauseBefore && at <= len(first.deeds) && first.deeds[at-1] == "switch off"
	if len(all) != 1 && !again {
		w.t.Errorf("there were %d remediations\n%s", len(all), w.story())
	}
	attempts := 0
	for _, m := range all {
		attempts += m.Attempts
		if m.State != kubestate.RemRecovered {
			w.t.Errorf("it ended %v\n%s", m.State, w.story())
		}
	}
	if offs > attempts {
		w.t.Errorf("%d power-off commands, %d were announced", offs, attempts)
	}
	for _, wrong := range w.onceInEffect() {
		w.t.Errorf("%s\n%s", wrong, w.story())
	}
}

// A leader that ends while it asks the peers about a machine has not heard that one
// contradict its device.
func TestLeaderEndsWhileItAsksThePeers(t *testing.T) {
	happens := func(w *world) {
		w.after("switch off", func() { w.cut(false, "n1") })
		w.cut(true, "n1")
	}
	at := 1 + slices.Index(deedsOf(t, happens), "knock")
	if at == 0 {
		t.Fatal("the kubelet is never asked")
	}
	inWorld(t, 3, 3, func(w *world) { w.crosses(at, killAfter, happens) })
}

// A leader that is stopped with a list of pods in its hand, and goes on under
// somebody else's leadership, proves first that it leads.
func TestDeposedLeaderWritesNothing(t *testing.T) {
	deeds := deedsOf(t, func(w *world) { w.cutPower("n1") })
	for at, what := range deeds {
		if what != "list pods" && what != "get node" && what != "read power" {
			continue
		}
		inWorld(t, 3, 3, func(w *world) {
			w.with(func() { w.trouble.operator = true })
			h := w.lead("h1", safe(), at+1, pauseAfter)
			w.pass(time.Minute)
			w.cutPower("n1")
			w.until("it is stopped", 10*time.Minute, h.killed)
			w.ledger.must(fsm.Lead{Peer: "id-h2", Boot: "another"})
			before := 0
			w.with(func() { before = len(w.audit) })
			h.thaw()
			w.pass(5 * time.Second)
			h.leave()
			if w.with(func() { before = len(w.audit) - before }); before > 0 {
				t.Errorf("deposed: after deed %d, %s, it wrote\n%s", at+1, what, w.story())
			}
		})
	}
}

// A leader is stopped with the out-of-service taint in its hand, and the machine is switched
// on. The next leader reads that, and a pause holds its command. Were the taint put after
// that, it would stand when the kubelet starts: Kubernetes detaches the volumes of a machine
// that has it and is not Ready yet.
func TestLateTaintIsRefused(t *testing.T) {
	deeds := deedsOf(t, func(w *world) { w.cutPower("n1") })
	off := slices.Index(deeds, "to off")
	at := off + 1 + slices.Index(deeds[off:], "patch node")
	inWorld(t, 3, 3, func(w *world) {
		first := w.lead("h1", safe(), at, pauseBefore)
		w.pass(time.Minute)
		w.cutPower("n1")
		w.until("it is stopped before it taints", 10*time.Minute, first.killed)
		w.with(func() {
			w.pcs["n1"].powerOn()
			w.pcs["n1"].up = time.Now().Add(10 * time.Minute) // a server tests its memory first
		})
		w.pass(3 * time.Second)
		w.ledger.must(kubestate.PauseFailover{Paused: true, By: "me"})
		second := w.lead("h2", safe(), 0, 0)
		w.comesTo("n1", kubestate.RemFencing)
		first.thaw()
		w.with(func() {
			if slices.Contains(w.nodes["n1"].Taints, outOfService()) {
				t.Error("late-taint: it stands on a machine that was read on since, and boots")
			}
		})
		first.leave()
		second.leave()
	})
}

// A request for the out-of-service taint gets no answer, the machine is switched on, and the
// same leader reads that: the request is refused when it arrives at last, also when the leader
// is held from every further command.
func TestOwnLateTaintIsRefused(t *testing.T) {
	inWorld(t, 3, 3, func(w *world) {
		late := &lateTaint{}
		w.with(func() { w.trouble.late = late })
		h := w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.cutPower("n1")
		w.until("the request is under way", 10*time.Minute, func() (sent bool) {
			w.with(func() { sent = late.arrive != nil })
			return sent
		})
		w.with(func() {
			w.pcs["n1"].powerOn()
			w.pcs["n1"].up = time.Now().Add(10 * time.Minute) // a server tests its memory first
		})
		w.ledger.must(kubestate.PauseFailover{Paused: true, By: "me"})
		w.comesTo("n1", kubestate.RemFencing)
		w.with(func() {
			err := late.arrive()
			if !errors.Is(err, ErrConflict) || slices.Contains(w.nodes["n1"].Taints, outOfService()) {
				t.Errorf("own-late-taint: %v; the Node of a machine that was read on has %v", err, w.nodes["n1"].Taints)
			}
			cordon := func(have Taint) bool { return have.Key == TaintCordon }
			if !slices.ContainsFunc(w.nodes["n1"].Taints, cordon) {
				t.Error("own-late-taint: the cordon is gone")
			}
		})
		h.leave()
	})
}

// A leadership is over when all that it began has ended: a command that is under way when it
// ends is waited for, however long its device takes.
func TestControllerEndsWithItsWork(t *testing.T) {
	deeds := deedsOf(t, func(w *world) { w.cutPower("n1") })
	at := 1 + slices.Index(deeds, "switch off")
	inWorld(t, 3, 3, func(w *world) {
		h := w.lead("h1", safe(), at, pauseBefore)
		w.pass(time.Minute)
		w.cutPower("n1")
		w.until("a command is under way", 10*time.Minute, h.killed)
		h.end()
		over := make(chan struct{})
		go func() {
			h.running.Wait()
			close(over)
		}()
		w.pass(time.Minute)
		select {
		case <-over:
			t.Error("controller-outlived: its duty ended before its command")
		default:
		}
		h.thaw()
		<-over // in a bubble
	})
}
