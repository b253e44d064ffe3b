package simtest

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// TestFailoverTakes measures, in virtual time, how long the work of a machine is
// down that loses power while nothing else goes wrong, under the settings that are
// shipped and with a BMC that needs a second. The power goes at a phase of the Lease
// that a source of its own draws, so that two revisions meet the same schedule: 22 s for
// nine of ten and 17 s for half of them, of which 2.5 s after `off` is in the log
// (work-moves). docs/failover.md#how-long has what was measured; the bounds leave room
// for requests that take their time.
func TestFailoverTakes(t *testing.T) {
	t.Parallel()
	const half, whole, rest = 17 * time.Second, 22 * time.Second, 2500 * time.Millisecond
	wanted, percent := 4, 50 // one in each quarter of a period; few say little of the slowest
	if thorough() {
		wanted, percent = 100, 90
	}
	settings := shipped()
	settings.Guard.NodeRate = wanted // so many deaths of so few machines within an hour are of this test alone
	phases := rand.New(rand.NewPCG(96, 0))
	SimulateKube(t, 2*kubeNodes, 960, settings, func(_ *Cluster, k *KubeSite) {
		var figures deaths
		k.awaitWatched()
		for i := range wanted {
			phase := (time.Duration(i)*kubeRenew + time.Duration(phases.Int64N(int64(kubeRenew)))) / time.Duration(wanted)
			d := k.killAfterRenewal(phase)
			k.awaitMoved([]*death{d})
			figures.add(d)
		}
		t.Log(&figures)
		middle, _ := figures.percentile(50)
		if slow, slowRest := figures.percentile(percent); middle > half || slow > whole || slowRest > rest {
			t.Errorf("work-moves: half took up to %v, %d%% %v, and %v after `off`; %v, %v and %v are promised", middle, percent,
				slow, slowRest, half, whole, rest)
		}
	})
}

// killAfterRenewal takes the power of a kube node that is well, so long after it renewed
// its Lease.
func (k *KubeSite) killAfterRenewal(phase time.Duration) *death {
	k.c.T.Helper()
	n := k.nodes[k.awaitSteadfast()[0]]
	var renewed time.Time
	k.with(func() { renewed = n.renewed })
	due := renewed.Add(phase)
	for ; time.Until(due) < 0; due = due.Add(kubeRenew) {
	}
	time.Sleep(time.Until(due)) // in a bubble
	return k.die(n, false)
}

// TestSilentAPIServerFencesNoNode lets the API server be silent for half a minute,
// again and again, while all machines are well and a leader is lost now and then:
// no Lease can be renewed, and no power is taken.
func TestSilentAPIServerFencesNoNode(t *testing.T) {
	t.Parallel()
	losses := Losses()
	if !thorough() {
		losses = losses[:2]
	}
	SimulateKube(t, kubeNodes, 970, brisk(), func(c *Cluster, k *KubeSite) {
		k.awaitWatched()
		for i, how := range losses {
			k.Stall(true)
			time.Sleep(time.Duration(5*i) * time.Second) // in a bubble
			c.Lose(how)
			time.Sleep(30*time.Second - time.Duration(5*i)*time.Second) // in a bubble
			k.Stall(false)
			k.pass(25*time.Second, nil)
		}
		v, _ := c.newest()
		if n, began := k.fenced(), len(v.RemediationHistory(0)); n > 0 || began > 0 {
			t.Errorf("nothing-healthy-fenced: %d power-off commands, %d remediations, and all machines are well\n%s", n, began,
				k.story())
		}
		d := k.kill(false)
		k.awaitMoved([]*death{d})
	})
}

// stopAtCall stops the leader at its next call of a kind about a kube node, and says
// when it has.
func (k *KubeSite) stopAtCall(call, node string) *atomic.Pointer[Peer] {
	var stopped atomic.Pointer[Peer]
	k.with(func() {
		k.meet = func(p *Peer, now, of string) {
			if now == call && of == node && stopped.CompareAndSwap(nil, p) {
				p.Pause()
			}
		}
	})
	return &stopped
}

// TestStoppedFailoverLeader stops the leader at each of its calls about a dead kube
// node, lets another one finish, and lets the first go on when the machine is back
// and has work again: what was on its way has no effect (tokens-rise, order), and
// nothing more is sent (proven).
func TestStoppedFailoverLeader(t *testing.T) {
	calls, rounds := []string{callMark, callOff, callDelete}, 1
	if thorough() {
		calls, rounds = append(calls, callGet, callPower, callPods), 4
	}
	for i, call := range calls {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			SimulateKube(t, kubeNodes, uint64(980+i), brisk(), func(_ *Cluster, k *KubeSite) {
				k.awaitWatched()
				for range rounds {
					k.sleepThrough(call)
				}
			})
		})
	}
}

