//go:build e2e

package labtest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/kubelab"
	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

const (
	// mixedRuns is how many runs of mixed bad days there are, unless mixedEnv says
	// otherwise as "first+runs": the seed of the first, and how many.
	mixedRuns = 30
	mixedEnv  = "TRIVET_E2E_MIXED"
	// mixedLast is how long one of them is bad.
	mixedLast = 45 * time.Second
	// starvedFor is how long healthy kube nodes are starved.
	starvedFor = 30 * time.Minute
)

// kubePatient are the settings that are shipped.
const kubePatient = `failover:
  mode: safe
  kubeconfigs: [lab=KUBECONFIG]
  fence_file: FENCE
`

// TestKubeMixed mixes bad days at random, many times: whatever comes together, no
// two machines run the same, and in the end all is well.
func TestKubeMixed(t *testing.T) {
	if !longDays() {
		t.Skip("it takes an hour: TRIVET_E2E_LONG=1")
	}
	first, runs := 1, mixedRuns
	if text := os.Getenv(mixedEnv); text != "" {
		if _, err := fmt.Sscanf(text, "%d+%d", &first, &runs); err != nil {
			t.Fatalf("%s=%s: %v", mixedEnv, text, err)
		}
	}
	audit, flags := kubelab.NewAudit(t)
	k := kubelab.Start(t, append(kubeBusy(), flags...)...)
	trusted := k.Trusted()
	k.StatefulSet("db", 3)
	k.Deployment("web", 4)
	s := newKubeSite(t, k, audit, trusted, kubeSafe, "")
	scenarios := 0
	for seed := first; seed < first+runs; seed++ {
		s.day(t, "seed "+strconv.Itoa(seed), func() {
			m := &mixer{kubeSite: s, rand: rand.New(rand.NewPCG(uint64(seed), 9)), scenarios: &scenarios}
			before := len(s.remediations())
			m.mix()
			m.heal()
			for _, r := range s.remediations()[:len(s.remediations())-before] {
				s.t.Logf("%s: %s", r.Node, steps(r))
			}
		})
		if t.Failed() {
			return
		}
	}
	testenv.Count(t, "kube.scenarios", float64(scenarios))
}

// mixer does harm at random.
type mixer struct {
	*kubeSite
	rand      *rand.Rand
	down      *Peer // killed or paused; one at a time
	api       string
	scenarios *int // how often a kube node lost its power, froze, was cut off or looked dead
}

// mix does something every few seconds.
func (m *mixer) mix() {
	testwait.Every(m.t, time.Second, mixedLast, func() {
		m.revive()
		if m.rand.IntN(3) == 0 {
			m.harm()
		}
	})
}

// revive starts a peer again that ended by itself because it led and the log took no writes.
func (m *mixer) revive() {
	m.t.Helper()
	for _, p := range m.Peers {
		if p != m.down && !p.running() && !p.startAgain() {
			m.t.Fatalf("peer %s ended with exit code %d", p.Name, p.proc.Code)
		}
	}
}

// harm does one thing. What it undoes of the same kind it has done before.
func (m *mixer) harm() {
	m.t.Helper()
	if m.api != "" && m.rand.IntN(2) == 0 {
		m.mendKube() // while it is silent nothing goes wrong
	}
	switch m.rand.IntN(8) {
	case 0, 1, 2:
		node := fmt.Sprintf("node-%d", 1+m.rand.IntN(5))
		to := []kubelab.Power{kubelab.Off, kubelab.Off, kubelab.Freeze, kubelab.Partition, kubelab.NotReady,
			kubelab.On}[m.rand.IntN(6)]
		m.t.Logf("%s: %s", node, to)
		if to != kubelab.On && m.kube.Nodes()[node].State == kubelab.On {
			*m.scenarios++
		}
		m.kube.Power(node, to)
	case 3, 4:
		device := kubelab.Devices[m.rand.IntN(len(kubelab.Devices))]
		mood := []kubelab.Mood{kubelab.Obeys, kubelab.Obeys, kubelab.Hangs, kubelab.Lacks}[m.rand.IntN(4)]
		m.t.Logf("device %s: %q", device, mood)
		m.fence.Behave(device, mood)
	case 5, 6:
		m.hurtPeer()
	default:
		m.hurtKube()
	}
}

