package simtest

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trivet-ha/trivet/fsm/membership"
)

// nemesis carries out a schedule: it strikes whatever the last fault has left, and
// restarts processes that have ended, as systemd does.
type nemesis struct {
	c       *Cluster
	busy    map[string]bool        // what a fault has taken: a resource of a host, or a link
	down    map[*Peer]bool         // hosts whose process a fault keeps down
	ending  map[*Peer]<-chan error // processes that stop in good order
	started map[*Peer]time.Time    // last attempts to start
	running sync.WaitGroup         // operations that a fault has begun
	kube    *KubeSite              // nil for none
	extra   *Peer                  // a member that comes and goes; nil while there is none
	joined  int                    // extra members so far
	gone    atomic.Pointer[Peer]   // the newest extra member whose removal is committed
	struck  map[string]int         // faults that took effect, by kind
	under   sync.Map               // commands under way, with the newest answer
	operator
}

// faultKind is one way in which something goes wrong.
type faultKind struct {
	// resource is what the fault takes: two faults of one resource of a host do not
	// overlap, faults of different ones do.
	resource string
	link     bool // it strikes the link between two hosts
	shared   bool // the cluster has the resource once
	// strike begins the fault and returns what ends it; nil if there is nothing to
	// strike now.
	strike func(n *nemesis, p, other *Peer) (undo func())
}

const (
	ofProcess = "process"
	ofNetwork = "network"
	ofStreams = "streams"
	ofDisk    = "disk"
	ofClock   = "clock"
)

// faultKinds are all kinds, by name.
var faultKinds = map[string]faultKind{
	"isolate": {resource: ofNetwork, strike: func(n *nemesis, p, _ *Peer) func() { return n.cut(p, n.c.Net.Isolate) }},
	"deaf": {resource: ofNetwork,
		strike: func(n *nemesis, p, _ *Peer) func() { return n.cut(p, n.c.Net.IsolateInbound) }},
	"mute": {resource: ofNetwork,
		strike: func(n *nemesis, p, _ *Peer) func() { return n.cut(p, n.c.Net.IsolateOutbound) }},
	"cut": {resource: ofNetwork, link: true, strike: func(n *nemesis, p, other *Peer) func() {
		n.c.Net.CutBoth(p.Name, other.Name)
		return func() {
			n.c.Net.Mend(p.Name, other.Name)
			n.c.Net.Mend(other.Name, p.Name)
		}
	}},
	"cut-one-way": {resource: ofNetwork, link: true, strike: func(n *nemesis, p, other *Peer) func() {
		n.c.Net.Cut(p.Name, other.Name)
		return func() { n.c.Net.Mend(p.Name, other.Name) }
	}},
	"bare-majority":    {resource: "links", strike: (*nemesis).bareMajority},
	"heartbeats-stall": {resource: ofStreams, strike: stalls(true)},
	"entries-stall":    {resource: ofStreams, strike: stalls(false)},
	"lossy": {resource: ofNetwork, link: true, strike: func(n *nemesis, p, other *Peer) func() {
		bad := Quality{MinDelay: minDelay, MaxDelay: 50 * time.Millisecond, Drop: 0.1, Duplicate: 0.2}
		n.c.Net.SetLink(p.Name, other.Name, bad)
		return func() { n.c.Net.SetLink(p.Name, other.Name, Quality{MinDelay: minDelay, MaxDelay: maxDelay}) }
	}},
	"pause": {resource: ofProcess, strike: func(_ *nemesis, p, _ *Peer) func() { return p.suspend() }},
	"kill": {resource: ofProcess, strike: func(n *nemesis, p, _ *Peer) func() {
		n.c.must(p.Kill())
		return n.keepDown(p)
	}},
	"stop":          {resource: ofProcess, strike: (*nemesis).stop},
	"pause-at-arm":  {resource: ofProcess, strike: pauseAt("arm")},
	"pause-at-swap": {resource: ofProcess, strike: pauseAt("swap")},
	"pause-swapped": {resource: ofProcess, strike: pauseAt("swapped")},
	"pause-at-put":  {resource: ofProcess, strike: pauseAt("put")},
	"pause-stamped": {resource: ofProcess, strike: pauseAt("stamp")},
	"pause-at-ack":  {resource: ofProcess, strike: pauseAt("acknowledge")},
	"pause-asked":   {resource: ofProcess, strike: pauseAt("question")},
	"pause-at-age":  {resource: ofProcess, strike: pauseAt("answer")},
	"cut-at-swap":   {resource: ofProcess, strike: (*nemesis).cutAtSwap},
	"freeze":        {resource: ofProcess, strike: (*nemesis).freeze},
	"kernel-busy":   {resource: "kernel", strike: (*nemesis).occupyKernel},
	"disk-hangs":    {resource: ofDisk, strike: func(_ *nemesis, p, _ *Peer) func() { p.Disk.Hang(); return p.Disk.Thaw }},
	"disk-full": {resource: ofDisk,
		strike: func(_ *nemesis, p, _ *Peer) func() { p.Disk.Full(true); return func() { p.Disk.Full(false) } }},
	"disk-slow":    {resource: ofDisk, strike: slowDisk},
	"clock-ahead":  {resource: ofClock, strike: skewed(2 * time.Hour)},
	"clock-behind": {resource: ofClock, strike: skewed(-5 * time.Hour)},
	"transfer":     {resource: "transfer", strike: (*nemesis).transfer},
	"snapshot":     {resource: "snapshot", strike: (*nemesis).snapshot},
	"rules-flushed": {resource: "rules",
		strike: func(_ *nemesis, p, _ *Peer) func() { p.Kernel.Flush(); return func() {} }},
	"join":        {resource: "membership", shared: true, strike: (*nemesis).join},
	"maintenance": {resource: "membership", shared: true, strike: excluded(membership.FromLeading)},
	"observer":    {resource: "membership", shared: true, strike: excluded(membership.FromVoting)},
	"gossip-key":  {resource: "gossip key", shared: true, strike: (*nemesis).rotateKey},
	"node-dies":   {resource: "kube nodes", shared: true, strike: (*nemesis).killNode},
	"node-cut":    {resource: "kube nodes", shared: true, strike: (*nemesis).cutNode},
}

