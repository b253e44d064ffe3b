package failover

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
	"github.com/trivet-ha/trivet/internal/pace"
)

// Values of the model; they are those of the real thing where it has any.
const (
	modelTick   = 200 * time.Millisecond
	modelRenew  = 10 * time.Second // of a Lease
	modelGrace  = 45 * time.Second // until the node controller says Unknown
	modelBoot   = 20 * time.Second // from power on to a kubelet
	modelGC     = 20 * time.Second // period of pod garbage collection
	modelDetach = 6 * time.Minute  // forced, without a taint
	// modelReading is for how long one reading of the power may be acted on, a request
	// of a second that is on its way included. It is the model's own figure: a judge
	// that took it from the code would pass any.
	modelReading = 6 * time.Second
	// modelConfirm is how far apart the first and the last of the readings are at least
	// that make an off; its own figure, too.
	modelConfirm = time.Second
	modelSpace   = "apps"
)

// world is a Kubernetes cluster with its machines, and what is really so: which
// machine has power and what runs on it. Its own controllers make pods anew and
// move volumes as the real ones do. Whatever two machines do at once that one alone
// may do is noted as a violation, in the words of an assertion.
type world struct {
	t      testing.TB
	ledger *ledger
	bg     sync.WaitGroup

	mu       sync.Mutex
	random   *rand.Rand
	version  int // of the newest change of an object
	nodes    map[string]*apiNode
	pcs      map[string]*pc
	pods     map[string]*apiPod // by name
	sets     []string           // names of the pods that shall exist
	attached map[string]*apiVolume
	trouble  trouble
	audit    []deed
	wrong    []string
	hooks    map[string]func() // by deed: what happens right after it
	hands    []*hand
	reports  []string // events that no command records
	unnamed  bool     // the next leader's configuration does not name the cluster
	strips   *strips  // that feed all machines; nil: each has a BMC and an outlet
	opened   []bool   // by leaders whose mode is off: when the cluster was opened, and closed
}

// trouble is what is wrong with everything but machines.
type trouble struct {
	silent     bool     // the API server
	forbidden  string   // verb that is refused
	busy       string   // verb that is answered 503
	exhausted  []string // PodDisruptionBudgets
	lacking    bool     // these lack pods elsewhere
	operator   bool     // somebody switches on what is off and moved away
	losesTaint int      // how often somebody's writer drops all taints but its own
	failDelete int      // how many deletions fail
	slowDelete time.Duration
	guarded    string // a pod whose deletion a webhook refuses
	restless   string // a pod that changes whenever it was listed
	noNodes    bool   // the watch of Nodes stands still, and that of Leases
	noLeases   bool
	deaf       int  // peers that hear no kubelet that they did not hear before
	renamed    bool // the devices, in the configuration
	late       *lateTaint
}

// lateTaint is a request for the out-of-service taint that gets no answer, and arrives later.
type lateTaint struct{ arrive func() error }

type apiNode struct {
	Node
	lease   int
	renewed time.Time
}

type apiPod struct {
	Pod
	boot   string // under which it was started last
	held   bool   // by a finalizer: a deletion only marks it
	marked time.Time
}

type apiVolume struct {
	node  string
	since time.Time // since when it is not wanted there any more; zero if it is
}

// pc is one machine.
type pc struct {
	name  string
	on    bool
	boots int
	lit   time.Time // when it got power
	up    time.Time // when its kubelet runs
	cut   bool      // from the API server alone
	runs  map[string]string
	sick  bool // its kubelet says that it is not Ready
	// hidden keeps the peers from its kubelet, which reaches the API server; hung
	// stops the kubelet alone: pods run on, and the kernel takes connections.
	hidden, hung bool
	leaseless    bool // its Lease is not renewed, whatever its kubelet says
	slow         bool // its kubelet takes as long to answer as a probe waits
	fault        string
	deafToOn     int       // so many commands to switch it on are lost or refused
	mumbles      bool      // its device says neither on nor off
	offs         int       // power-off commands that it got
	reads        []reading // since the newest of them
}

type reading struct {
	at    time.Time
	off   bool // said the device
	alive bool // a kubelet ran all the same
}

// deed is what one leader did to the cluster.
type deed struct {
	at    time.Time
	token uint64
	verb  string
	what  string
	uid   string
}

// inWorld runs f in a world of some kube nodes with one pod and volume each, in
// virtual time, and looks at what has gone wrong in the end.
func inWorld(t *testing.T, nodes int, seed uint64, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		w := newWorld(t, nodes, seed)
		w.bg.Go(func() { w.live(ctx) })
		w.bg.Go(func() { w.ledger.live(ctx, w) })
		defer func() { // also when f gave up
			for _, h := range w.hands {
				if h.stopped() {
					h.thaw()
				}
				h.leave()
			}
			stop()
			w.bg.Wait()
			for _, wrong := range w.wrong {
				t.Error("violation: " + wrong)
			}
		}()
		w.pass(2 * time.Second)
		f(w)
	})
}

