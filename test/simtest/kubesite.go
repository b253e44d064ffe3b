package simtest

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/app"
	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// What the model takes from Kubernetes and from machines.
const (
	kubeTick    = 100 * time.Millisecond // of controllers and kubelets
	kubeRenew   = 10 * time.Second       // of a Lease, at a phase of its own
	kubeGrace   = 45 * time.Second       // without a renewal until Ready is Unknown
	kubeCollect = 20 * time.Second       // period of pod garbage collection
	kubeForced  = 6 * time.Minute        // detach without anybody's word
	kubeStart   = 500 * time.Millisecond // of a container, once its volume is there
	kubeBoot    = 20 * time.Second       // from power to a kubelet
	fenceTime   = time.Second            // from a power-off command to no power
	kubeCluster = "prod"
)

// KubeSite is a Kubernetes cluster as far as failover can tell, with the machines
// that are its kube nodes: the objects, and what is really so. Every peer reaches it
// through a client of its own; every write is noted with the token of its
// leadership and judged at the moment when it has its effect.
type KubeSite struct {
	c        *Cluster
	settings failover.Settings
	names    []string // of the kube nodes, in order
	bg       sync.WaitGroup

	mu       sync.Mutex
	version  int // resourceVersion of the newest change
	nodes    map[string]*kubeNode
	pods     map[string]*kubePod // by name, which outlives a pod
	attached map[string]*kubeVolume
	work     []string // names of the pods that shall exist
	stalled  bool     // the API server answers nobody
	// exhausted is since when a budget allows nothing more; zero if it does.
	exhausted time.Time
	meet      func(p *Peer, call, node string)
	writes    []kubeWrite
}

// kubeNode is a Node, its Lease, and the machine it is.
type kubeNode struct {
	failover.Node
	renewals int
	renewed  time.Time
	writer   uint64 // greatest token that wrote the Node or took its power

	on  bool
	cut bool // nobody reaches it, and it reaches nobody
	// apart parts it from the API server alone, hidden its kubelet from the peers alone.
	apart, hidden bool
	// lies says that its BMC is another machine's, which is off: what it is told has
	// no effect here.
	lies  bool
	heard time.Time // since when the API server or a peer hears it; zero while none does
	away  time.Time // since when its kubelet does not run, or nobody reaches it; zero while it is there
	boots int
	up    time.Time // when its kubelet runs, kubeBoot after it got power
	well  time.Time // since when it has been up and reachable
	// booted is when its Node showed its newest boot, unready since when it is not Ready.
	booted, unready time.Time
	rails           map[railKind]time.Time // what forbids to take its power, since when
	runs            map[string]string      // pods that it runs: UIDs by name
}

// kubePod is a pod and when others turn to it.
type kubePod struct {
	failover.Pod
	starts time.Time // its container; zero without its volume
	ends   time.Time // it is evicted; zero if it is not
}

// kubeVolume is where a pod's volume is attached, and since when it is not wanted
// there any more.
type kubeVolume struct {
	node   string
	unused time.Time
}

// kubeWrite is one change that a peer sent to the outside.
type kubeWrite struct {
	at    time.Time // when it was sent
	peer  string
	token uint64
	what  string
	node  string
}

// SimulateKube is Simulate for a cluster of three peers that looks after kube nodes,
// with one pod and one volume each.
func SimulateKube(t *testing.T, nodes int, seed uint64, settings failover.Settings, f func(c *Cluster, k *KubeSite)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, seed)
		k := attachKube(c, nodes, settings)
		defer k.bg.Wait() // after the peers
		defer k.begin()()
		defer c.end()
		c.start()
		f(c, k)
	})
}

// attachKube makes the peers of a cluster look after kube nodes; call it before the
// first Start of a peer.
func attachKube(c *Cluster, nodes int, settings failover.Settings) *KubeSite {
	k := newKubeSite(c, nodes)
	k.settings = settings
	c.Failover = func(p *Peer, gate *Gate) *app.Failover {
		client := &kubeClient{k, p, gate}
		return &app.Failover{
			Settings: settings, Name: p.Name, Clusters: []failover.Cluster{client}, Fences: kubeFences{client},
			KubeletProber: client, Finder: peersElsewhere{},
		}
	}
	return k
}

// begin lets kubelets and controllers work until stop is called.
func (k *KubeSite) begin() (stop context.CancelFunc) {
	ctx, stop := context.WithCancel(context.Background())
	k.bg.Go(func() { k.live(ctx) })
	return stop
}

// shipped are the settings that are shipped, switched on.
func shipped() failover.Settings {
	return failover.Settings{
		Mode:      failover.ModeSafe,
		Detection: failover.Detection{LeaseAge: 17 * time.Second, Hold: 2 * time.Second, NotReadyAfter: 5 * time.Minute},
		Probe:     failover.Probe{Interval: 2 * time.Second, Timeout: 2 * time.Second, Misses: 3},
		Guard: failover.Guard{MinHealthy: share("51%"), StormCooldown: 5 * time.Minute, NodeRate: 3,
			HealthyDelay: time.Minute},
		Remedy: failover.Remedy{Retries: 5, RetryInterval: time.Second, Timeout: 10 * time.Second},
		NooBaa: failover.NooBaa{Exempt: []string{"noobaa-db-pg-"}},
	}
}

