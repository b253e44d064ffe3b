package failover

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/kubestate"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/internal/pace"
)

// modelPeers are the peers that vote.
const modelPeers = 3

// ledger is a replicated log without raft: what is committed is applied at once.
type ledger struct {
	t     testing.TB
	began time.Time

	mu       sync.Mutex
	state    *fsm.State
	index    uint64
	changed  chan struct{}
	sessions [modelPeers]fencing.Token
	check    func(before, after fsm.View, c fsm.Command) // what is told of every entry
}

func newLedger(t testing.TB) *ledger {
	state, err := fsm.Founded(fsm.Found{
		ClusterID: "5f0c1f3e-0000-4000-8000-000000000001",
		CACert:    []byte("-----BEGIN X-----"), CAKey: []byte("-----BEGIN X-----"), GossipKey: make([]byte, 32),
		Member: membership.Member{ID: "id-h1", Name: "h1", Address: "h1:7350", Version: fsm.Version},
	}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	l := &ledger{t: t, began: time.Now(), state: state, index: 1, changed: make(chan struct{})}
	for i := range modelPeers {
		name := fmt.Sprintf("h%d", i+1)
		l.must(membership.PutMember{
			Member: membership.Member{ID: "id-" + name, Name: name, Address: name + ":7350", Version: fsm.Version}})
		l.sessions[i] = l.must(membership.OpenSession{Peer: "id-" + name, Boot: "boot-" + name, Version: fsm.Version}).Token
	}
	return l
}

// Changed implements Log.
func (l *ledger) Changed() (fsm.View, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.View(), l.changed
}

func (l *ledger) view() fsm.View {
	v, _ := l.Changed()
	return v
}

// do commits a command.
func (l *ledger) do(h fsm.Header, c fsm.Command) fsm.Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	h.Time, h.WallMillis = fsm.Time(time.Since(l.began)), time.Now().UnixMilli()
	data, err := fsm.Encode(h, c)
	if err != nil {
		l.t.Errorf("encode %v: %v", fsm.KindOf(c), err)
		return fsm.Result{Code: fsm.Invalid, Message: err.Error()}
	}
	before := l.state.View()
	l.index++
	res := l.state.Apply(fsm.Entry{Index: l.index, Term: 1, Data: data})
	if res.Code == fsm.OK && l.check != nil {
		l.check(before, l.state.View(), c)
	}
	close(l.changed)
	l.changed = make(chan struct{})
	return res
}

func (l *ledger) must(c fsm.Command) fsm.Result {
	l.t.Helper()
	res := l.do(fsm.Header{}, c)
	if res.Code != fsm.OK {
		l.t.Fatalf("%T: %v", c, res.Err())
	}
	return res
}

// live lets the peers renew their sessions and vote on what they hear: an answer
// counts at once, silence after three questions.
func (l *ledger) live(ctx context.Context, w *world) {
	silent := make(map[string]time.Time) // by UID
	said := make(map[string]bool)        // by UID: silent
	for tick := 0; pace.Wait(ctx, time.Second); tick++ {
		if tick%4 == 0 {
			for _, s := range l.sessions {
				l.do(fsm.Header{}, membership.RenewSession{Session: s})
			}
		}
		for _, k := range l.view().KubeNodes("k") {
			hears, deaf := false, 0
			w.with(func() { hears, deaf = w.answering(k.Name).heard() == HeardAlive, w.trouble.deaf })
			if _, known := silent[k.UID]; hears {
				delete(silent, k.UID)
			} else if !known {
				silent[k.UID] = time.Now()
			}
			now := !hears && time.Since(silent[k.UID]) >= 8*time.Second
			if was, known := said[k.UID]; known && was == now || !hears && !now {
				continue
			}
			said[k.UID] = now
			for i, s := range l.sessions {
				l.do(fsm.Header{Session: s},
					kubestate.VoteNodes{Session: s, Cluster: "k", Votes: []kubestate.Vote{{UID: k.UID, Silent: now || i < deaf}}})
			}
		}
	}
}

// remediations returns all there ever were of a kube node, the oldest first.
func (w *world) remediations(node string) (all []kubestate.Remediation) {
	for _, m := range w.ledger.view().RemediationHistory(0) {
		if m.Node == node {
			all = append([]kubestate.Remediation{m}, all...)
		}
	}
	return all
}

