package failover

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/kubestate"
	"github.com/trivet-ha/trivet/internal/pace"
)

// Bounds of what a peer does to have an opinion.
const (
	// maxKnocks is how many kubelets are asked at the same time.
	maxKnocks = 64
	// maxSilentKnocks is how many of them may be known to be silent: each holds its place
	// for the whole time-out, and the dead of one cluster must not have the living of
	// another wait.
	maxSilentKnocks = maxKnocks / 2
	// rounds is how many groups the kubelets are cut into that are asked at the same
	// moment: to wake up costs more than to ask (measured: 0.45 ms of a processor for a
	// kubelet that is asked alone, 0.08 ms in a group of ten).
	rounds = 10
	// lookEvery is how often the state is compared with what this peer thinks, when
	// there is no news.
	lookEvery = time.Second
	// gather is how long news are gathered: what changes together, as at the
	// start, becomes one entry and one comparison.
	gather = 100 * time.Millisecond
	// voteLimit bounds one attempt to vote. What did not get through is told
	// again: it is compared with the log, not remembered.
	voteLimit = 5 * time.Second
)

// ProberOptions are the parts of a Prober.
type ProberOptions struct {
	Log           Log
	Voter         Voter
	KubeletProber KubeletProber
	Probe         Probe
	Wall          func() time.Time // for display
	Logger        *slog.Logger
}

// Prober asks every kubelet that the state names, on every peer, and tells the log
// when this peer's opinion of one changes. Opinions are compared with the votes of
// the present session, so a new session votes again by itself.
//
// A peer that does not reach most kubelets of a cluster has lost its own network:
// it has no opinion there until it has it back. All methods may be called
// concurrently.
type Prober struct {
	o       ProberOptions
	began   time.Time     // when the first round of all would have been
	slots   chan struct{} // maxKnocks
	silents chan struct{} // maxSilentKnocks
	news    chan struct{} // 1: something other than an answer was heard, or heard again

	mu     sync.Mutex
	probed map[kubelet]*probed
	faults map[string]string // by cluster
}

// kubelet says whom a goroutine asks; another target is another goroutine.
type kubelet struct{ cluster, uid, target string }

// probed is what was heard of one kubelet.
type probed struct {
	stop    context.CancelFunc
	opinion opinion
	misses  int // silent questions in a row
	own     int // questions in a row that could not be asked
}

type opinion uint8

const (
	noOpinion opinion = 0
	answers   opinion = 1
	silent    opinion = 2
)

// NewProber returns a prober that Run starts.
func NewProber(o ProberOptions) *Prober {
	return &Prober{
		o: o, began: time.Now(), slots: make(chan struct{}, maxKnocks), silents: make(chan struct{}, maxSilentKnocks),
		news: make(chan struct{}, 1), probed: make(map[kubelet]*probed), faults: make(map[string]string),
	}
}

// Run asks and votes until ctx ends. Votes are left to end with the session.
func (p *Prober) Run(ctx context.Context) {
	var knocking sync.WaitGroup
	defer knocking.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for pace.Wait(ctx, gather) {
		v, changed := p.o.Log.Changed()
		p.probeNamedKubelets(ctx, &knocking, v)
		p.vote(ctx, v)
		wake := changed
		if v.KubeNodesKnown() > 0 {
			wake = nil // the state changes more often than there is something to compare
		}
		select {
		case <-wake:
		case <-p.news:
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return
		}
	}
}

// Faults says, by cluster, why this peer has no opinion there.
func (p *Prober) Faults() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.faults)
}

