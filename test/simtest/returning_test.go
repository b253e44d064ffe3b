package simtest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/kubestate"
)

const (
	// returnMinutes is how much virtual time passes in TestMachinesThatReturn, 10,000 in
	// make sim, and returnBubble how much of it at most in one cluster.
	returnMinutes = 24
	returnBubble  = 500
	// returnNodes is how many kube nodes a site of it has.
	returnNodes = 6
	// returnMasters is how many of them are of the control plane.
	returnMasters = 3
	// lookedAt is how long an operator takes to look at a remediation that is stuck.
	lookedAt = 90 * time.Second
)

// TestMachinesThatReturn lets machines leave, come back and lie: they lose power, are
// cut off from the API server, from the peers or from both, and come back to the one,
// the other or all, with and without a boot, at any step of their remediations; the
// BMC of some is another machine's and says off of one that runs. Meanwhile leaders are
// lost in every way, the API server is silent for a while, and the cluster is founded
// again, from its newest state or from a backup; and guard rails begin to forbid and end,
// also in the moment in which a leader is lost at any step of a remediation. No pod of a
// machine is deleted that is heard (living), none that is well is switched off
// (nothing-healthy-fenced), none against a guard rail (rails), none for what it was
// before it booted (judged-again), and in the end all work runs and no mark is left
// (all-ends).
func TestMachinesThatReturn(t *testing.T) {
	minutes := countFrom(t, "TRIVET_SIM_RETURNS", returnMinutes)
	var sum returns
	bubbles := max(3, (minutes+returnBubble-1)/returnBubble)
	untilSeen(t, 5, sum.lacking, func(round int) {
		t.Run("bubbles", func(t *testing.T) {
			for i := range bubbles {
				t.Run(fmt.Sprint(i), func(t *testing.T) {
					t.Parallel()
					SimulateKube(t, returnNodes, uint64(4000+round*bubbles+i), restless(), func(c *Cluster, k *KubeSite) {
						r := &returning{KubeSite: k, c: c, holds: i%2 == 1}
						r.lastFor(time.Duration(minutes) * time.Minute / time.Duration(bubbles))
						sum.add(r.returns)
					})
				})
			}
		})
		t.Logf("%d minutes: %+v", (round+1)*minutes, &sum.total)
	})
}

// restless are settings under which much is done.
func restless() failover.Settings {
	s := brisk()
	s.Guard.MinHealthy, s.Guard.StormCooldown, s.Guard.NodeRate = share("20%"), 20*time.Second, 1000
	s.Detection.NotReadyAfter = 90 * time.Second
	s.Remedy.Nodes = ours
	return s
}

// figures of what happened: rails that began to forbid, and seconds for which they held a
// machine that was not off yet.
type figuresOfReturns struct{ offs, deletes, contradictions, refounded, leaders, rails, waits int }

type returns struct {
	mu    sync.Mutex
	total figuresOfReturns
}

func (r *returns) add(f figuresOfReturns) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total.offs += f.offs
	r.total.deletes += f.deletes
	r.total.contradictions += f.contradictions
	r.total.refounded += f.refounded
	r.total.leaders += f.leaders
	r.total.rails += f.rails
	r.total.waits += f.waits
}

// lacking returns what has not happened yet, "" if all has.
func (r *returns) lacking() string {
	f := &r.total
	for what, count := range map[string]int{"machine switched off": f.offs, "pod deleted": f.deletes,
		"contradiction": f.contradictions, "founding from a backup": f.refounded, "rail that forbids": f.rails,
		"wait for a rail": f.waits} {
		if count == 0 {
			return what
		}
	}
	return ""
}

// returning is one cluster with machines that leave and return.
type returning struct {
	*KubeSite
	c       *Cluster
	returns figuresOfReturns
	backup  []byte // of some minutes ago; nil before the first
	hosts   int    // that joined after a founding
	seen    map[string]bool
	rails   []rail // that forbid now, the oldest first
	holds   bool   // the first that leaves is held by a rail
}

