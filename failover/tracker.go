package failover

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// Bounds of the requests to an API server.
const (
	askEvery = time.Second
	// askLimit is how long an answer may take; one that takes longer counts as
	// silence, because Leases may be late by as much.
	askLimit = 2 * time.Second
	// silentAfter is how old the newest good answer may be. It also notices that
	// this process itself stood still.
	silentAfter = askEvery + askLimit
)

// Tracker remembers, for one cluster and one leadership, when each kube node
// last gave a sign of life. It counts on our own monotonic clock from the moment
// a change was seen and never reads a time that a kubelet wrote: a skewed clock
// changes nothing.
//
// An age counts only up to the newest question that the API server answered; it
// stands still while the server is silent, and when the server answers again all
// ages begin again, for no kubelet could renew meanwhile. All methods may be called
// concurrently.
type Tracker struct {
	wanted chan struct{} // 1: Ask wants an answer now; never closed
	came   chan struct{} // 1: it came; never closed

	mu     sync.Mutex
	synced bool
	nodes  map[string]*trackedNode  // by name
	leases map[string]*trackedLease // by the node's name
	api    trackedAPI
}

type trackedNode struct {
	node     Node
	seen     time.Time // under this UID
	first    bool      // part of the first list
	late     bool      // not Ready in the first list, and no sign of life since
	notReady time.Time // since when Ready is not True; zero if it is
	shutdown shutdown
}

type trackedLease struct {
	renewal Renewal   // that was seen last
	counted time.Time // where its age begins
	renewed time.Time // when it was seen to change; zero if never
}

type trackedAPI struct {
	good   time.Time // when the newest question with a good answer was sent
	began  time.Time // no age begins before
	back   time.Time // when it answered after a silence; zero if it never was silent
	silent bool
	why    string
}

var _ Seen = (*Tracker)(nil)

// NewTracker returns a tracker that has seen nothing.
func NewTracker() *Tracker {
	return &Tracker{
		wanted: make(chan struct{}, 1), came: make(chan struct{}, 1),
		nodes: make(map[string]*trackedNode), leases: make(map[string]*trackedLease),
	}
}

// Run watches the cluster and asks its API server for signs of life, until ctx
// ends. An error says that it can never work.
func (t *Tracker) Run(ctx context.Context, w Watcher) error {
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	asking.Go(func() { t.ask(ctx, w) })
	err := w.Watch(ctx, t, t.allTold)
	cancel()
	asking.Wait()
	if err != nil {
		return fmt.Errorf("watch the cluster: %w", err)
	}
	return nil
}

// Ask makes the tracker ask the API server now: ages count up to an answer.
func (t *Tracker) Ask() { notify(t.wanted) }

// Answered receives when a question that Ask wanted was answered, or was not in time.
func (t *Tracker) Answered() <-chan struct{} { return t.came }

// notify tells one waiter of what it need not be told twice.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is known already
	}
}

// ask asks every second, when Ask wants it, and at once after an answer that took longer.
func (t *Tracker) ask(ctx context.Context, w Watcher) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for wanted := false; ; {
		sent := time.Now()
		limited, cancel := context.WithTimeout(ctx, askLimit)
		err := w.Answers(limited)
		cancel()
		if ctx.Err() != nil {
			return
		}
		t.answered(sent, time.Now(), err)
		if wanted {
			notify(t.came)
		}
		select {
		case <-tick.C:
			wanted = false
		case <-t.wanted:
			wanted = true
		case <-ctx.Done():
			return
		}
	}
}

// answered is told how the API server answered a question sent at a time.
func (t *Tracker) answered(sent, now time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	took := now.Sub(sent)
	if err == nil && took > askLimit {
		err = fmt.Errorf("an answer took %v, allowed are %v", rounded(took), askLimit)
	}
	if err != nil {
		t.api.silent, t.api.why = true, err.Error()
		return
	}
	switch {
	case t.api.good.IsZero():
		t.api.began = now
	case t.api.silent || sent.Sub(t.api.good) > silentAfter:
		t.restart(now)
	}
	t.api.good, t.api.silent, t.api.why = sent, false, ""
}

