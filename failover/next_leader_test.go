package failover

import (
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// leaderLostAt lets n1 lose its power, or what happens, and the leader be lost right after
// a deed.
func (w *world) leaderLostAt(deed string, happens func()) {
	first := w.lead("h1", safe(), 0, 0)
	w.pass(time.Minute)
	w.after(deed, first.end)
	happens()
	w.until("the leader is lost", 10*time.Minute, first.ended)
	first.leave()
}

// Another machine has taken the place of the one that died, under its Node. A device that
// compares is told the UUID of the one whose power it took.
func TestDeviceIsNotToldTheMachineOfNow(t *testing.T) {
	for _, deed := range []string{"to fencing", "to off", "to tainted"} {
		t.Run(deed, func(t *testing.T) {
			inWorld(t, 5, 2, func(w *world) {
				w.leaderLostAt(deed, func() { w.cutPower("n1") })
				w.with(func() {
					w.nodes["n1"].SystemUUID = "uuid-of-another"
					w.touch(w.nodes["n1"])
				})
				second := w.lead("h2", safe(), 0, 0)
				w.pass(2 * time.Minute)
				second.mu.Lock()
				defer second.mu.Unlock()
				if len(second.asked) == 0 {
					t.Fatal("the power was never read")
				}
				if i := slices.IndexFunc(second.asked, func(uuid string) bool { return uuid != "uuid-of-n1" }); i >= 0 {
					t.Errorf("which-machine: at reading %d the device is told the UUID %q", i+1, second.asked[i])
				}
			})
		})
	}
}

// A new leader that finds a remediation open looks first, and says so.
func TestNewLeaderLooksFirst(t *testing.T) {
	for _, deed := range []string{"begin", "to cordoned", "to fencing"} {
		t.Run(deed, func(t *testing.T) {
			inWorld(t, 5, 2, func(w *world) {
				w.leaderLostAt(deed, func() { w.cutPower("n1") })
				second := w.lead("h2", safe(), 0, 0)
				w.pass(safe().Detection.LeaseAge / 2)
				w.waitsFor(second, "this leader has not seen its Lease change")
			})
		})
	}
}

// The first proof of a new leader asks the kubelet already: it reads the Node first, which
// says where that listens.
func TestFirstProofOfALeaderAsksTheKubelet(t *testing.T) {
	for _, deed := range []string{"to off", "to tainted"} {
		inWorld(t, 5, 2, func(w *world) {
			w.leaderLostAt(deed, func() { w.cutPower("n1") })
			second := w.lead("h2", safe(), 0, 0)
			w.pass(time.Minute)
			second.mu.Lock()
			defer second.mu.Unlock()
			reads, knocks := 0, 0
			for _, what := range second.deeds {
				switch what {
				case "read power":
					reads++
				case "knock":
					knocks++
				}
				if reads == 2 && knocks == 0 {
					t.Fatalf("first-proof: the power was read twice before the kubelet was asked: %v", second.deeds)
				}
			}
			if reads < 2 {
				t.Errorf("the power was read %d times", reads)
			}
		})
	}
}

// A machine that was held for dead is only ill by now, and that for a moment. The next
// leader takes the log's word for how long it has not been Ready.
func TestNextLeaderCountsFromTheLog(t *testing.T) {
	for _, deed := range []string{"begin", "to cordoned"} {
		t.Run(deed, func(t *testing.T) {
			inWorld(t, 5, 2, func(w *world) {
				w.leaderLostAt(deed, func() { w.cut(true, "n1") })
				w.cut(false, "n1")
				w.sick("n1", true)
				w.lead("h2", safe(), 0, 0)
				w.pass(2 * time.Minute)
				if n, m := w.count("off", "n1"), w.remediations("n1")[0]; n > 0 || m.State != kubestate.RemCancelled {
					t.Errorf("log-says: %d power-offs, and its remediation is %v\n%s", n, m.State, w.story())
				}
			})
		})
	}
}

// A kube node that was ill for long is remedied by the next leader as well, which has
// counted for a moment only.
func TestNextLeaderGoesOnWithWhatIsIllForLong(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		w.leaderLostAt("begin", func() { w.sick("n1", true) })
		w.lead("h2", safe(), 0, 0)
		w.until("its power was taken", time.Minute, func() bool { return w.count("off", "n1") > 0 })
	})
}

