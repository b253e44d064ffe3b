package failover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/leader"
)

// watchAgain is the pause before a cluster that could not be watched at all is
// tried anew.
const watchAgain = 30 * time.Second

// Options are the parts of a Controller. All are required.
type Options struct {
	Peer     string // own server ID
	Log      Log
	Clusters []Cluster // each of its own name
	Fences   Fences
	Knocker  Knocker // asks a kubelet after its machine was read off
	Settings Settings
	Wall     func() time.Time // for display
	Logger   *slog.Logger
}

// Controller is the leader's duty that watches the clusters, judges who is dead
// and moves the work of the dead elsewhere. It keeps nothing over a leadership:
// whoever leads next finds in the log how far each remediation has come, and goes
// on there. Run runs once at a time; all other methods may be called
// concurrently.
type Controller struct {
	o Options

	mu    sync.Mutex
	sites []*site // of the present leadership; nil without one
}

var _ leader.Duty = (*Controller)(nil)

// NewController returns a controller that does nothing until it runs.
func NewController(o Options) *Controller { return &Controller{o: o} }

// Name implements leader.Duty.
func (*Controller) Name() string { return "failover" }

// Run implements leader.Duty. A cluster that cannot be watched is no reason to
// give leadership up: it is told in the log and tried again.
func (c *Controller) Run(ctx context.Context, a leader.Authority) error {
	var sites []*site
	if c.o.Settings.Mode != ModeOff {
		for _, cluster := range c.o.Clusters {
			sites = append(sites, newSite(c.o, cluster, a))
		}
	}
	c.lead(sites)
	defer c.lead(nil)
	var running sync.WaitGroup
	for _, s := range sites {
		running.Go(func() { s.run(ctx) })
	}
	running.Wait()
	<-ctx.Done()
	return nil
}

func (c *Controller) lead(sites []*site) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sites = sites
}

func (c *Controller) led() []*site {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sites
}

// Verdicts returns what is thought of every kube node, cluster by cluster in the
// order of the configuration, and whether this peer leads: it knows nothing
// otherwise.
func (c *Controller) Verdicts() (all []Verdict, leads bool) {
	sites := c.led()
	for _, s := range sites {
		all = append(all, s.verdicts()...)
	}
	return all, sites != nil
}

// Errors of Simulate.
var (
	// ErrNotLeading says that another peer watches the clusters.
	ErrNotLeading = errors.New("this peer does not watch the clusters")
	// ErrNoCluster says that no cluster of that name is configured.
	ErrNoCluster = errors.New("no such cluster")
)

// Simulate says what would be done if a kube node died now. It changes nothing.
// The name of the cluster may be "" if there is but one.
func (c *Controller) Simulate(cluster, node string) (Verdict, error) {
	sites := c.led()
	if sites == nil {
		return Verdict{}, ErrNotLeading
	}
	for _, s := range sites {
		if s.cluster.Name() == cluster || cluster == "" && len(sites) == 1 {
			return s.judge.Simulate(node)
		}
	}
	return Verdict{}, fmt.Errorf("%w: %q", ErrNoCluster, cluster)
}
