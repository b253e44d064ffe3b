package failover

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// suspects collects who was ever held for dead, and when first.
type suspects struct {
	mu    sync.Mutex
	first map[string]time.Time
	newly []Verdict // the newest look
}

func (s *suspects) see(all []Verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first == nil {
		s.first = make(map[string]time.Time)
	}
	s.newly = all
	for _, v := range all {
		if _, known := s.first[v.Node.Name]; v.Suspect && !known {
			s.first[v.Node.Name] = time.Now()
		}
	}
}

func (s *suspects) names() (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.first {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func (s *suspects) verdicts() []Verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newly
}

// eventually waits for a condition inside the bubble.
func eventually(t *testing.T, within time.Duration, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !holds(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, within)
		}
	}
}

// The detection time, over power-offs at any phase of a Lease: with the shipped
// settings at most 20 s for nine of ten.
func TestDetectionTime(t *testing.T) {
	var took []time.Duration
	const runs = 40
	for seed := range uint64(runs) {
		inBubble(t, seed, func(t *testing.T, random *rand.Rand) {
			c := newCourt(t, 5, random)
			var s suspects
			c.run(s.see)
			defer c.end()
			time.Sleep(30 * time.Second)
			renewals := c.kube.renewalsOf(2)
			eventually(t, 2*renewPeriod, "it renews", func() bool { return c.kube.renewalsOf(2) > renewals })
			time.Sleep(renewPeriod * time.Duration(seed) / runs) // every phase, evenly
			if got := s.names(); len(got) > 0 {
				t.Fatalf("before anything happened: %v", got)
			}
			c.kube.powerOff(2)
			off := time.Now()
			eventually(t, 30*time.Second, "the dead node is a suspect", func() bool { return len(s.names()) > 0 })
			v := s.verdicts()[2]
			if !v.Act || len(s.names()) != 1 {
				t.Errorf("act %v on %s, suspects %v: %v", v.Act, v.Node.Name, s.names(), v.Why)
			}
			c.end()
			took = append(took, s.first["n2"].Sub(off))
		})
	}
	slices.Sort(took)
	p90 := took[len(took)*9/10]
	t.Logf("power off to suspect: least %v, median %v, p90 %v, most %v", took[0], took[len(took)/2], p90,
		took[len(took)-1])
	if p90 > 20*time.Second {
		t.Errorf("detection-time: p90 is %v, want at most 20s", p90)
	}
	if took[0] < 7*time.Second {
		t.Errorf("a kube node was suspected after %v: it may still have had time to renew", took[0])
	}
}

func TestStalledAPIServer(t *testing.T) {
	for seed := range uint64(5) {
		inBubble(t, seed, func(t *testing.T, random *rand.Rand) {
			c := newCourt(t, 5, random)
			var s suspects
			c.run(s.see)
			defer c.end()
			time.Sleep(30*time.Second + 2*time.Duration(seed)*time.Second)
			go func() {
				time.Sleep(20 * time.Second)
				for _, v := range s.verdicts() {
					if !strings.HasPrefix(v.Why[0], "the API server of prod is silent for ") || v.Would != nothing {
						t.Errorf("stalled-says-why: of %s: %v", v.Node.Name, v.Why)
					}
				}
			}()
			c.kube.stall(30 * time.Second)
			time.Sleep(5 * time.Second)
			for _, v := range s.verdicts() {
				if c.tracker.Look().API.Back < 0 ||
					!strings.Contains(v.Why[0], "Ready") && !strings.Contains(v.Why[0], "all ages count from then") {
					t.Errorf("after the stall, of %s: %v", v.Node.Name, v.Why)
				}
			}
			time.Sleep(2 * time.Minute)
			if got := s.names(); len(got) > 0 {
				t.Errorf("stalled: %v were suspected, and all are healthy", got)
			}
		})
	}
}