// The first device failed, and the leader was lost when the command to the second was
// announced. The next one goes on with that.
func TestNextLeaderGoesOnWithTheSecondDevice(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		w.with(func() { w.trouble.operator = true })
		first := w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.fault("n1", deviceCannot)
		w.after("to fencing", func() { w.after("to fencing", first.end) })
		w.cutPower("n1")
		w.until("the leader is lost", 10*time.Minute, first.ended)
		first.leave()
		w.lead("h2", safe(), 0, 0)
		w.recovers()
		var devices []string
		for _, s := range w.remediations("n1")[0].Steps {
			if s.Device != "" {
				devices = append(devices, s.Device)
			}
		}
		if got := strings.Join(devices, " "); got != "bmc pdu pdu" {
			t.Errorf("second-device: commands were announced to %s\n%s", got, w.story())
		}
	})
}

// A Node was deleted while no peer led. The next leader, which never sees it, ends its
// remediation.
func TestNextLeaderEndsWhatIsGone(t *testing.T) {
	for _, deed := range []string{"begin", "to cordoned", "to fencing"} {
		t.Run(deed, func(t *testing.T) {
			inWorld(t, 5, 2, func(w *world) {
				w.leaderLostAt(deed, func() { w.cutPower("n1") })
				w.with(func() { delete(w.nodes, "n1") })
				w.lead("h2", safe(), 0, 0)
				w.until("looked-gone: the remediation of a Node that is gone has ended", 5*time.Minute, func() bool {
					return w.state("n1").Ended()
				})
			})
		})
	}
}

// A machine that is off is switched on into something that answers at its kubelet's port.
// Its Lease was not renewed since it was off, however old it may get.
func TestRecoveryWaitsForARenewal(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		h := w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.cutPower("n1")
		w.comesTo("n1", kubestate.RemDetached)
		patient := safe()
		patient.Detection.LeaseAge = 10 * time.Minute
		h.c.Renew(patient)
		w.with(func() {
			w.pcs["n1"].powerOn()
			w.pcs["n1"].up, w.pcs["n1"].cut = time.Now(), true // a rescue system
			w.nodes["n1"].Ready = kubestate.ReadyTrue          // as Kubernetes shows for up to 55 s
			w.nodes["n1"].renewed = time.Now()
			w.touch(w.nodes["n1"])
		})
		w.pass(30 * time.Second)
		if s := w.state("n1"); s != kubestate.RemDetached {
			t.Errorf("old-lease: it is %v\n%s", s, w.story())
		}
	})
}

// A kube node without a Lease is silent only when an API server that answers all the time
// has shown none for lease_age.
func TestSilenceOfANodeWithoutALease(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, _ *rand.Rand) {
		const age = 17 * time.Second
		s := safe()
		c := &clusterController{
			tracker: NewTracker(), began: time.Now(), settings: func() Settings { return s }, log: slog.New(slog.DiscardHandler),
		}
		l, m := &lifeSigns{clusterController: c}, kubestate.Remediation{UID: "uid-0"}
		c.tracker.Node(modelNodeNamed(0))
		c.tracker.allTold()
		asked(c.tracker, age-time.Second)
		if l.silent(m) {
			t.Error("no-lease: silent too soon")
		}
		asked(c.tracker, 2*time.Second)
		if !l.silent(m) {
			t.Error("no-lease: it is silent")
		}
		time.Sleep(10 * time.Second) // in a bubble; the API server does not answer
		asked(c.tracker, 2*time.Second)
		if l.silent(m) {
			t.Error("no-lease: silent right after an API server is back")
		}
		asked(c.tracker, age)
		if !l.silent(m) {
			t.Error("no-lease: it is silent again")
		}
	})
}

// What a read shows of another Node of the same name says nothing of the one that is
// watched.
func TestTrackerReadsOneNode(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, _ *rand.Rand) {
		tr := NewTracker()
		tr.answered(time.Now(), time.Now(), nil)
		down := modelNodeNamed(0)
		down.Ready = kubestate.ReadyUnknown
		tr.Node(down)
		tr.allTold()
		asked(tr, 5*time.Second)
		another := modelNodeNamed(0)
		another.UID = "another"
		tr.Read(another)
		if n := only(t, tr); n.Ready == kubestate.ReadyTrue || n.NotReady == 0 {
			t.Errorf("any-uid: it is Ready as another Node of its name is: %+v", n)
		}
		tr.Read(modelNodeNamed(0))
		if n := only(t, tr); n.Ready != kubestate.ReadyTrue || n.NotReady != 0 {
			t.Errorf("any-uid: it is not Ready: %+v", n)
		}
	})
}
