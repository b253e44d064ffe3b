package failover

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// modelKube is a cluster whose kubelets renew their Leases and answer when they
// are asked. It is a Watcher.
type modelKube struct {
	mu      sync.Mutex
	random  *rand.Rand
	nodes   []*modelNode
	seen    Seen
	stalled chan struct{} // closed when the API server goes on; nil while it does
	late    func(*rand.Rand) time.Duration
	slow    func(*rand.Rand) time.Duration
}

type modelNode struct {
	Node
	dead     bool
	renewals int
	renewed  time.Time
}

func modelNodeNamed(i int) Node {
	return Node{
		Name: fmt.Sprintf("n%d", i), UID: fmt.Sprintf("uid-%d", i), BootID: fmt.Sprintf("boot-%d", i),
		Ready: kubestate.ReadyTrue, Kubelet: fmt.Sprintf("10.0.0.%d:10250", i+1),
		Addresses: []string{fmt.Sprintf("10.0.0.%d", i+1)},
	}
}

func newModelKube(n int, random *rand.Rand) *modelKube {
	m := &modelKube{random: random}
	none := func(*rand.Rand) time.Duration { return 0 }
	m.late, m.slow = none, none
	for i := range n {
		m.nodes = append(m.nodes, &modelNode{Node: modelNodeNamed(i), renewed: time.Now()})
	}
	return m
}

// run lets kubelets renew, each at a phase of its own, and Kubernetes judge.
func (m *modelKube) run(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	for _, n := range m.nodes {
		work.Go(func() {
			for wait := m.draw(func(r *rand.Rand) time.Duration {
				return time.Duration(r.Int64N(int64(renewPeriod)))
			}); rest(ctx, wait); {
				m.renew(ctx, n)
				wait = renewPeriod + m.draw(m.late)
			}
		})
	}
	for rest(ctx, 5*time.Second) {
		m.giveUp()
	}
}

// draw takes from the source of randomness, which is no more than one's at a time.
func (m *modelKube) draw(f func(*rand.Rand) time.Duration) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return f(m.random)
}

// renew writes a Lease, as soon as the API server takes it.
func (m *modelKube) renew(ctx context.Context, n *modelNode) {
	if !m.serving(ctx) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if n.dead {
		return
	}
	n.renewals++
	n.renewed = time.Now()
	if m.seen != nil {
		m.seen.Renewed(n.Name, Renewal{At: fmt.Sprint(n.renewals)})
	}
}

// giveUp is Kubernetes' own judgement.
func (m *modelKube) giveUp() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stalled != nil {
		return
	}
	for _, n := range m.nodes {
		ready := kubestate.ReadyTrue
		if time.Since(n.renewed) > graceOfKube {
			ready = kubestate.ReadyUnknown
		}
		if n.Ready != ready && m.seen != nil {
			n.Ready = ready
			m.seen.Node(n.Node)
		}
	}
}

// serving waits for the API server.
func (m *modelKube) serving(ctx context.Context) bool {
	m.mu.Lock()
	stalled := m.stalled
	m.mu.Unlock()
	if stalled == nil {
		return true
	}
	select {
	case <-stalled:
		return true
	case <-ctx.Done():
		return false
	}
}

// stall stops the API server for d.
func (m *modelKube) stall(d time.Duration) {
	m.mu.Lock()
	m.stalled = make(chan struct{})
	m.mu.Unlock()
	time.Sleep(d)
	m.mu.Lock()
	close(m.stalled)
	m.stalled = nil
	m.mu.Unlock()
}

// powerOff takes the power from nodes.
func (m *modelKube) powerOff(nodes ...int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, i := range nodes {
		m.nodes[i].dead = true
	}
}

func (m *modelKube) renewalsOf(node int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.nodes[node].renewals
}

// answersIn reports whether a kubelet answers before ctx ends.
func (m *modelKube) answersIn(ctx context.Context, target string) bool {
	m.mu.Lock()
	alive := false
	for _, n := range m.nodes {
		alive = alive || n.Kubelet == target && !n.dead
	}
	wait := m.slow(m.random)
	m.mu.Unlock()
	return alive && rest(ctx, wait)
}

// Watch implements Watcher.
func (m *modelKube) Watch(ctx context.Context, seen Seen, synced func()) error {
	m.mu.Lock()
	m.seen = seen
	for _, n := range m.nodes {
		seen.Node(n.Node)
		seen.Renewed(n.Name, Renewal{At: fmt.Sprint(n.renewals)})
	}
	m.mu.Unlock()
	synced()
	<-ctx.Done()
	return nil
}

// Answers implements Watcher.
func (m *modelKube) Answers(ctx context.Context) error {
	if m.serving(ctx) {
		return nil
	}
	return ctx.Err()
}