func TestThreeOfFiveSilent(t *testing.T) {
	for seed := range uint64(10) {
		inBubble(t, seed, func(t *testing.T, random *rand.Rand) {
			c := newCourt(t, 5, random)
			acted := make(map[string]bool)
			var s suspects
			c.run(func(all []Verdict) {
				for _, v := range all {
					acted[v.Node.Name] = acted[v.Node.Name] || v.Act
				}
				s.see(all)
			})
			defer c.end()
			time.Sleep(25*time.Second + time.Duration(seed)*733*time.Millisecond)
			c.kube.powerOff(0, 2, 4)
			time.Sleep(2 * time.Minute)
			c.end()
			for name, act := range acted {
				if act {
					t.Errorf("three-of-five: %s would have been switched off", name)
				}
			}
			v, _ := c.log.Changed()
			if _, held := v.FailoverHold(courtCluster); !held {
				t.Error("three of five are silent, and no storm is recorded")
			}
			for _, p := range c.peers {
				if p.prober.Faults()[courtCluster] == "" {
					t.Errorf("peer %s does not reach most kubelets and does not doubt itself", p.name)
				}
			}
		})
	}
}

// three of five, with votes: what the guard rail alone has to forbid.
func TestThreeOfFiveVotedSilent(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, random *rand.Rand) {
		c := newCourt(t, 5, random)
		c.told(5)
		for i := range 3 {
			c.peers[0].says(fmt.Sprintf("uid-%d", i), true)
			c.peers[1].says(fmt.Sprintf("uid-%d", i), true)
		}
		c.pass(25*time.Second, func(all []Verdict) {
			for _, v := range all {
				if v.Act {
					t.Errorf("three-of-five: %s would have been switched off", v.Node.Name)
				}
			}
		})
		v := c.look("n0")
		if !v.Suspect || !strings.HasPrefix(v.Why[0], "5 of 5 kube nodes are unhealthy") &&
			!strings.HasPrefix(v.Why[0], "3 of 5") {
			t.Errorf("%v: %v", v.Suspect, v.Why)
		}
		h, due := c.judge.Storm()
		if !due || h.For != 5*time.Minute {
			t.Fatalf("storm: %v %+v", due, h)
		}
		c.log.lead(h)
		c.judge.Look()
		if _, due = c.judge.Storm(); due {
			t.Error("the storm is in the log already")
		}
		c.pass(stormEvery+time.Second, nil)
		if _, due = c.judge.Storm(); !due {
			t.Error("the storm lasts, and is not prolonged")
		}
	})
}

func TestMajority(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, random *rand.Rand) {
		c := newCourt(t, 5, random)
		c.told(5)
		c.peers[0].says("uid-0", true)
		c.peers[1].says("uid-0", false)
		c.pass(40*time.Second, func(all []Verdict) {
			if all[0].Suspect {
				t.Fatalf("majority: one of three peers is enough: %v", all[0].Why)
			}
		})
		c.peers[1].says("uid-0", true)
		c.pass(3*time.Second, nil)
		if v := c.look("n0"); !v.Suspect {
			t.Errorf("two of three: %v", v.Why)
		}
	})
}

func TestFlapInsideHold(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, random *rand.Rand) {
		c := newCourt(t, 5, random)
		c.told(5)
		never := func(all []Verdict) {
			if all[0].Suspect {
				t.Fatalf("hold: suspected in spite of signs of life: %v", all[0].Why)
			}
		}
		c.pass(20*time.Second, never)
		for range 10 {
			for _, p := range c.peers {
				p.says("uid-0", true)
			}
			c.pass(1500*time.Millisecond, never)
			for _, p := range c.peers[1:] {
				p.says("uid-0", false)
			}
			c.pass(time.Second, never)
		}
		c.peers[1].says("uid-0", true)
		c.judge.Look()
		if why := c.look("n0").Why[0]; !strings.Contains(why, "(failover.hold)") {
			t.Errorf("inside the hold time it says: %s", why)
		}
	})
}

func TestVotesEndWithTheirSession(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, random *rand.Rand) {
		c := newCourt(t, 5, random)
		c.told(5)
		c.pass(10*time.Second, nil)
		for _, p := range c.peers[1:] {
			p.says("uid-0", true)
			p.mu.Lock()
			p.down = true
			p.mu.Unlock()
		}
		c.pass(membership.SessionTTL+time.Second, nil)
		if v := c.look("n0"); v.Silent != 0 || v.Suspect {
			t.Errorf("ended-sessions: %d silent votes count, suspect %v", v.Silent, v.Suspect)
		}
	})
}

