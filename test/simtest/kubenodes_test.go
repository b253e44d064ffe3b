package simtest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/kubestate"
)

const (
	// kubeNodes is how many kube nodes a site has: enough that four may be down
	// together without a storm.
	kubeNodes = 12
	// movedWithin bounds, in virtual time, how long the work of a dead kube node may be
	// down whatever happens to the leaders: two losses, and a machine that is
	// switched on at the wrong moment.
	movedWithin = 3 * time.Minute
	// settledWithin bounds how long until nothing is left of all remediations.
	settledWithin = 15 * time.Minute
)

// thorough says that the long form runs, of `make sim`.
func thorough() bool { return os.Getenv("TRIVET_SIM_KUBENODES") != "" }

// deathsWanted is how many kube nodes die in TestFailoverSurvives: one for each way
// to lose a leader by default.
func deathsWanted(t *testing.T) int { return countFrom(t, "TRIVET_SIM_KUBENODES", len(Losses())) }

// death is the end of one kube node, and when what ran there ran elsewhere.
type death struct {
	node  string
	uid   string
	pods  []string
	at    time.Time
	off   time.Time // when `off` was logged
	moved time.Time
}

// TestFailoverSurvives kills kube nodes at random, or cuts them off while they work,
// while one leader after the other is lost in every way there is, under load and
// with wrong clocks on the wall. The work of every one of them runs elsewhere in
// the end (work-moves), never in two places (one-writer); nothing that is well is
// switched off (nothing-healthy-fenced); no object is written under a lower token
// than before (tokens-rise), nor without a proof of leadership (proven); and nothing
// is given away before its machine was off (order).
func TestFailoverSurvives(t *testing.T) {
	perBubble := 1
	if thorough() {
		perBubble = 6
	}
	began := time.Now()
	total := deathsWanted(t)
	var figures deaths
	t.Run("bubbles", func(t *testing.T) {
		losses := Losses()
		for i := range (total + perBubble - 1) / perBubble {
			how := losses[i%len(losses)]
			t.Run(fmt.Sprintf("%d-%s", i, how.Name), func(t *testing.T) {
				t.Parallel()
				SimulateKube(t, kubeNodes, uint64(900+i), brisk(), func(c *Cluster, k *KubeSite) {
					figures.add(k.ordeal(min(perBubble, total-i*perBubble), how)...)
				})
			})
		}
	})
	took := time.Since(began)
	t.Logf("%d kube nodes died in %v, %.0f a minute; with leaders lost meanwhile %s", total, took.Round(time.Millisecond),
		float64(total)/took.Minutes(), &figures)
}

// ordeal lets some kube nodes die, and loses a leader after each.
func (k *KubeSite) ordeal(n int, how Loss) (all []*death) {
	c := k.c
	c.T.Helper()
	load := c.StartLoad(1)
	k.awaitWatched()
	for i := range n {
		c.Peers[i%3].SetSkew([]time.Duration{2 * time.Hour, -5 * time.Hour, 0}[i%3])
		d := k.kill((i+len(how.Name))%2 == 1)
		all = append(all, d)
		k.pass(time.Duration(c.rng.Int64N(int64(25*time.Second))), all)
		if c.rng.IntN(3) == 0 {
			k.with(k.nodes[d.node].wake) // at whatever moment
		}
		c.Lose(how)
		k.awaitMoved(all)
		c.Peers[i%3].SetSkew(0)
	}
	load.Stop()
	k.awaitSettled()
	c.Agree(successionLimit)
	load.Verify(c.Peers[0])
	return all
}

// awaitWatched waits until every peer has an opinion of every kube node.
func (k *KubeSite) awaitWatched() {
	k.c.T.Helper()
	k.c.Until(time.Minute, "everybody hears every kubelet", func() bool {
		v, ok := k.c.newest()
		return ok && k.c.Leader() != nil && !slices.ContainsFunc(k.names, func(name string) bool {
			_, answers, _ := v.KubeVotes(kubeCluster, "uid-"+name)
			return answers < len(k.c.Peers)
		})
	})
}

// kill takes the power of some kube node that is well, or cuts it off while it
// works.
func (k *KubeSite) kill(cut bool) *death {
	k.c.T.Helper()
	fit := k.awaitSteadfast()
	time.Sleep(time.Duration(k.c.rng.Int64N(int64(kubeRenew)))) // in a bubble
	return k.die(k.nodes[fit[k.c.rng.IntN(len(fit))]], cut)
}

// awaitSteadfast waits until some kube nodes may die, and names them.
func (k *KubeSite) awaitSteadfast() (fit []string) {
	k.c.T.Helper()
	k.c.Until(settledWithin, "some kube nodes have been well for long enough", func() bool {
		time.Sleep(time.Second) // in a bubble
		var well int
		fit, well = k.steadfast()
		return len(fit) > 0 && well > kubeNodes*2/3
	})
	return fit
}

// die takes the power of a kube node now, or cuts it off while it works.
func (k *KubeSite) die(n *kubeNode, cut bool) *death {
	d := &death{node: n.Name, uid: n.UID, at: time.Now()}
	k.with(func() {
		for name := range n.runs {
			d.pods = append(d.pods, name)
		}
		if n.cut = cut; !cut {
			n.darken()
		}
	})
	return d
}