// lastFor lets trouble come for a while and then end.
func (r *returning) lastFor(d time.Duration) {
	r.seen = make(map[string]bool)
	r.with(func() {
		for _, name := range r.names[:returnMasters] {
			r.nodes[name].ControlPlane = true
			r.touch(&r.nodes[name].ResourceVersion)
		}
	})
	r.awaitWatched()
	if r.holds {
		r.holdOne()
	}
	end, half := time.Now().Add(d), time.Now().Add(d/2)
	for r.deceive(); time.Now().Before(end); r.elapse(time.Duration(r.c.rng.Int64N(int64(60 * time.Second)))) {
		r.upset()
		if r.turnRails(); r.c.rng.IntN(3) == 0 {
			r.loseAtStep()
		}
		r.elapse(time.Duration(r.c.rng.Int64N(int64(40 * time.Second))))
		if r.returns.refounded == 0 && time.Now().After(half) {
			r.makeBackup()
			r.foundAgain()
		}
		switch n := r.c.rng.IntN(40); {
		case n < 10:
			losses := Losses()
			r.c.Lose(losses[r.c.rng.IntN(len(losses))])
			r.returns.leaders++
		case n == 10:
			r.makeBackup()
		case n == 11:
			r.makeBackup()
			r.foundAgain()
		case n == 12 && r.backup != nil:
			r.foundAgain()
		case n < 16:
			r.Stall(true)
			r.elapse(time.Duration(r.c.rng.Int64N(int64(30 * time.Second))))
			r.Stall(false)
		case n < 18:
			r.deceive()
		}
	}
	r.endTrouble()
}

// upset is one machine that leaves, or one that is away and returns.
func (r *returning) upset() {
	rng := r.c.rng
	r.with(func() {
		var away []*kubeNode
		for _, name := range r.names {
			if n := r.nodes[name]; !n.on || n.cut || n.apart || n.hidden {
				away = append(away, n)
			}
		}
		if len(away) > 0 && rng.IntN(2) == 0 {
			n := away[rng.IntN(len(away))]
			n.wake()
			n.apart, n.hidden = rng.IntN(3) == 0, rng.IntN(3) == 0
			return
		}
		n := r.nodes[r.names[rng.IntN(len(r.names))]]
		switch rng.IntN(6) {
		case 0:
			n.darken()
		case 1:
			n.cut = true
		case 2, 3:
			n.lies, n.cut = n.on, true
		case 4:
			n.lies, n.apart = n.lies || n.on && rng.IntN(2) == 0, true // none is wired right while it runs
		case 5:
			n.hidden = true
		}
	})
}

// deceive lets a machine that runs be believed off, under a leader that is lost then,
// and return to a part of its world.
func (r *returning) deceive() {
	c, name := r.c, r.names[r.c.rng.IntN(len(r.names))]
	r.with(func() { r.nodes[name].lies, r.nodes[name].cut = true, true })
	believed := func() bool {
		v, _ := c.newest()
		m, open := v.OpenRemediation(kubeCluster, "uid-"+name)
		return open && m.WasOff
	}
	for end := time.Now().Add(movedWithin); !believed() && time.Now().Before(end); { // a guard rail may forbid it
		r.elapse(50 * time.Millisecond)
	}
	losses, back := Losses(), func() {
		n := r.nodes[name]
		n.cut, n.apart, n.hidden = false, c.rng.IntN(3) == 0, c.rng.IntN(3) == 0
	}
	if c.rng.IntN(2) == 0 {
		r.with(back)
	}
	c.Lose(losses[c.rng.IntN(len(losses))])
	r.with(back)
	r.returns.leaders++
}

// elapse lets time go on while an operator looks after what is stuck.
func (r *returning) elapse(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(min(time.Second, time.Until(end))) // in a bubble
		r.c.revive()
		r.repair()
		r.attend()
		r.countWaits()
	}
}