func TestNewSessionVotesAnew(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, random *rand.Rand) {
		c := newCourt(t, 3, random)
		c.run(func([]Verdict) {})
		defer c.end()
		votes := func() (answers int) {
			v, _ := c.log.Changed()
			_, answers, _ = v.KubeVotes(courtCluster, "uid-1")
			return answers
		}
		eventually(t, 10*time.Second, "all peers hear it", func() bool { return votes() == 3 })
		c.peers[1].open()
		if votes() != 2 {
			t.Fatalf("%d votes right after a session ended", votes())
		}
		eventually(t, 2*time.Second, "the new session votes", func() bool { return votes() == 3 })
		before := c.log.count()
		time.Sleep(time.Hour)
		if n := c.log.count() - before; n > 0 {
			t.Errorf("idle-costs-nothing: %d entries in an hour in which nothing happened", n)
		}
	})
}

func TestPeerThatLostItsNetworkWithdraws(t *testing.T) {
	for seed := range uint64(10) {
		inBubble(t, seed, func(t *testing.T, random *rand.Rand) {
			c := newCourt(t, 5, random)
			var s suspects
			c.run(s.see)
			defer c.end()
			time.Sleep(20 * time.Second)
			var targets []string
			for _, n := range c.kube.nodes {
				targets = append(targets, n.Kubelet)
			}
			c.peers[1].sever(true, targets...)
			for range 100 {
				time.Sleep(300 * time.Millisecond)
				v, _ := c.log.Changed()
				for _, n := range v.KubeNodes(courtCluster) {
					if silent, _, _ := v.KubeVotes(courtCluster, n.UID); silent > 0 {
						t.Fatalf("own-fault: a peer without a network says that %s is silent", n.Name)
					}
				}
			}
			v, _ := c.log.Changed()
			if n := len(v.KubeVotesOf(c.peers[1].session, courtCluster)); n > 0 {
				t.Errorf("own-fault: it left %d votes", n)
			}
			if why := c.peers[1].prober.Faults()[courtCluster]; !strings.HasPrefix(why, "5 of 5 kubelets") {
				t.Errorf("it says: %q", why)
			}
			c.peers[1].sever(false, targets...)
			eventually(t, 10*time.Second, "it votes again", func() bool {
				v, _ := c.log.Changed()
				return len(v.KubeVotesOf(c.peers[1].session, courtCluster)) == 5
			})
			if len(c.peers[1].prober.Faults()) > 0 || len(s.names()) > 0 {
				t.Errorf("afterwards: faults %v, suspects %v", c.peers[1].prober.Faults(), s.names())
			}
		})
	}
}

// Machines that are starved renew late and answer late, but they live.
func TestStarvedNodes(t *testing.T) {
	for seed := range uint64(2) {
		inBubble(t, seed, func(t *testing.T, random *rand.Rand) {
			c := newCourt(t, 5, random)
			c.kube.late = func(r *rand.Rand) time.Duration { return time.Duration(r.Int64N(int64(15 * time.Second))) }
			c.kube.slow = func(r *rand.Rand) time.Duration { // one of twenty comes too late
				return time.Duration(r.Int64N(int64(2100 * time.Millisecond)))
			}
			var s suspects
			overdue := 0
			c.run(func(all []Verdict) {
				for _, v := range all {
					if v.LeaseAge >= c.settings.Detection.LeaseAge {
						overdue++
					}
				}
				s.see(all)
			})
			defer c.end()
			time.Sleep(30 * time.Minute)
			c.end()
			if got := s.names(); len(got) > 0 {
				t.Errorf("starved: %v were suspected", got)
			}
			if overdue == 0 {
				t.Error("no Lease was ever late: the model starves nobody")
			}
		})
	}
}