// sleepThrough lets a kube node die and its leader sleep through the rest.
func (k *KubeSite) sleepThrough(call string) {
	c := k.c
	c.T.Helper()
	d := k.kill(false)
	stopped := k.stopAtCall(call, d.node)
	c.Until(movedWithin, "the leader is stopped at "+call, func() bool { return stopped.Load() != nil })
	old := stopped.Load()
	token := old.leadToken.Load()
	c.AwaitLeader(successionLimit, old)
	k.awaitMoved([]*death{d})
	k.awaitSettled()
	woken := time.Now()
	old.Resume()
	k.pass(5*time.Second, nil)
	if sent := k.sent(old.Name, token, woken); len(sent) > 0 {
		c.Oracle.broken("proven: a leader that slept through its successor's whole work sent %v", sent)
	}
}

// TestWokenFailoverLeader stops the leader right after it has read what it is about
// to act on, and lets it go on as soon as another one leads, before its own clocks
// have told it anything: it proves that it leads before it writes, and cannot
// (proven).
func TestWokenFailoverLeader(t *testing.T) {
	for i, state := range []kubestate.State{kubestate.RemIntent, kubestate.RemOff, kubestate.RemTainted} {
		t.Run(state.String(), func(t *testing.T) {
			t.Parallel()
			SimulateKube(t, kubeNodes, uint64(990+i), brisk(), func(_ *Cluster, k *KubeSite) {
				k.hasten()
				k.awaitWatched()
				d := k.kill(false)
				k.wakeAt(state, d)
				k.awaitMoved([]*death{d})
			})
		})
	}
}

// hasten restarts the peers with the short election clocks of TestWokenLeader.
func (k *KubeSite) hasten() {
	k.c.Timing = wokenTiming()
	for _, p := range k.c.Peers {
		k.c.must(p.Kill())
		k.c.must(p.Start())
	}
}

// wakeAt stops the leader at the last reading before the write that a state asks
// for, and lets it go on under another's leadership.
func (k *KubeSite) wakeAt(state kubestate.State, d *death) {
	c := k.c
	c.T.Helper()
	var stopped atomic.Pointer[Peer]
	k.with(func() {
		k.meet = func(p *Peer, call, node string) {
			v, _ := c.newest()
			m, open := v.OpenRemediation(kubeCluster, d.uid)
			if call == callGet && node == d.node && open && m.State == state && stopped.CompareAndSwap(nil, p) {
				p.Pause()
			}
		}
	})
	c.Until(movedWithin, "the leader is stopped", func() bool { return stopped.Load() != nil })
	old := stopped.Load()
	token := old.leadToken.Load()
	c.AwaitLeader(successionLimit, old)
	woken := time.Now()
	old.Resume()
	k.pass(5*time.Second, nil)
	if sent := k.sent(old.Name, token, woken); len(sent) > 0 {
		c.Oracle.broken("proven: a leader that was woken under its successor sent %v", sent)
	}
}

// TestSwitchedOnMeanwhile switches a machine on whose work is about to be given
// away, while no leader can look, and which is long in booting: the next one reads its
// power before it goes on, and takes it again (order).
func TestSwitchedOnMeanwhile(t *testing.T) {
	rounds := 1
	if thorough() {
		rounds = 10
	}
	SimulateKube(t, kubeNodes, 999, brisk(), func(c *Cluster, k *KubeSite) {
		k.awaitWatched()
		for range rounds {
			d := k.kill(false)
			stopped := k.stopAtCall(callPods, d.node)
			c.Until(movedWithin, "the leader lists the pods", func() bool { return stopped.Load() != nil })
			k.Stall(true)
			c.must(stopped.Load().Kill())
			k.with(func() {
				k.nodes[d.node].wake()
				k.nodes[d.node].up = time.Now().Add(2 * movedWithin)
			})
			time.Sleep(2 * readingLife) // in a bubble
			k.Stall(false)
			k.awaitMoved([]*death{d})
			c.must(stopped.Load().Start())
			again := func() bool { // the next leader looks for lease_age first
				v, _ := c.newest()
				m := v.RemediationHistory(0)[0]
				return slices.ContainsFunc(m.Steps[5:], func(s kubestate.Step) bool { return s.State == kubestate.RemFencing })
			}
			for end := time.Now().Add(movedWithin); !again() && time.Now().Before(end); {
				k.pass(time.Second, nil)
			}
			if !again() {
				c.Oracle.broken("order: %s was switched on before its work was given away, and its power was not taken again\n%s",
					d.node, k.story())
			}
			k.awaitSettled() // beside an open remediation pods are listed before the next one begins
		}
	})
}