// attend is the operator, who looks at what is stuck after a while. A BMC that is
// wired wrongly is wired right and its machine is started again by hand; what was
// contradicted is cancelled, what a founding holds is cancelled if its machine runs. Later
// they say that it may be fenced again.
func (r *returning) attend() {
	v, ok := r.c.newest()
	if !ok {
		return
	}
	for _, m := range v.Remediations() {
		if m.State != kubestate.RemStuck || v.Now().Sub(m.Since) < lookedAt {
			continue
		}
		last := m.Steps[len(m.Steps)-1].Reason
		contradicted, to := strings.HasPrefix(last, "contradiction: "), kubestate.RemFencing
		if key := fmt.Sprint(m.Intent); contradicted && !r.seen[key] {
			r.seen[key] = true
			r.returns.contradictions++
		}
		r.with(func() {
			n := r.nodes[m.Node]
			if n.lies {
				n.startByHand()
			}
			if n.on {
				to = kubestate.RemCancelled
			}
		})
		if contradicted || last == kubestate.HeldByFounding {
			r.command(kubestate.ReleaseRemediation{Intent: m.Intent, To: to, By: "operator"})
		}
	}
	for _, name := range r.names {
		lies := false
		r.with(func() { lies = r.nodes[name].lies })
		held, awaits := failover.AwaitsWord(v, kubeCluster, name)
		if awaits && !lies && v.Now().Sub(held.Since) >= lookedAt {
			r.command(kubestate.ReleaseRemediation{Intent: held.Intent, To: kubestate.RemFencing, By: "operator", Ended: true})
		}
	}
}

// command is one command of the operator; if it fails they try again later.
func (r *returning) command(cmd fsm.Command) {
	lead := r.c.Leader()
	if lead == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), successionLimit)
	defer cancel()
	_, _ = lead.Core().Session.Do(ctx, "", cmd) // looked at again a second later
}

// makeBackup makes a backup.
func (r *returning) makeBackup() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var to bytes.Buffer
	if err := saveSnapshot(ctx, r.c.AwaitLeader(successionLimit).Core(), &to); err != nil {
		r.c.T.Fatal(err)
	}
	r.backup = to.Bytes()
}

// foundAgain founds the cluster again from the backup, on any host; two new ones join.
func (r *returning) foundAgain() {
	c := r.c
	on := c.Peers[c.rng.IntN(len(c.Peers))]
	var names []string
	for range 2 {
		r.hosts++
		names = append(names, fmt.Sprintf("h%d", 100+r.hosts))
	}
	c.foundFrom(bytes.NewReader(r.backup), on, names...)
	c.settle(0)
	r.returns.refounded++
}

// endTrouble ends all trouble and waits until nothing is left of it.
func (r *returning) endTrouble() {
	for len(r.rails) > 0 {
		r.lift()
	}
	r.with(func() {
		for _, name := range r.names {
			n := r.nodes[name]
			if n.apart, n.hidden, n.cut = false, false, false; n.lies {
				n.startByHand()
			}
		}
	})
	for end := time.Now().Add(settledWithin); ; {
		v, _ := r.c.newest()
		if len(v.Remediations()) == 0 && len(r.marked()) == 0 && len(r.idle()) == 0 {
			break
		}
		if time.Now().After(end) {
			r.c.T.Fatalf("all-ends: after %v there are marks on %v, and %v do not run\n%s", settledWithin, r.marked(), r.idle(),
				r.story())
		}
		r.elapse(time.Second)
		r.with(func() {
			for _, name := range r.names {
				if n := r.nodes[name]; !n.on &&
					!slices.ContainsFunc(v.Remediations(), func(m kubestate.Remediation) bool { return m.Node == name }) {
					n.wake()
				}
			}
		})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.writes {
		switch w.what {
		case callOff:
			r.returns.offs++
		case callDelete:
			r.returns.deletes++
		}
	}
}