func newWorld(t *testing.T, nodes int, seed uint64) *world {
	w := &world{
		t: t, random: rand.New(rand.NewPCG(seed, 1)),
		nodes: make(map[string]*apiNode), pcs: make(map[string]*pc), pods: make(map[string]*apiPod),
		attached: make(map[string]*apiVolume),
		hooks:    make(map[string]func()),
	}
	w.ledger = newLedger(t)
	for i := range nodes {
		name := fmt.Sprintf("n%d", i+1)
		p := &pc{name: name, on: true, boots: 1, runs: make(map[string]string)}
		w.pcs[name] = p
		w.register(p)
		pod := w.make(fmt.Sprintf("s-%d", i+1), name)
		w.sets = append(w.sets, pod.Name)
		daemon := w.make("d-"+name, name)
		daemon.DaemonSet, daemon.ToleratesOutOfService = true, true
	}
	return w
}

// register makes a Node for a machine.
func (w *world) register(p *pc) {
	w.version++
	w.nodes[p.name] = &apiNode{renewed: time.Now(), lease: 1, Node: Node{
		Name: p.name, UID: fmt.Sprintf("uid-%s-%d", p.name, w.version), BootID: p.bootID(), Ready: kubestate.ReadyTrue,
		SystemUUID: "uuid-of-" + p.name,
		Kubelet:    p.name + ":10250", Created: time.Now(), Annotations: map[string]string{},
		ResourceVersion: fmt.Sprint(w.version),
	}}
}

func (p *pc) bootID() string { return fmt.Sprintf("boot-%s-%d", p.name, p.boots) }

// alive reports whether a kubelet runs.
func (p *pc) alive() bool { return p.on && !p.hung && !time.Now().Before(p.up) }

// heard is what a peer hears that asks the kubelet.
func (p *pc) heard() Heard {
	switch {
	case p.hidden:
		return HeardNothing
	case p.alive():
		return HeardAlive
	case p.on && p.hung:
		return HeardKernel
	}
	return HeardNothing
}

// make creates a pod on a node.
func (w *world) make(name, node string) *apiPod {
	w.version++
	p := &apiPod{Pod: Pod{
		Namespace: modelSpace, Name: name, UID: fmt.Sprintf("pod-%s-%d", name, w.version), Node: node,
		ResourceVersion: fmt.Sprint(w.version), Labels: map[string]string{"app": "noobaa"},
	}}
	w.pods[name] = p
	return p
}

func (w *world) touch(n *apiNode) {
	w.version++
	n.ResourceVersion = fmt.Sprint(w.version)
}

func (w *world) touchPod(p *apiPod) {
	w.version++
	p.ResourceVersion = fmt.Sprint(w.version)
}

// live lets the machines and the controllers work until ctx ends.
func (w *world) live(ctx context.Context) {
	for tick := 0; pace.Wait(ctx, modelTick); tick++ {
		w.mu.Lock()
		for _, p := range w.machines() {
			w.kubelet(p)
		}
		if !w.trouble.silent {
			w.judgeNodes()
			w.evict()
			if tick%int(modelGC/modelTick) == 0 {
				w.collect()
			}
			w.schedule()
			w.moveVolumes()
		}
		w.look()
		w.mu.Unlock()
		if tick%10 == 0 {
			w.operate()
		}
	}
}

func (w *world) machines() []*pc {
	var all []*pc
	for _, name := range w.names() {
		all = append(all, w.pcs[name])
	}
	return all
}