func share(text string) failover.Share {
	s, err := failover.ParseShare(text)
	if err != nil {
		panic(err)
	}
	return s
}

// brisk are the same, but that a kube node which is back is trusted soon.
func brisk() failover.Settings {
	s := shipped()
	s.Guard.HealthyDelay = 10 * time.Second
	return s
}

func newKubeSite(c *Cluster, nodes int) *KubeSite {
	k := &KubeSite{c: c, nodes: make(map[string]*kubeNode), pods: make(map[string]*kubePod),
		attached: make(map[string]*kubeVolume)}
	for i := range nodes {
		name := fmt.Sprintf("worker-%02d", i+1)
		phase := time.Duration(c.rng.Int64N(int64(kubeRenew)))
		n := &kubeNode{on: true, boots: 1, runs: make(map[string]string), renewed: time.Now().Add(
			-phase), Node: failover.Node{
			Name: name, UID: "uid-" + name, Ready: kubestate.ReadyTrue, Kubelet: name + ":10250", Created: time.Now(),
			Annotations: map[string]string{},
		}}
		n.BootID, n.rails = n.bootID(), make(map[railKind]time.Time)
		k.touch(&n.ResourceVersion)
		k.nodes[name], k.names = n, append(k.names, name)
		pod := fmt.Sprintf("db-%02d", i+1)
		k.work = append(k.work, pod)
		k.bind(pod, name)
	}
	return k
}

func (k *KubeSite) touch(version *string) {
	k.version++
	*version = strconv.Itoa(k.version)
}

// bind makes a pod anew, on a node.
func (k *KubeSite) bind(name, node string) {
	p := &kubePod{Pod: failover.Pod{Namespace: "apps", Name: name, Node: node}}
	k.touch(&p.ResourceVersion)
	p.UID = "uid-" + name + "-" + p.ResourceVersion
	k.pods[name] = p
}

func (n *kubeNode) bootID() string { return fmt.Sprintf("%s-boot-%d", n.Name, n.boots) }

// alive reports whether a kubelet runs.
func (n *kubeNode) alive() bool { return n.on && !time.Now().Before(n.up) }

// darken takes the power of a machine.
func (n *kubeNode) darken() { n.on, n.runs = false, make(map[string]string) }

// wake mends a machine, and switches it on if it is dark.
func (n *kubeNode) wake() {
	if !n.on {
		n.on, n.boots, n.up = true, n.boots+1, time.Now().Add(kubeBoot)
	}
	n.cut = false
}

// startByHand wires the BMC of a machine right and starts it again by hand.
func (n *kubeNode) startByHand() {
	n.lies, n.apart, n.hidden = false, false, false
	n.darken()
	n.wake()
}

// reaches reports whether a machine that runs reaches the API server.
func (n *kubeNode) reaches() bool { return !n.cut && !n.apart }

// listen notes whether anyone hears a machine, and whether it is there at all.
func (n *kubeNode) listen() {
	switch {
	case n.alive() && !n.cut:
		n.away = time.Time{}
	case n.away.IsZero():
		n.away = time.Now()
	}
	switch {
	case !n.alive() || n.cut || n.apart && n.hidden:
		n.heard = time.Time{}
	case n.heard.IsZero():
		n.heard = time.Now()
	}
}

// with changes the site.
func (k *KubeSite) with(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f()
}

// Stall keeps the API server from answering, or lets it answer again.
func (k *KubeSite) Stall(stalled bool) { k.with(func() { k.stalled = stalled }) }

// live lets kubelets and controllers work until ctx ends.
func (k *KubeSite) live(ctx context.Context) {
	for ctx.Err() == nil {
		k.with(func() {
			for _, name := range k.names {
				k.kubelet(k.nodes[name])
			}
			if !k.stalled {
				k.control()
			}
			k.look()
		})
		select {
		case <-time.After(kubeTick):
		case <-ctx.Done():
		}
	}
}

// kubelet is one round of a machine's kubelet. One that reaches no API server lets
// run what runs.
func (k *KubeSite) kubelet(n *kubeNode) {
	n.listen()
	if !n.alive() || !n.reaches() {
		n.well = time.Time{}
		return
	}
	if n.well.IsZero() {
		n.well = time.Now()
	}
	if k.stalled {
		return
	}
	if boot := n.bootID(); n.BootID != boot || n.Ready != kubestate.ReadyTrue {
		if n.BootID != boot {
			n.booted = time.Now()
		}
		n.BootID, n.Ready, n.renewed, n.unready = boot, kubestate.ReadyTrue, time.Time{}, time.Time{}
		k.touch(&n.ResourceVersion)
	}
	if time.Since(n.renewed) >= kubeRenew {
		n.renewals, n.renewed = n.renewals+1, time.Now()
	}
	for name, uid := range n.runs {
		if p := k.pods[name]; p == nil || p.UID != uid || p.Deleting {
			delete(n.runs, name)
		}
	}
	for _, name := range k.work {
		p := k.pods[name]
		switch {
		case p == nil || p.Node != n.Name || n.runs[name] != "":
		case p.Deleting:
			delete(k.pods, name)
		case !p.starts.IsZero() && !time.Now().Before(p.starts):
			n.runs[name] = p.UID
			k.touch(&p.ResourceVersion)
		}
	}
}