// probeNamedKubelets probes the kubelets that the state names, and no others.
func (p *Prober) probeNamedKubelets(ctx context.Context, knocking *sync.WaitGroup, v fsm.View) {
	wanted := make(map[kubelet]bool)
	for _, cluster := range v.KubeClusters() {
		for _, n := range v.KubeNodes(cluster) {
			if n.Probe != "" {
				wanted[kubelet{cluster, n.UID, n.Probe}] = true
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for k, known := range p.probed {
		if !wanted[k] {
			known.stop()
			delete(p.probed, k)
		}
	}
	for k := range wanted {
		if p.probed[k] != nil {
			continue
		}
		one, stop := context.WithCancel(ctx)
		state := &probed{stop: stop}
		p.probed[k] = state
		knocking.Go(func() { p.ask(one, k, state) })
	}
}

// ask asks one kubelet until ctx ends, each time in the round that belongs to it, so
// that they do not all come at once.
func (p *Prober) ask(ctx context.Context, k kubelet, state *probed) {
	next := p.nextRound(k, time.Now())
	for pace.Wait(ctx, time.Until(next)) {
		leave, ok := p.enter(ctx, state)
		if !ok {
			return
		}
		next = p.nextRound(k, time.Now()) // of this question's beginning: it may take an interval
		limited, cancel := context.WithTimeout(ctx, p.o.Probe.Timeout)
		h := p.o.KubeletProber.Knock(limited, k.target)
		cancel()
		leave()
		if ctx.Err() != nil {
			return
		}
		p.hear(state, h)
	}
}

// enter waits for a place to ask a kubelet, and for one of the silent first if it is held for
// silent. It is not ok when ctx has ended.
func (p *Prober) enter(ctx context.Context, state *probed) (leave func(), ok bool) {
	places := []chan struct{}{p.slots}
	p.mu.Lock()
	held := state.opinion
	p.mu.Unlock()
	if held == silent {
		places = []chan struct{}{p.silents, p.slots}
	}
	for i, of := range places {
		select {
		case of <- struct{}{}:
		case <-ctx.Done():
			release(places[:i])
			return nil, false
		}
	}
	return func() { release(places) }, true
}

func release(places []chan struct{}) {
	for _, of := range places {
		<-of
	}
}

// nextRound returns when a kubelet is asked next after now: at the same part of the
// interval every time, whenever it was first known.
func (p *Prober) nextRound(k kubelet, now time.Time) time.Time {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(k.cluster + "/" + k.uid)) // a hash takes everything
	interval := p.o.Probe.Interval
	next := p.began.Add(interval / rounds * time.Duration(hash.Sum32()%rounds))
	if passed := now.Sub(next); passed >= 0 {
		next = next.Add(passed.Truncate(interval) + interval)
	}
	return next
}

func (p *Prober) hear(state *probed, h Heard) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := *state
	switch h {
	case HeardAlive:
		state.misses, state.own, state.opinion = 0, 0, answers
	case HeardNothing, HeardKernel: // a kernel alone does no work
		state.misses, state.own = state.misses+1, 0
		if state.misses >= p.o.Probe.Misses {
			state.opinion = silent
		}
	case HeardOwnFault:
		if state.own++; state.own >= p.o.Probe.Misses {
			state.misses, state.opinion = 0, noOpinion
		}
	}
	if state.opinion != before.opinion || state.missing(p.o.Probe) != before.missing(p.o.Probe) {
		notify(p.news)
	}
}

// missing says whether a kubelet counts for the question whose fault it is. It
// does one question before there is an opinion: when a peer loses its network, it
// has to know before the first of its votes, not after the last.
func (s *probed) missing(o Probe) bool { return s.misses+s.own >= max(1, o.Misses-1) }

// opinions returns what this peer thinks, by cluster and UID, and renews what is
// said of its own faults.
func (p *Prober) opinions() map[string]map[string]opinion {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[string]map[string]opinion)
	missing := make(map[string]int) // by cluster
	for k, state := range p.probed {
		if out[k.cluster] == nil {
			out[k.cluster] = make(map[string]opinion)
		}
		out[k.cluster][k.uid] = state.opinion
		if state.missing(p.o.Probe) {
			missing[k.cluster]++
		}
	}
	clear(p.faults)
	for cluster, all := range out {
		if n := missing[cluster]; n > 1 && 2*n > len(all) { // so many that the fault is here
			p.faults[cluster] = fmt.Sprintf(
				"%d of %d kubelets do not answer this peer: it may have lost its own network, and has no say", n, len(all))
			clear(all)
		}
	}
	return out
}

// vote tells the log what it does not know yet.
func (p *Prober) vote(ctx context.Context, v fsm.View) {
	session := p.o.Voter.ID()
	if session.IsZero() {
		return
	}
	if _, ok := v.Session(session); !ok {
		return // this peer has not applied its beginning yet, or it is over
	}
	thought := p.opinions()
	for _, cluster := range v.KubeClusters() {
		for _, c := range ballots(v, session, cluster, thought[cluster]) {
			c.Millis = p.o.Wall().UnixMilli()
			limited, cancel := context.WithTimeout(ctx, voteLimit)
			res, err := p.o.Voter.Do(limited, "", c)
			cancel()
			if err != nil {
				err = fmt.Errorf("vote: %w", err)
			} else {
				err = res.Err()
			}
			if err != nil {
				if ctx.Err() == nil {
					p.o.Logger.Debug("vote on kube nodes failed", "kube_cluster", cluster, "err", err)
				}
				return
			}
		}
	}
}

// ballots returns the commands that make the votes of a session what its peer
// thinks: changes only.
func ballots(v fsm.View, session fencing.Token, cluster string, thought map[string]opinion) []kubestate.VoteNodes {
	var out []kubestate.VoteNodes
	var c *kubestate.VoteNodes
	room := func() *kubestate.VoteNodes {
		if c == nil || len(c.Votes)+len(c.Withdraw) == kubestate.MaxVotes {
			out = append(out, kubestate.VoteNodes{Session: session, Cluster: cluster})
			c = &out[len(out)-1]
		}
		return c
	}
	told := make(map[string]opinion)
	for _, b := range v.KubeVotesOf(session, cluster) {
		told[b.UID] = answers
		if b.Silent {
			told[b.UID] = silent
		}
	}
	for _, n := range v.KubeNodes(cluster) { // in order: equal opinions make equal entries
		switch think := thought[n.UID]; {
		case think == told[n.UID]:
		case think == noOpinion:
			room().Withdraw = append(room().Withdraw, n.UID)
		default:
			room().Votes = append(room().Votes, kubestate.Vote{UID: n.UID, Silent: think == silent})
		}
	}
	return out
}
