package failover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

// watchAgain is the pause before a cluster that could not be watched at all is
// tried again.
const watchAgain = 30 * time.Second

// ControllerOptions are the parts of a Controller. All are required.
type ControllerOptions struct {
	Self          string // own server ID
	Peer          string // own name, for the steps in the log
	Log           Log
	Clusters      []Cluster     // each of its own name
	Left          []LeftCluster // that are named while the mode is off
	Fences        Fences
	Unread        func() string // that of JudgeOptions; nil: the devices are always those of their file
	KubeletProber KubeletProber // asks a kubelet after its machine was read off
	Finder        Finder        // of the peers' hosts
	// Machine returns what a peer, by its server ID, last told of its machine; false while
	// that may be old or unknown. nil: peers tell nothing.
	Machine  func(peer string) (Identity, bool)
	Settings Settings         // at first; Renew replaces them
	Wall     func() time.Time // for display
	Logger   *slog.Logger
	// Report records what mode noobaa did, which no command does; nil: it is not recorded.
	Report func(eventring.Report)
}

// Controller is the leader's duty that watches the clusters, judges who is dead and
// moves the work of the dead elsewhere. It keeps nothing over a leadership: the
// next leader finds in the log how far each remediation has come, and goes on
// there. Run runs once at a time; all other methods may be called concurrently.
type Controller struct {
	o        ControllerOptions
	settings atomic.Pointer[Settings]

	mu       sync.Mutex
	clusters []*clusterController // of the present leadership; nil without one
}

var _ leader.Duty = (*Controller)(nil)

// NewController returns a controller that does nothing until it runs.
func NewController(o ControllerOptions) *Controller {
	c := &Controller{o: o}
	c.settings.Store(&o.Settings)
	return c
}

// Renew makes other settings count, also under a leadership that has begun: for
// every look at the kube nodes and every step of a remediation from now on. Mode,
// dry run, probes, and how calls are repeated stay what they were: work was begun
// by them.
func (c *Controller) Renew(s Settings) {
	s.Mode, s.DryRun, s.Probe, s.NooBaa = c.o.Settings.Mode, c.o.Settings.DryRun, c.o.Settings.Probe, c.o.Settings.NooBaa
	was := c.o.Settings.Remedy
	s.Remedy.Retries, s.Remedy.RetryInterval, s.Remedy.Timeout = was.Retries, was.RetryInterval, was.Timeout
	c.settings.Store(&s)
}

// Settings returns the settings in force, which are never changed in place.
func (c *Controller) Settings() Settings { return *c.settings.Load() }

// Name implements leader.Duty.
func (*Controller) Name() string { return "failover" }

// Run implements leader.Duty. A cluster that cannot be watched is no reason to
// give leadership up: it is told in the log and tried again.
func (c *Controller) Run(ctx context.Context, a leader.Authority) error {
	var controllers []*clusterController
	peers, all := newPeerHosts(c.o.Finder, c.o.Self), make(trackers)
	peers.told = c.o.Machine
	for _, cluster := range c.o.Clusters {
		controllers = append(controllers, newClusterController(c.o, c.Settings, cluster, a, peers, all))
	}
	c.lead(controllers)
	defer c.lead(nil)
	var running sync.WaitGroup
	if len(controllers) > 0 {
		running.Go(func() { peers.findAddresses(ctx, c.o.Log) })
	}
	for _, s := range controllers {
		running.Go(func() { s.run(ctx) })
	}
	running.Go(func() { c.endLeft(ctx, a, peers) })
	running.Wait()
	return nil
}

func (c *Controller) lead(controllers []*clusterController) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clusters = controllers
}

// Verdicts returns what is thought of every kube node of a cluster, by name; nil
// while this peer does not lead, for it knows nothing then.
func (c *Controller) Verdicts(cluster string) []Verdict {
	if s := c.clusterController(cluster); s != nil {
		return s.verdicts()
	}
	return nil
}

// Watched returns what is seen of a cluster now, and false while this peer does
// not lead.
func (c *Controller) Watched(cluster string) (w Watched, leads bool) {
	if s := c.clusterController(cluster); s != nil {
		return s.tracker.Look(), true
	}
	return Watched{}, false
}

// Places says where each peer runs, as it was at most placeEvery ago; nil while this peer
// does not lead, or has seen no kube node.
func (c *Controller) Places() (all []Place) {
	c.mu.Lock()
	controllers := slices.Clone(c.clusters)
	c.mu.Unlock()
	for _, s := range controllers {
		all = merge(all, s.judge.Places())
	}
	return all
}

// Judge returns the judge of a cluster, nil while this peer does not lead. What it
// says lacks why a remediation was not begun in the end; Verdicts has that.
func (c *Controller) Judge(cluster string) *Judge {
	if s := c.clusterController(cluster); s != nil {
		return s.judge
	}
	return nil
}

func (c *Controller) clusterController(cluster string) *clusterController {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.clusters {
		if s.cluster.Name() == cluster {
			return s
		}
	}
	return nil
}

// ErrNotLeading says that another peer watches the clusters, or that there is no
// cluster of that name.
var ErrNotLeading = errors.New("this peer does not watch such a cluster")

// Machine says which machine a kube node of a cluster is, as far as this peer knows: the
// leader alone knows of the other kube nodes, and whether one tells the same UUID.
func (c *Controller) Machine(cluster string, n Node) Machine {
	if j := c.Judge(cluster); j != nil {
		return j.machine(n)
	}
	return MachineOf(cluster, n)
}

// Simulate says what would be done if a kube node died now. It changes nothing.
func (c *Controller) Simulate(cluster, node string, mode Mode) (Verdict, error) {
	j := c.Judge(cluster)
	if j == nil {
		return Verdict{}, fmt.Errorf("%w: %q", ErrNotLeading, cluster)
	}
	return j.Simulate(node, mode)
}
