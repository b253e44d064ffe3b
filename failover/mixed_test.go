package failover

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// mixedRuns is how many worlds of mixed bad days are lived through, and whether
// every boundary is crossed in every way: a few hundred in make sim, fewer
// otherwise.
func mixedRuns(t *testing.T) (n int, all bool) {
	text := os.Getenv("TRIVET_SIM_FAILOVER")
	if text == "" {
		return 12, false
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("TRIVET_SIM_FAILOVER: %v", err)
	}
	return n, true
}

// Whatever comes together, nothing runs twice and nothing that runs is deleted.
func TestMixedBadDays(t *testing.T) {
	runs, _ := mixedRuns(t)
	for seed := range runs {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			inWorld(t, 3+seed%3, uint64(seed), func(w *world) {
				w.watchRules()
				m := &mixer{w: w, random: rand.New(rand.NewPCG(uint64(seed), 9))}
				m.lead()
				w.pass(30 * time.Second)
				for range 6 {
					m.trouble()
					w.pass(time.Duration(m.random.IntN(60_000)) * time.Millisecond)
				}
				m.mend()
				w.recovers()
				m.leave()
				for _, wrong := range w.onceInEffect() {
					t.Errorf("%s\n%s", wrong, w.story())
				}
				t.Logf("%d remediations, %d pods deleted", len(w.ledger.view().RemediationHistory(0)), w.count("delete", ""))
				if t.Failed() {
					t.Log(w.story())
				}
			})
		})
	}
}

// mixer makes trouble. Of the same seed it makes the same.
type mixer struct {
	w      *world
	random *rand.Rand
	hands  []*hand // the last one leads
}

// eager are settings that let more be done than is wise, for more to happen.
func eager() Settings {
	s := safe()
	s.Guard.MinHealthy, s.Guard.StormCooldown = percent(20), 20*time.Second
	s.Guard.NodeRate, s.Guard.HealthyDelay = 100, 15*time.Second
	s.Detection.NotReadyAfter = 40 * time.Second
	return s
}

// lead elects the next leader. Some will be killed or stopped in the middle of
// something.
func (m *mixer) lead() {
	at := 0
	if m.random.IntN(2) == 0 {
		at = 1 + m.random.IntN(60)
	}
	how := stop(m.random.IntN(4))
	if last := len(m.hands) - 1; last >= 0 && !m.hands[last].stopped() {
		m.hands[last].end() // it steps down, and may still finish a deed
	}
	m.hands = append(m.hands, m.w.lead(fmt.Sprintf("h%d", 1+len(m.hands)%modelPeers), eager(), at, how))
}

func (m *mixer) leave() {
	for _, h := range m.hands {
		if h.stopped() {
			h.thaw()
		}
		h.leave()
	}
}

func (m *mixer) node() *pc { return m.w.pcs[fmt.Sprintf("n%d", 1+m.random.IntN(len(m.w.pcs)))] }

// trouble is one bad thing, or the end of one.
func (m *mixer) trouble() {
	p := m.node()
	faults := []string{"", "", deviceHangs, deviceCannot, bothCannot, deviceLate, deviceBlinks, deviceLies}
	fault := faults[m.random.IntN(len(faults))]
	switch m.random.IntN(12) {
	case 0, 1, 2:
		m.w.with(func() { p.powerOff() })
	case 3, 4:
		m.w.with(func() { p.cut = true })
	case 5:
		m.w.with(func() { p.cut = false })
	case 6:
		m.w.with(func() { p.fault = fault })
	case 7:
		m.w.with(func() {
			p.powerOn()
			if m.random.IntN(2) == 0 {
				p.up = time.Now()
			}
		})
	case 8:
		m.lead()
	case 9:
		for _, h := range m.hands {
			if h.stopped() && h != m.hands[len(m.hands)-1] {
				h.thaw()
				h.end()
			}
		}
	case 10:
		m.w.with(func() { m.w.trouble.silent = true })
		m.w.pass(time.Duration(m.random.IntN(40_000)) * time.Millisecond)
		m.w.with(func() { m.w.trouble.silent = false })
	case 11:
		m.w.with(func() {
			m.w.trouble.losesTaint, m.w.trouble.failDelete = m.random.IntN(3), m.random.IntN(3)
		})
	}
}

// mend ends all trouble, as people do in the end: what is stuck they look at.
func (m *mixer) mend() {
	m.lead()
	m.w.with(func() {
		m.w.trouble.operator = true
		for _, p := range m.w.machines() {
			p.fault, p.cut = "", false
		}
	})
	m.w.pass(2 * time.Minute)
	for _, r := range m.w.ledger.view().Remediations() {
		if r.State == kubestate.RemStuck {
			m.w.ledger.must(kubestate.ReleaseRemediation{Intent: r.Intent, To: kubestate.RemFencing, By: "me"})
		}
	}
	m.hands[len(m.hands)-1].steady()
	if m.hands[len(m.hands)-1].stopped() || m.hands[len(m.hands)-1].killed() {
		m.lead()
		m.hands[len(m.hands)-1].steady()
	}
	m.w.with(func() {
		for _, p := range m.w.machines() {
			if n := m.w.nodes[p.name]; !p.on && n != nil {
				if _, open := m.w.ledger.view().OpenRemediation("k", n.UID); !open {
					p.powerOn()
				}
			}
		}
	})
}

// steady keeps a leader from meeting its fate from now on.
func (h *hand) steady() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at = 0
}

func (h *hand) killed() bool {
	select {
	case <-h.met:
		return true
	default:
		return false
	}
}
