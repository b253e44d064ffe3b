package failover

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/kubestate"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// The model of a cluster that is judged: kubelets renew every 10 s, Kubernetes
// gives a node up after 50 s.
const (
	courtCluster = "prod"
	renewPeriod  = 10 * time.Second
	graceOfKube  = 50 * time.Second
)

// court is a log, three peers and a model cluster, inside a bubble.
type court struct {
	t        *testing.T
	settings Settings
	log      *courtLog
	kube     *modelKube
	tracker  *Tracker
	judge    *Judge
	peers    []*courtPeer
	work     sync.WaitGroup
	stop     context.CancelFunc
}

// courtPeer votes in its own session and may be cut off from kubelets.
type courtPeer struct {
	name    string
	session fencing.Token
	log     *courtLog
	kube    *modelKube
	prober  *Prober
	down    bool // it renews no session
	mu      sync.Mutex
	cut     map[string]bool // by target
	votes   int             // commands
}

// newCourt founds a log with three peers and their sessions. Nothing runs yet.
func newCourt(t *testing.T, nodes int, random *rand.Rand) *court {
	t.Helper()
	settings := defaultSettings()
	settings.Mode = ModeSafe
	c := &court{t: t, settings: settings, log: newCourtLog(t), kube: newModelKube(nodes, random)}
	for _, name := range []string{"a", "b", "c"} {
		if name != "a" {
			c.log.must(membership.PutMember{Member: courtMember(name)})
		}
		p := &courtPeer{name: name, log: c.log, kube: c.kube, cut: make(map[string]bool)}
		p.open()
		p.prober = NewProber(ProberOptions{
			Log: c.log, Voter: p, KubeletProber: p, Probe: settings.Probe, Wall: time.Now, Logger: slog.New(slog.DiscardHandler),
		})
		c.peers = append(c.peers, p)
	}
	c.log.must(fsm.Lead{Peer: "a", Boot: "boot", Version: fsm.Version})
	c.lead()
	return c
}

// lead begins a leadership: nothing is remembered but what the log has.
func (c *court) lead() {
	c.tracker = NewTracker()
	peers, v := newPeerHosts(peersElsewhere{}, "a"), c.log.state.View()
	peers.find(c.t.Context(), v)
	c.judge = NewJudge(JudgeOptions{Cluster: courtCluster, Peer: "a", Tracker: c.tracker, Log: c.log, Fences: oneDevice{},
		Settings: func() Settings { return c.settings }, peers: peers})
}

// run starts the model, the probers and the leader's rounds. What each round finds
// goes to see.
func (c *court) run(see func([]Verdict)) {
	ctx, cancel := context.WithCancel(c.t.Context())
	c.stop = cancel
	c.work.Go(func() { c.kube.run(ctx) })
	c.work.Go(func() { c.renew(ctx) })
	for _, p := range c.peers {
		c.work.Go(func() { p.prober.Run(ctx) })
	}
	c.work.Go(func() {
		if err := c.tracker.Run(ctx, c.kube); err != nil {
			c.t.Errorf("watch: %v", err)
		}
	})
	c.work.Go(func() {
		for rest(ctx, 500*time.Millisecond) {
			v, _ := c.log.Changed()
			if err := (Recorder{Cluster: courtCluster, Wall: time.Now}).Record(ctx, c.log, v, c.tracker.Look()); err != nil {
				c.t.Errorf("record: %v", err)
			}
			all := c.judge.Look()
			if h, ok := c.judge.Storm(); ok {
				c.log.lead(h)
			}
			see(all)
		}
	})
}

// end stops everything that run started.
func (c *court) end() {
	c.stop()
	c.work.Wait()
}

// renew keeps the sessions of the peers that are up.
func (c *court) renew(ctx context.Context) {
	for rest(ctx, time.Second) {
		for _, p := range c.peers {
			if !p.isDown() {
				c.log.do(fsm.Header{}, membership.RenewSession{Session: p.ID()})
			}
		}
	}
}

// told is who the manual tests tell the tracker and the log about: n nodes that
// are Ready and recorded, with an API server that answers.
func (c *court) told(n int) {
	c.t.Helper()
	c.answers()
	for i := range n {
		node := modelNodeNamed(i)
		c.tracker.Node(node)
		c.tracker.Renewed(node.Name, Renewal{At: "first"})
		c.log.lead(kubestate.PutNodes{Cluster: courtCluster, Nodes: []kubestate.Node{recordOf(courtCluster, node)}})
	}
	c.tracker.allTold()
}

// answers lets the API server answer once, now.
func (c *court) answers() { c.tracker.answered(time.Now(), time.Now(), nil) }

// pass lets d go by, with an API server that answers every second, sessions that
// live and a look twice a second; each of which goes to see. It runs
// in a bubble.
func (c *court) pass(d time.Duration, see func([]Verdict)) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(500 * time.Millisecond)
		c.answers()
		for _, p := range c.peers {
			if !p.isDown() {
				c.log.do(fsm.Header{}, membership.RenewSession{Session: p.ID()})
			}
		}
		all := c.judge.Look()
		if see != nil {
			see(all)
		}
	}
}

// look is one look at one kube node.
func (c *court) look(node string) Verdict {
	c.t.Helper()
	for _, v := range c.judge.Look() {
		if v.Node.Name == node {
			return v
		}
	}
	c.t.Fatalf("no verdict on %s", node)
	return Verdict{}
}