// hurtPeer kills or pauses the leader or, mostly, whoever comes first, or brings
// back who was hurt.
func (m *mixer) hurtPeer() {
	m.t.Helper()
	if m.down != nil {
		m.mendPeer()
		return
	}
	m.down = m.Peers[m.rand.IntN(len(m.Peers))]
	if st, err := m.anyPeer().Status(); err == nil && m.rand.IntN(2) == 0 {
		for _, p := range m.Peers {
			if p.Name == st.Leader {
				m.down = p
			}
		}
	}
	if m.rand.IntN(2) == 0 {
		m.t.Logf("peer %s is killed", m.down.Name)
		m.down.Kill9()
		return
	}
	m.t.Logf("peer %s is paused", m.down.Name)
	m.down.Pause()
}

func (m *mixer) mendPeer() {
	m.t.Helper()
	if m.down == nil {
		return
	}
	m.t.Logf("peer %s is back", m.down.Name)
	if m.down.running() {
		m.down.Cont()
	} else {
		m.down.Start()
	}
	m.down = nil
}

// hurtKube has the API server or etcd stand still, or go on.
func (m *mixer) hurtKube() {
	m.t.Helper()
	if m.api != "" {
		m.mendKube()
		return
	}
	m.api = []string{"kube-apiserver", "etcd"}[m.rand.IntN(2)]
	m.t.Logf("%s stands still", m.api)
	m.kube.Component(m.api, "pause")
}

func (m *mixer) mendKube() {
	m.t.Helper()
	if m.api == "" {
		return
	}
	m.t.Logf("%s goes on", m.api)
	m.kube.Component(m.api, "resume")
	m.api = ""
}

// heal makes everything well, and waits until it is. What stays stuck an operator
// releases, and what is switched off once more is switched on again.
func (m *mixer) heal() {
	m.t.Helper()
	m.t.Log("all is made well")
	m.mendKube()
	m.mendPeer()
	m.revive()
	for _, device := range kubelab.Devices {
		m.fence.Behave(device, kubelab.Obeys)
	}
	m.WaitVoters(3)
	m.Eventually(5*time.Minute, "nothing is open", func() error {
		for name, machine := range m.kube.Nodes() {
			if machine.State != kubelab.On && !m.fencing(name) {
				m.kube.Power(name, kubelab.On)
			}
		}
		for _, r := range m.remediations() {
			if r.State == "stuck" && strings.HasPrefix(r.Reason, "contradiction: it was off") {
				m.t.Errorf("%s: %s", r.Node, r.Reason)
			}
			if r.Open {
				return fmt.Errorf("%s is %s: %s", r.Node, r.State, r.Reason)
			}
		}
		return nil
	})
}

// fencing reports whether the power of a kube node is being taken: who switches it
// on meanwhile only prolongs that.
func (m *mixer) fencing(node string) bool {
	for _, r := range m.remediations() {
		if r.Node == node && r.Open {
			return r.State != "detached" && r.State != "stuck"
		}
	}
	return false
}

// TestKubeStarved keeps every processor busy with other things for half an hour: the
// kube nodes are healthy, if late, and nothing is done to them with the settings
// that are shipped.
func TestKubeStarved(t *testing.T) {
	if !longDays() {
		t.Skip("it takes half an hour: TRIVET_E2E_LONG=1")
	}
	audit, flags := kubelab.NewAudit(t)
	k := kubelab.Start(t, append([]string{"--nodes=5"}, flags...)...)
	s := newKubeSite(t, k, audit, k.Trusted(), kubePatient, "")
	k.StatefulSet("db", 3)
	s.Eventually(3*time.Minute, "all are looked after", func() error {
		for _, n := range s.list().Nodes {
			if n.Ready != "True" || 2*n.Answers <= n.Voters {
				return fmt.Errorf("%+v", n)
			}
		}
		return nil
	})
	for range 4 * runtime.NumCPU() {
		program.Run(t, exec.Command("sh", "-c", "while :; do :; done"), syscall.SIGKILL)
	}
	oldest := int64(0)
	testwait.Every(t, time.Second, starvedFor, func() {
		for _, n := range s.list().Nodes {
			oldest = max(oldest, n.LeaseAgeMS)
		}
		if all := s.remediations(); len(all) > 0 {
			t.Fatalf("begun was %+v", all)
		}
		if calls := s.fence.Calls(t); len(calls) > 0 {
			t.Fatalf("a device was told %+v", calls)
		}
	})
	t.Logf("the oldest Lease that was seen was %v old", time.Duration(oldest)*time.Millisecond)
	s.verdict()
}