// kindOf returns a kind of fault by its name.
func kindOf(name string) faultKind {
	if kind, ok := faultKinds[name]; ok {
		return kind
	}
	return operatorKinds[name]
}

func newNemesis(c *Cluster, kube *KubeSite) *nemesis {
	return &nemesis{
		c: c, kube: kube, busy: make(map[string]bool), down: make(map[*Peer]bool), ending: make(map[*Peer]<-chan error),
		started: make(map[*Peer]time.Time), struck: make(map[string]int),
	}
}

// look is how often the nemesis looks for processes to restart, and restartAfter how
// long after one attempt the next one follows.
const (
	look         = 100 * time.Millisecond
	restartAfter = time.Second
)

// run carries out a schedule and undoes every fault.
func (n *nemesis) run(s Schedule) {
	n.c.T.Helper()
	began := time.Now()
	undo := make(map[int]func())
	defer func() { n.abandon(undo) }()
	for _, e := range s.events() {
		for wait := e.at - time.Since(began); wait > 0; wait = e.at - time.Since(began) {
			time.Sleep(min(wait, look)) // in a bubble
			n.restart()
		}
		if !e.ends {
			undo[e.fault] = n.begin(s[e.fault])
		} else if undo[e.fault] != nil {
			undo[e.fault]()
			delete(undo, e.fault)
		}
	}
	ended := make(chan struct{})
	go func() {
		n.running.Wait()
		close(ended)
	}()
	n.c.Until(operationsLimit, "every process runs, and every operation of the schedule has ended", func() bool {
		n.restart()
		select {
		case <-ended:
		default:
			return false
		}
		return n.extra == nil && n.leaves == nil &&
			!slices.ContainsFunc(n.c.Peers, func(p *Peer) bool { return p.Core() == nil || p.Exited() })
	})
}

// abandon ends what a run that failed has begun.
func (n *nemesis) abandon(undo map[int]func()) {
	for _, end := range undo {
		if end != nil {
			end()
		}
	}
	if n.extra != nil {
		n.c.T.Logf("%s has not left: told %v, removal committed %v, %s", n.extra.Name, n.extra.told.Load(),
			n.gone.Load() == n.extra, n.extra.describe())
		n.c.must(n.extra.Kill())
	}
	n.under.Range(func(what, last any) bool {
		n.c.T.Logf("under way still: %v: %v", what, last)
		return true
	})
	n.running.Wait()
}