func TestNewLeaderMissesNoEdge(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, random *rand.Rand) {
		c := newCourt(t, 5, random)
		c.told(5)
		for _, p := range c.peers {
			p.says("uid-0", true)
		}
		c.pass(20*time.Second, nil)
		c.lead() // another leadership, while n0 is not Ready
		c.answers()
		for i := range 5 {
			n := modelNodeNamed(i)
			if i == 0 {
				n.Ready = kubestate.ReadyUnknown
			}
			c.tracker.Node(n)
			c.tracker.Renewed(n.Name, Renewal{At: "first"})
		}
		c.tracker.allTold()
		c.pass(3*time.Second, nil)
		if v := c.look("n0"); !v.Suspect || !v.Act {
			t.Errorf("start-up-scan: %+v", v)
		}
	})
}

func TestStillAndReturned(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, random *rand.Rand) {
		c := newCourt(t, 5, random)
		c.told(5)
		for _, p := range c.peers {
			p.says("uid-0", true)
		}
		c.pass(20*time.Second, nil)
		if still, why := c.judge.Still("uid-0"); !still || c.judge.Returned("uid-0") {
			t.Errorf("dead: %s", why)
		}
		c.log.lead(kubestate.BeginRemediation{Cluster: courtCluster, Node: "n0", UID: "uid-0", BootID: "boot-0",
			Reason: "dead"})
		if v := c.look("n0"); v.Act || v.Remediation == nil || v.Would != "its remediation goes on from intent" {
			t.Errorf("with an open remediation: %+v", v)
		}
		c.lead() // whose ages are zero
		c.answers()
		for i := range 5 {
			c.tracker.Node(modelNodeNamed(i))
			c.tracker.Renewed(fmt.Sprintf("n%d", i), Renewal{At: "first"})
		}
		if still, why := c.judge.Still("uid-0"); still || why != notSynced {
			t.Errorf("before the list is read: %v, %s", still, why)
		}
		c.tracker.allTold()
		if still, why := c.judge.Still("uid-0"); !still || c.judge.Returned("uid-0") {
			t.Errorf("new-leader: it forgot what was found: %s", why)
		}
		c.tracker.Renewed("n0", Renewal{At: "second"})
		if still, why := c.judge.Still("uid-0"); still || c.judge.Returned("uid-0") {
			t.Errorf("its Lease changed, but nobody hears its kubelet: %v, %s", still, why)
		}
		c.peers[0].says("uid-0", false)
		c.peers[2].says("uid-0", false)
		if !c.judge.Returned("uid-0") {
			t.Error("it has returned")
		}
		if still, why := c.judge.Still("gone"); still || why != "the Node does not exist any more" {
			t.Errorf("%v, %s", still, why)
		}
		if v, err := c.judge.Simulate("n3", ModeSafe); err != nil || !v.Act {
			t.Errorf("simulate: %+v, %v", v, err)
		}
		if _, err := c.judge.Simulate("nobody", ModeSafe); err == nil {
			t.Error("who is nobody?")
		}
		if v, err := c.judge.Simulate("n3", ModeNooBaa); err != nil || !v.Act ||
			!strings.Contains(v.Would, "volumes are left alone") || len(v.Why) != 0 {
			t.Errorf("simulate-noobaa: %+v, %v", v, err)
		}
		c.settings.Mode, c.judge.o.Fences = ModeNooBaa, noDeviceAtAll{}
		if v, err := c.judge.Simulate("n3", ModeSafe); err != nil || !v.Act ||
			!strings.Contains(v.Would, "mode noobaa does not read") {
			t.Errorf("simulate-safe-in-noobaa: %+v, %v", v, err)
		}
	})
}

func TestBeforeTheListIsRead(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, random *rand.Rand) {
		c := newCourt(t, 5, random)
		c.told(3)
		c.lead()
		if c.judge.Verdicts() != nil {
			t.Error("it has not looked yet")
		}
		if v := c.look("n1"); v.Suspect || !strings.HasPrefix(v.Why[0], "the API server of prod has not answered yet") {
			t.Errorf("before the API server answered: %+v", v)
		}
		c.answers()
		if v := c.look("n1"); v.Suspect || v.Why[0] != notSynced || v.Node.UID != "uid-1" {
			t.Errorf("before the list is read: %+v", v)
		}
		if n := len(c.judge.Verdicts()); n != 3 {
			t.Errorf("%d verdicts, want the 3 that the log knows", n)
		}
	})
}