// open opens a session in the place of the one before.
func (p *courtPeer) open() {
	id := p.log.must(membership.OpenSession{Peer: p.name, Boot: fmt.Sprint(time.Now().UnixNano()),
		Version: fsm.Version}).Token
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session = id
}

func (p *courtPeer) isDown() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.down
}

func (p *courtPeer) sever(cut bool, targets ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range targets {
		p.cut[t] = cut
	}
}

// says casts a vote by hand.
func (p *courtPeer) says(uid string, silent bool) {
	p.log.must(kubestate.VoteNodes{Session: p.ID(), Cluster: courtCluster,
		Votes: []kubestate.Vote{{UID: uid, Silent: silent}}})
}

// ID implements Voter.
func (p *courtPeer) ID() fencing.Token {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.session
}

// Do implements Voter.
func (p *courtPeer) Do(_ context.Context, _ string, c fsm.Command) (fsm.Result, error) {
	p.mu.Lock()
	p.votes++
	p.mu.Unlock()
	return p.log.do(fsm.Header{}, c), nil
}

// Knock implements KubeletProber.
func (p *courtPeer) Knock(ctx context.Context, target string) Heard {
	p.mu.Lock()
	cut := p.cut[target]
	p.mu.Unlock()
	if cut || !p.kube.answersIn(ctx, target) {
		<-ctx.Done()
		return HeardNothing
	}
	return HeardAlive
}

// courtLog is a real state, whose entries are committed at once.
type courtLog struct {
	t       *testing.T
	began   time.Time
	mu      sync.Mutex
	state   *fsm.State
	index   uint64
	entries int // of duties and votes
	changed chan struct{}
}

func courtMember(name string) membership.Member {
	return membership.Member{ID: name, Name: "host-" + name, Address: name + ".example:7350", Version: fsm.Version,
		Binary: "v0"}
}

func newCourtLog(t *testing.T) *courtLog {
	t.Helper()
	state, err := fsm.Founded(fsm.Found{
		ClusterID: "6f2f1c9e-3f6b-4a52-9f0e-0a4c5d3b2a10",
		CACert:    []byte("-----BEGIN CERTIFICATE-----\ncert\n"), CAKey: []byte("-----BEGIN PRIVATE KEY-----\nkey\n"),
		GossipKey: bytes.Repeat([]byte{0xA5}, 32), Member: courtMember("a"),
		Join: membership.AddJoinToken{ID: "first", Hash: [32]byte{1}, TTL: time.Hour},
	}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return &courtLog{t: t, began: time.Now(), state: state, index: 1, changed: make(chan struct{})}
}

// Changed implements Log.
func (l *courtLog) Changed() (fsm.View, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.View(), l.changed
}

// Propose implements Proposer.
func (l *courtLog) Propose(_ context.Context, c fsm.Command) (fsm.Result, error) {
	v, _ := l.Changed()
	return l.do(fsm.Header{Token: v.Leadership().Token}, c), nil
}

func (l *courtLog) do(h fsm.Header, c fsm.Command) fsm.Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	h.Time, h.WallMillis = fsm.Time(time.Since(l.began)), time.Now().UnixMilli()
	data, err := fsm.Encode(h, c)
	if err != nil {
		l.t.Errorf("encode %v: %v", fsm.KindOf(c), err)
		return fsm.Result{Code: fsm.Invalid, Message: err.Error()}
	}
	l.index++
	if fsm.KindOf(c) != fsm.KindOf(membership.RenewSession{}) {
		l.entries++
	}
	res := l.state.Apply(fsm.Entry{Index: l.index, Term: 2, Data: data})
	close(l.changed)
	l.changed = make(chan struct{})
	return res
}

func (l *courtLog) must(c fsm.Command) fsm.Result {
	l.t.Helper()
	return l.mustIn(fsm.Header{}, c)
}

// lead commits a duty's command.
func (l *courtLog) lead(c fsm.Command) fsm.Result {
	l.t.Helper()
	v, _ := l.Changed()
	return l.mustIn(fsm.Header{Token: v.Leadership().Token}, c)
}

func (l *courtLog) mustIn(h fsm.Header, c fsm.Command) fsm.Result {
	l.t.Helper()
	res := l.do(h, c)
	if err := res.Err(); err != nil {
		l.t.Fatalf("%v: %v", fsm.KindOf(c), err)
	}
	return res
}

func (l *courtLog) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.entries
}

// oneDevice can switch off everything.
type oneDevice struct{}

func (oneDevice) For(Machine) []Device { return []Device{namedDevice("bmc")} }

// noDeviceAtAll is what mode noobaa has.
type noDeviceAtAll struct{}

func (noDeviceAtAll) For(Machine) []Device { return nil }

type namedDevice string

func (d namedDevice) Name() string                                { return string(d) }
func (namedDevice) Power(context.Context, Machine) (Power, error) { return PowerUnknown, nil }
func (namedDevice) Off(context.Context, Machine) error            { return nil }
func (namedDevice) On(context.Context, Machine) error             { return nil }

// rest waits, in a bubble, and reports whether ctx still runs.
func rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// inBubble runs a test in a bubble with a source of randomness of its own.
func inBubble(t *testing.T, seed uint64, f func(t *testing.T, random *rand.Rand)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, rand.New(rand.NewPCG(seed, 9))) })
}