// restart begins all ages again.
func (t *Tracker) restart(now time.Time) {
	t.api.began, t.api.back = now, now
	for _, n := range t.nodes {
		n.late = false
	}
}

// allTold notes that everything that existed was told.
func (t *Tracker) allTold() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.synced = true
}

// Node implements Seen. Another UID under the same name is another node: the
// signs of life of the first are not its own.
func (t *Tracker) Node(n Node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	k, known := t.nodes[n.Name]
	if known && k.node.UID != n.UID {
		delete(t.leases, n.Name)
		known = false
	}
	if !known {
		k = &trackedNode{seen: now, first: !t.synced, late: !t.synced && n.Ready != kubestate.ReadyTrue}
		t.nodes[n.Name] = k
	}
	booted := known && k.node.BootID != n.BootID
	switch {
	case n.Ready == kubestate.ReadyTrue:
		k.notReady = time.Time{}
	case k.notReady.IsZero(), booted: // a kubelet that has just started is not Ready at first
		k.notReady = now
	}
	k.late = k.late && !booted && n.Ready != kubestate.ReadyTrue
	k.shutdown.see(k.node, n)
	k.node = n
}

// Read notes what a read of the storage showed of a Node that is watched. The watch
// may be behind: a Node that is Ready is not held for dead for what Ready was.
func (t *Tracker) Read(n Node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k, known := t.nodes[n.Name]
	if !known || k.node.UID != n.UID || n.Ready != kubestate.ReadyTrue {
		return
	}
	k.shutdown.see(k.node, n)
	k.node.Ready, k.notReady, k.late = n.Ready, time.Time{}, false
}

// NodeGone implements Seen.
func (t *Tracker) NodeGone(name, uid string) {
	t.with(name, uid, func(*trackedNode) {
		delete(t.nodes, name)
		delete(t.leases, name)
	})
}

// with does something with a Node, if it is still the one of that UID.
func (t *Tracker) with(name, uid string, do func(*trackedNode)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k, known := t.nodes[name]; known && k.node.UID == uid {
		do(k)
	}
}

// Renewed implements Seen. The first renewal that is seen is no sign of life: it may be
// as old as the node is dead. Nor is one that was written before another that was seen:
// it is told late, or the history of the storage went back, which says nothing of the
// machine, so its age begins again. A clock of a kubelet that goes back changes nothing.
func (t *Tracker) Renewed(node string, r Renewal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l, ok := t.leases[node]
	if !ok {
		t.leases[node] = &trackedLease{renewal: r, counted: time.Now()}
		return
	}
	before, back := l.renewal, r.Version != 0 && r.Version < l.renewal.Version
	if back && !r.Stored {
		return
	}
	l.renewal = r
	switch {
	case back:
		l.counted = time.Now()
		return
	case r.At == before.At:
		return // a new list tells again what was known
	}
	l.counted, l.renewed = time.Now(), time.Now()
	if k, ok := t.nodes[node]; ok {
		k.late, k.shutdown.first = false, time.Time{}
	}
}

// follow notes that a goroutine begins to follow a kube node, or ends. It reports whether one may
// begin: the kube node shuts down, and none follows it yet.
func (t *Tracker) follow(n WatchedNode, begins bool) (may bool) {
	t.with(n.Name, n.UID, func(k *trackedNode) {
		may = k.shutdown.said && !k.shutdown.followed
		k.shutdown.followed = begins && (k.shutdown.followed || may)
	})
	return may
}