// state is that of the newest remediation of a node, 0 if there was none.
func (w *world) state(node string) kubestate.State {
	all := w.remediations(node)
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1].State
}

// path is what the newest remediation of a node went through, in words.
func (w *world) path(node string) string {
	all := w.remediations(node)
	if len(all) == 0 {
		return ""
	}
	var words []string
	for _, s := range all[len(all)-1].Steps {
		words = append(words, s.State.String())
	}
	return strings.Join(words, " ")
}

// story tells everything that happened.
func (w *world) story() string {
	var s strings.Builder
	for _, m := range w.ledger.view().RemediationHistory(0) {
		fmt.Fprintf(&s, "remediation %v of %s %s:\n", m.Intent, m.Node, m.BootID)
		for _, step := range m.Steps {
			fmt.Fprintf(&s, "  %v %v %s %s: %s\n", step.At, step.State, step.Peer, step.Device, step.Reason)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range w.audit {
		fmt.Fprintf(&s, "%v token %d: %s %s %s\n", d.at.Sub(w.ledger.began), d.token, d.verb, d.what, d.uid)
	}
	for _, p := range w.machines() {
		n := w.nodes[p.name]
		fmt.Fprintf(&s, "machine %s: on %v boots %d runs %v", p.name, p.on, p.boots, p.runs)
		if n != nil {
			fmt.Fprintf(&s, "; Node %s %s Ready %v taints %v", n.UID, n.BootID, n.Ready, n.Taints)
		}
		s.WriteString("\n")
	}
	return s.String()
}

// reopen founds the log again with a remediation of a kube node that is open and has
// come as far as a state.
func (l *ledger) reopen(n Node, state kubestate.State) {
	lead := l.must(fsm.Lead{Peer: "id-h1", Boot: "boot-of-the-backup"}).Token
	do := func(c fsm.Command) fsm.Result {
		res := l.do(fsm.Header{Token: lead}, c)
		if res.Code != fsm.OK {
			l.t.Fatalf("%T: %v", c, res.Err())
		}
		return res
	}
	do(kubestate.PutNodes{Cluster: "k", Nodes: []kubestate.Node{recordOf("k", n)}})
	intent := do(kubestate.BeginRemediation{Cluster: "k", Node: n.Name, UID: n.UID, BootID: n.BootID,
		Reason: "it was dead then"}).Token
	path := []kubestate.State{kubestate.RemIntent, kubestate.RemCordoned, kubestate.RemFencing, kubestate.RemOff,
		kubestate.RemTainted, kubestate.RemDeleted, kubestate.RemDetached}
	if state == kubestate.RemStuck {
		path = []kubestate.State{kubestate.RemIntent, kubestate.RemStuck}
	}
	for i := 1; path[i-1] != state; i++ {
		step := kubestate.StepRemediation{Intent: intent, From: path[i-1], To: path[i]}
		if step.To == kubestate.RemFencing {
			step.Device = "bmc"
		}
		do(step)
	}
	l.mu.Lock()
	err := l.state.Refound(fsm.Refound{Index: l.index, UnixMillis: time.Now().UnixMilli(), NewIncarnation: true})
	l.mu.Unlock()
	if err != nil {
		l.t.Fatal(err)
	}
	for i := range l.sessions {
		name := fmt.Sprintf("id-h%d", i+1)
		l.sessions[i] = l.must(membership.OpenSession{Peer: name, Boot: "after-" + name, Version: fsm.Version}).Token
	}
}

// until waits for something to become true.
func (w *world) until(what string, limit time.Duration, is func() bool) {
	w.t.Helper()
	for end := time.Now().Add(limit); !is(); w.pass(modelTick) {
		if time.Now().After(end) { // in a bubble
			w.t.Fatalf("after %v it is still not so that %s\n%s", limit, what, w.story())
		}
	}
}

// answering is the machine that answers where a Node tells that its kubelet serves. The caller holds the world.
func (w *world) answering(node string) *pc {
	if n := w.nodes[node]; n != nil {
		for _, p := range w.pcs { // order-free: names differ
			if p.name+":10250" == n.Kubelet {
				return p
			}
		}
	}
	return w.pcs[node]
}