// steadfast lists the kube nodes that have work, are well and may be remedied again,
// and counts all that are well.
func (k *KubeSite) steadfast() (names []string, well int) {
	v, ok := k.c.newest()
	if !ok {
		return nil, 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, name := range k.names {
		n := k.nodes[name]
		if n.well.IsZero() || len(n.Taints) > 0 {
			continue
		}
		well++
		if len(n.runs) > 0 && k.remediable(v, n.UID) {
			names = append(names, name)
		}
	}
	return names, well
}

// remediable reports whether no guard rail protects a kube node for what was done to
// it before.
func (k *KubeSite) remediable(v fsm.View, uid string) bool {
	guard, lately := k.settings.Guard, 0
	for _, m := range v.RemediationHistory(0) {
		if m.UID != uid {
			continue
		}
		if !m.State.Ended() || v.Now().Sub(m.Since) < 2*guard.HealthyDelay {
			return false
		}
		if v.Now().Sub(m.Began) < time.Hour {
			lately++
		}
	}
	return lately < guard.NodeRate
}

// observe notes what became of the dead.
func (k *KubeSite) observe(all []*death) {
	v, _ := k.c.newest()
	for _, d := range all {
		if m, open := v.OpenRemediation(kubeCluster, d.uid); open && m.WasOff && d.off.IsZero() {
			d.off = time.Now()
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, d := range all {
		if d.moved.IsZero() && !slices.ContainsFunc(d.pods, func(pod string) bool { return k.runsOn(pod) == "" }) {
			d.moved = time.Now()
		}
	}
}

// pass lets time go on while the dead are looked after, and machines switched on
// that have lost everything.
func (k *KubeSite) pass(d time.Duration, all []*death) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond) // in a bubble
		k.c.revive()
		k.observe(all)
		k.repair()
	}
}

// repair is the operator, who switches on what has lost everything.
func (k *KubeSite) repair() {
	v, _ := k.c.newest()
	for _, m := range v.Remediations() {
		if m.State == kubestate.RemDetached && v.Now().Sub(m.Since) > 5*time.Second {
			k.with(func() {
				if n := k.nodes[m.Node]; !n.on {
					n.wake()
				}
			})
		}
	}
}

func (k *KubeSite) awaitMoved(all []*death) {
	k.c.T.Helper()
	for end := time.Now().Add(movedWithin); len(k.idle()) > 0 ||
		slices.ContainsFunc(all, func(d *death) bool { return d.moved.IsZero() }); k.pass(50*time.Millisecond, all) {
		if time.Now().After(end) {
			k.c.T.Fatalf("work-moves: %v do not run after %v\n%s", k.idle(), movedWithin, k.story())
		}
	}
}

// awaitSettled waits until nothing is left of all remediations.
func (k *KubeSite) awaitSettled() {
	k.c.T.Helper()
	for end := time.Now().Add(settledWithin); ; k.pass(time.Second, nil) {
		v, _ := k.c.newest()
		marked := k.marked()
		if len(v.Remediations()) == 0 && len(marked) == 0 && len(k.idle()) == 0 {
			return
		}
		if time.Now().After(end) {
			k.c.T.Fatalf("all-ends: after %v there are marks on %v\n%s", settledWithin, marked, k.story())
		}
	}
}

// story tells what was done, for a failure.
func (k *KubeSite) story() string {
	var s strings.Builder
	v, _ := k.c.newest()
	for _, m := range v.RemediationHistory(0) {
		fmt.Fprintf(&s, "remediation %v of %s %s:\n", m.Intent, m.Node, m.BootID)
		for _, step := range m.Steps {
			fmt.Fprintf(&s, "  %v %v %s %s\n", step.At, step.State, step.Peer, step.Reason)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, w := range k.writes[max(0, len(k.writes)-60):] {
		fmt.Fprintf(&s, "%s %s token %d: %s %s\n", w.at.Format("15:04:05.000"), w.peer, w.token, w.what, w.node)
	}
	for _, name := range k.names {
		n := k.nodes[name]
		fmt.Fprintf(&s, "%s: on %v cut %v alive %v Ready %v boots %d runs %v taints %v\n", name, n.on, n.cut, n.alive(),
			n.Ready, n.boots, n.runs, n.Taints)
	}
	return s.String()
}

// deaths are the figures of many.
type deaths struct {
	mu  sync.Mutex
	all []*death
}

func (f *deaths) add(all ...*death) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, all...)
}

// times returns, in order, how long it took until the work ran elsewhere, from the
// death on and from `off` on.
func (f *deaths) times() (whole, rest []time.Duration) {
	for _, d := range f.all {
		whole = append(whole, d.moved.Sub(d.at))
		if !d.off.IsZero() && d.moved.After(d.off) {
			rest = append(rest, d.moved.Sub(d.off))
		}
	}
	slices.Sort(whole)
	slices.Sort(rest)
	return whole, rest
}

// percentile returns what that many of a hundred do not exceed.
func (f *deaths) percentile(percent int) (whole, rest time.Duration) {
	w, r := f.times()
	return percentile(w, percent), percentile(r, percent)
}

func percentile(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)*percent+99)/100-1].Round(10 * time.Millisecond)
}

// String tells the distributions.
func (f *deaths) String() string {
	whole, rest := f.times()
	spread := func(d []time.Duration) string {
		return fmt.Sprintf("p50 %v, p90 %v, max %v (%d)", percentile(d, 50), percentile(d, 90), percentile(d, 100), len(d))
	}
	return fmt.Sprintf("work ran elsewhere after %s; after `off` %s", spread(whole), spread(rest))
}