func (w *world) names() []string {
	var names []string
	for name := range w.pcs {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// kubelet is one round of a machine's kubelet.
func (w *world) kubelet(p *pc) {
	n := w.nodes[p.name]
	if !p.alive() || p.cut || w.trouble.silent || n == nil {
		return
	}
	ready := kubestate.ReadyTrue
	if p.sick {
		ready = kubestate.ReadyFalse
	}
	if n.BootID != p.bootID() || n.Ready != ready {
		n.BootID, n.Ready = p.bootID(), ready
		w.touch(n)
		n.renewed = time.Time{}
	}
	if time.Since(n.renewed) >= modelRenew {
		if n.renewed = time.Now(); !p.leaseless {
			n.lease++
		}
	}
	for name, uid := range p.runs {
		if pod := w.pods[name]; pod == nil || pod.UID != uid {
			delete(p.runs, name)
		}
	}
	for _, pod := range w.podsOn(p.name) {
		switch v := w.attached[pod.Name]; {
		case pod.Deleting:
			delete(p.runs, pod.Name)
			w.remove(pod)
		case pod.DaemonSet, v != nil && v.node == p.name:
			if p.runs[pod.Name] != pod.UID || pod.boot != p.bootID() {
				p.runs[pod.Name], pod.boot = pod.UID, p.bootID()
				w.touchPod(pod)
			}
		}
	}
}

func (w *world) podsOn(node string) (on []*apiPod) {
	for _, p := range w.pods {
		if p.Node == node {
			on = append(on, p)
		}
	}
	slices.SortFunc(on, func(a, b *apiPod) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return on
}

// judgeNodes is the node controller.
func (w *world) judgeNodes() {
	for _, n := range w.nodes {
		if time.Since(n.renewed) > modelGrace && n.Ready != kubestate.ReadyUnknown {
			n.Ready, n.Stopping = kubestate.ReadyUnknown, false
			w.touch(n)
		}
	}
}

// evict is the taint controller: it ends pods, politely.
func (w *world) evict() {
	for _, p := range w.pods {
		n := w.nodes[p.Node]
		if n == nil || p.ToleratesOutOfService || p.Deleting || !taken(n.Node) {
			continue
		}
		if p.marked.IsZero() {
			p.marked = time.Now().Add(time.Duration(w.random.IntN(3000)) * time.Millisecond)
		}
		if !time.Now().Before(p.marked) {
			p.Deleting = true
			w.touchPod(p)
		}
	}
}

// collect is pod garbage collection.
func (w *world) collect() {
	for _, p := range w.pods {
		n := w.nodes[p.Node]
		if n == nil || p.Deleting && n.Ready != kubestate.ReadyTrue && taken(n.Node) {
			w.remove(p)
		}
	}
}

// remove takes a pod away, or marks it while finalizers hold it.
func (w *world) remove(p *apiPod) {
	switch {
	case !p.held:
		delete(w.pods, p.Name)
	case !p.Finalizing:
		p.Deleting, p.Finalizing = true, true
		w.touchPod(p)
	}
}

// schedule is the StatefulSet controller and the scheduler.
func (w *world) schedule() {
	for _, name := range w.sets {
		if w.pods[name] != nil {
			continue
		}
		var fit []string
		for _, node := range w.names() {
			if n := w.nodes[node]; n != nil && n.Ready == kubestate.ReadyTrue && len(n.Taints) == 0 {
				fit = append(fit, node)
			}
		}
		if len(fit) > 0 {
			w.make(name, fit[w.random.IntN(len(fit))])
		}
	}
}

// moveVolumes is the attach-detach controller with a driver that believes it.
func (w *world) moveVolumes() {
	for _, name := range w.sets {
		pod, v := w.pods[name], w.attached[name]
		switch {
		case v == nil && pod != nil:
			w.attached[name] = &apiVolume{node: pod.Node}
			continue
		case v == nil:
			continue
		case pod != nil && pod.Node == v.node:
			v.since = time.Time{}
			continue
		case v.since.IsZero():
			v.since = time.Now()
		}
		n, p := w.nodes[v.node], w.pcs[v.node]
		unmounted := p.alive() && !p.cut && p.runs[name] == ""
		if unmounted || n != nil && taken(n.Node) || time.Since(v.since) > modelDetach {
			delete(w.attached, name)
		}
	}
}

// look is the oracle: nothing may run, or write, in two places.
func (w *world) look() {
	for _, name := range w.sets {
		var at []string
		for _, p := range w.machines() {
			if p.on && p.runs[name] != "" {
				at = append(at, p.name)
			}
		}
		if len(at) > 1 {
			w.blame("pod %s runs and writes its volume on %v at once", name, at)
		}
	}
}

// blame notes a violation, each once.
func (w *world) blame(format string, args ...any) {
	if wrong := fmt.Sprintf(format, args...); !slices.Contains(w.wrong, wrong) {
		w.wrong = append(w.wrong, wrong)
	}
}

// operate is an operator who switches on what was moved away or given up.
func (w *world) operate() {
	v := w.ledger.view()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.machines() {
		n := w.nodes[p.name]
		if !w.trouble.operator || n == nil || p.on {
			continue
		}
		m, open := v.OpenRemediation("k", n.UID)
		if open && m.State == kubestate.RemDetached && v.Now().Sub(m.Since) > 5*time.Second {
			p.powerOn()
		}
	}
}

func (p *pc) powerOff() {
	if p.on {
		p.on, p.hung, p.runs = false, false, make(map[string]string)
	}
}

func (p *pc) powerOn() {
	if !p.on {
		p.on, p.boots, p.lit, p.up = true, p.boots+1, time.Now(), time.Now().Add(modelBoot)
	}
}

// wake switches a machine on whose kubelet runs at once.
func (w *world) wake(name string) {
	w.with(func() {
		w.pcs[name].powerOn()
		w.pcs[name].up = time.Now()
	})
}

// with changes the world.
func (w *world) with(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// cutPower takes the power of machines.
func (w *world) cutPower(names ...string) {
	w.with(func() {
		for _, name := range names {
			w.pcs[name].powerOff()
		}
	})
}

// pass lets time go on.
func (w *world) pass(d time.Duration) { pace.Wait(context.Background(), d) }