// followed notes what was heard of a machine that shuts down, and its power as it was read after
// that; peers are those that say that they hear it.
func (t *Tracker) followed(n WatchedNode, heard Heard, power Power, peers int) {
	t.with(n.Name, n.UID, func(k *trackedNode) {
		switch {
		case k.node.BootID != n.BootID:
		case power != PowerOff:
			k.shutdown.first, k.shutdown.heard = time.Time{}, k.shutdown.heard || heard == HeardAlive
			if heard.On() || power == PowerOn {
				k.shutdown.on, k.shutdown.dark = time.Now(), time.Time{}
			}
		default:
			k.shutdown.noteReading(time.Now(), peers)
			notify(t.came)
		}
	})
}

// Watched is what a tracker knows at one moment.
type Watched struct {
	Synced bool // everything that exists was told
	API    APIState
	Nodes  []WatchedNode // by name
}

// node returns the kube node of a UID.
func (w Watched) node(uid string) (n WatchedNode, there bool) {
	i := slices.IndexFunc(w.Nodes, func(n WatchedNode) bool { return n.UID == uid })
	if i < 0 {
		return n, false
	}
	return w.Nodes[i], true
}

// APIState says whether an API server answers.
type APIState struct {
	Answers bool
	Why     string        // it does not
	Silence time.Duration // since the newest good answer; 0 while it answers
	Asked   time.Duration // since the newest question with a good answer was sent: up to then ages count
	// Back is since when it has answered again after a silence; negative if it was
	// never silent.
	Back time.Duration
}

// WatchedNode is a kube node and its signs of life. Ages are zero at first.
type WatchedNode struct {
	Node
	Leased   bool          // its Lease was seen
	LeaseAge time.Duration // since that was last seen to change, while the API server answered
	// Renewed is since when its Lease was seen to change, also across a silence;
	// negative if never.
	Renewed time.Duration
	// LeaseTime is of the newest renewal as its Lease has it, by the clock of its machine.
	LeaseTime string
	NotReady  time.Duration // how long Ready has not been True, while the API server answered
	// Late says that it was not Ready in the first list and gave no sign of life
	// since: an earlier leader saw it fall silent.
	Late     bool
	Known    time.Duration // since it appeared; negative if it was in the first list
	Shutdown Shutdown
}

// Look returns one consistent picture.
func (t *Tracker) Look() Watched {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	w := Watched{Synced: t.synced, API: t.api.state(now), Nodes: make([]WatchedNode, 0, len(t.nodes))}
	for name, k := range t.nodes {
		n := WatchedNode{Node: k.node, Late: k.late, Known: -1, Renewed: -1, Shutdown: k.shutdown.state(now)}
		if !k.first {
			n.Known = now.Sub(k.seen)
		}
		if !k.notReady.IsZero() {
			n.NotReady = t.api.age(k.notReady)
		}
		if l, ok := t.leases[name]; ok {
			n.Leased, n.LeaseAge, n.LeaseTime = true, t.api.age(l.counted), l.renewal.At
			if !l.renewed.IsZero() {
				n.Renewed = now.Sub(l.renewed)
			}
		}
		w.Nodes = append(w.Nodes, n)
	}
	slices.SortStableFunc(w.Nodes, func(a, b WatchedNode) int { return cmp.Compare(a.Name, b.Name) })
	return w
}

func (a *trackedAPI) state(now time.Time) APIState {
	s := APIState{Answers: true, Back: -1, Asked: now.Sub(a.good)}
	switch {
	case a.good.IsZero():
		s.Answers, s.Why = false, cmp.Or(a.why, "it has not been asked yet")
	case a.silent || now.Sub(a.good) > silentAfter:
		s.Answers, s.Why, s.Silence = false, cmp.Or(a.why, "no answer yet"), now.Sub(a.good)
	case !a.back.IsZero():
		s.Back = now.Sub(a.back)
	}
	return s
}

// age returns how long something has lasted as of the newest good answer.
func (a *trackedAPI) age(since time.Time) time.Duration {
	if a.began.After(since) {
		since = a.began
	}
	return max(0, a.good.Sub(since))
}

// rounded makes a duration fit for a sentence.
func rounded(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Second)
}