// begin strikes, unless something of what the fault takes is taken already.
func (n *nemesis) begin(f Fault) (undo func()) {
	kind := kindOf(f.Kind)
	p := n.leader()
	if f.Host != leaderHost {
		p = n.at(f.Host)
	}
	if p == nil {
		p = n.c.Peers[int(f.At)%len(n.c.Peers)] // nobody leads: some host, the same one each time
	}
	var other *Peer
	resource := kind.resource + " of " + p.hostName()
	if kind.shared {
		resource = kind.resource
	}
	if kind.link {
		other = n.at(f.Peer)
		resource += " to " + other.hostName()
	}
	if other == p || n.busy[resource] {
		return nil
	}
	end := kind.strike(n, p, other)
	if end == nil {
		return nil
	}
	n.busy[resource] = true
	n.struck[f.Kind]++
	return func() {
		end()
		n.busy[resource] = false
	}
}

// at is the peer on a host.
func (n *nemesis) at(host string) *Peer {
	for _, p := range n.c.Peers {
		if p.hostName() == host {
			return p
		}
	}
	return n.c.Peer(host)
}

// leader is the host that leads, be it the extra member; nil if none or more than one
// seem to.
func (n *nemesis) leader() *Peer {
	p := n.c.Leader()
	if p == nil && n.extra != nil {
		if core := n.extra.Core(); core != nil && !n.extra.paused() && !core.Runner.Token().IsZero() {
			return n.extra
		}
	}
	return p
}

// restart starts processes that have ended. A start that fails, on a full disk for
// example, is tried again.
func (n *nemesis) restart() {
	if n.left() {
		n.c.must(n.extra.Kill())
		n.extra = nil
	}
	n.replaceLeft()
	for _, p := range n.c.Peers {
		n.restartOn(p)
	}
	if n.extra != nil {
		n.restartOn(n.extra)
	}
}

func (n *nemesis) restartOn(p *Peer) {
	if done := n.ending[p]; done != nil {
		select {
		case <-done: // an error of a stop is one of leaving others: the log names it
			delete(n.ending, p)
		default:
			return
		}
	}
	if p.Exited() {
		n.c.must(p.Kill())
	}
	if n.down[p] || p.waits.Load() || p.Core() != nil || p.Disk.hung() != nil || time.Since(n.started[p]) < restartAfter {
		return
	}
	n.started[p] = time.Now()
	if err := p.Start(); err != nil && !n.busy[ofDisk+" of "+p.hostName()] {
		n.c.T.Fatalf("start %s: %v", p.Name, err)
	}
}

// keepDown keeps a host's process from being restarted until the fault is over.
func (n *nemesis) keepDown(p *Peer) (undo func()) {
	n.down[p] = true
	return func() { delete(n.down, p) }
}

// cut cuts a host off and leaves the cuts of single links alone when it is over.
func (n *nemesis) cut(p *Peer, how func(string)) (undo func()) {
	how(p.Name)
	return func() { n.c.Net.Reconnect(p.Name) }
}

// stop ends the process in good order, as systemctl stop does.
func (n *nemesis) stop(p, _ *Peer) (undo func()) {
	if p.Core() == nil {
		return nil
	}
	done := make(chan error, 1)
	n.ending[p] = done
	go func() { done <- p.Stop() }()
	return n.keepDown(p)
}

// suspend stops the process until undo is called; nil if none runs.
func (p *Peer) suspend() (undo func()) {
	proc := p.run.Load()
	if proc == nil {
		return nil
	}
	proc.gate.Pause()
	return proc.gate.Resume
}

// pauseAt stops the process at its guard's next write of one kind.
func pauseAt(what string) func(*nemesis, *Peer, *Peer) func() {
	return func(_ *nemesis, p, _ *Peer) func() {
		proc := p.run.Load()
		if proc == nil {
			return nil
		}
		var once sync.Once
		p.Kernel.onWrite(func(now string) {
			if now == what {
				once.Do(proc.gate.Pause)
			}
		})
		return func() {
			p.Kernel.onWrite(nil)
			proc.gate.Resume()
		}
	}
}

func slowDisk(_ *nemesis, p, _ *Peer) (undo func()) {
	p.Disk.SetDelay(20*time.Millisecond, 300*time.Millisecond)
	return func() { p.Disk.SetDelay(minWrite, maxWrite) }
}

func skewed(by time.Duration) func(*nemesis, *Peer, *Peer) func() {
	return func(_ *nemesis, p, _ *Peer) func() {
		p.SetSkew(by)
		return func() {
			for _, q := range p.c.everyHost() { // another peer may be on the host by now
				if q.hostName() == p.hostName() {
					q.SetSkew(0)
				}
			}
		}
	}
}
