package app

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/trivet-ha/trivet/api/events"
	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/app/health"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/failover/fence"
	"github.com/trivet-ha/trivet/failover/kube"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

// Failover is what a peer needs to move the work of dead kube nodes, besides the
// log. Its maker closes what it holds when the Core has ended.
type Failover struct {
	Settings      failover.Settings
	Name          string // this peer's, for texts
	Clusters      []failover.Cluster
	Left          []failover.LeftCluster // that are named while it is off
	Fences        failover.Fences
	Unread        func() string // why those are not the devices that their file has now; nil: they always are
	KubeletProber failover.KubeletProber
	Finder        failover.Finder
}

// openFailover is what the configuration makes of a Failover. It reads files and opens no
// connection; while failover is off it does neither.
func (k *kubernetes) openFailover(o Options, peer string, ironic fencedIronic, opened *closers) (err error) {
	conf := o.Config.Failover
	if conf.Mode == config.FailoverOff {
		k.off, err = leftOpen(o, peer)
		return err
	}
	settings, err := kubeSettings(conf)
	if err != nil {
		return err
	}
	figures := health.NewKubeFigures()
	made := &Failover{Settings: settings, Name: peer, Fences: noFences{}, Finder: &failover.SystemFinder{}}
	if conf.Mode == config.FailoverSafe {
		use := machineUse{ironic, func(uuid string) (introspection.Record, bool) { return k.log.View().Record(uuid) }}
		fences := &fenceList{open: o.fenceOpener(ironic, use.why)}
		put, err := fences.prepare(o.Config)
		if err != nil {
			return err
		}
		put()
		opened.addFunc("fences", fences.close)
		made.Fences, k.fences = figures.CountFences(fences), fences
	}
	for _, c := range conf.Clusters() {
		cluster, err := openCluster(o, peer, c)
		if err != nil {
			return fmt.Errorf("failover: %w", err)
		}
		opened.addFunc("failover cluster "+c.Name, cluster.Close)
		made.Clusters = append(made.Clusters, figures.CountDeletions(cluster))
	}
	kubelets := failover.NewKubelets(conf.Detection.ProbeTimeout)
	opened.addFunc("kubelets", kubelets.Close)
	made.KubeletProber = figures.CountProbes(kubelets)
	k.failover, k.figures = made, figures
	return nil
}

// fencedIronic is what fence devices need of Ironic, and Node.
type fencedIronic interface {
	fence.Ironic
	Node(ctx context.Context, ref string) (ironic.Node, error)
}

// machineUse tells for what a machine is used that would break without power.
type machineUse struct {
	ironic fencedIronic
	record func(uuid string) (introspection.Record, bool) // in the log
}

// why is fence.Options' InUse. The node is the one that would get the command, and nothing is guessed.
func (u machineUse) why(ctx context.Context, uuid string) (string, error) {
	const meanwhile = "its power is not taken meanwhile"
	n, err := u.ironic.Node(ctx, uuid)
	r, _ := u.record(uuid)
	switch {
	case err != nil || n.Deployed(): // what has a workload no introspection boots
		return "", err
	case n.Worked():
		return fmt.Sprintf("Ironic's node %s is in state %q: %s", uuid, n.Provision, meanwhile), nil
	case r.ManageBoot && r.State.Active() && r.State != introspection.NodeReapplying: // stored data boots nothing
		return fmt.Sprintf("Ironic's node %s is introspected (%v): %s", uuid, r.State, meanwhile), nil
	}
	return "", nil
}

// fenceOpener returns what opens a file of devices, by the clusters and limits with which this peer started.
func (o Options) fenceOpener(ironic fence.Ironic, inUse func(context.Context, string) (string, error)) func(
	file string) (*fence.List, error) {
	conf := o.Config.Failover
	var names []string
	for _, c := range conf.Clusters() {
		names = append(names, c.Name)
	}
	return func(file string) (*fence.List, error) {
		return fence.Open(file, fence.Options{
			Clusters: names, Ironic: ironic, InUse: inUse,
			Limits: fence.Limits{Retries: conf.Retries, Interval: conf.RetryPause, Timeout: conf.Timeout}, Logger: o.Logger,
		})
	}
}

// fenceList is the list of devices in force, which a reload replaces in one step: a command that
// has begun ends by the list with which it began. Its methods may be called concurrently.
type fenceList struct {
	open func(file string) (*fence.List, error)
	now  atomic.Pointer[fence.List] // nil before the first
}

// For implements failover.Fences.
func (l *fenceList) For(m failover.Machine) []failover.Device { return l.now.Load().For(m) }

// prepare opens the list of a configuration next to the one in force.
func (l *fenceList) prepare(next config.Config) (put func(), err error) {
	if l == nil { // nothing is fenced
		return func() {}, nil
	}
	list, err := l.open(next.Failover.FenceFile)
	if err != nil {
		return nil, err
	}
	return func() {
		if old := l.now.Swap(list); old != nil {
			old.Close()
		}
	}, nil
}

func (l *fenceList) close() { l.now.Load().Close() }

// unreadFences tells of this host what holds the machines whose devices an operator has mended in the fence file.
type unreadFences struct {
	conf  *admin.Configuration
	texts *fileTexts
	host  string
}

// why is failover.ControllerOptions' Unread.
func (u unreadFences) why() string {
	const key = "failover.fence_file"
	act := "reload"
	switch {
	case slices.Contains(u.conf.Waiting(), key):
		act = "restart"
	case !slices.Contains(u.texts.unreadNow(u.conf.Current()), key):
		return ""
	}
	return fmt.Sprintf("%s was changed on host %s, which leads and has not read it since: 'trivet config check' and 'systemctl "+
		"%s trivet' there, before the device that was found out is used again", key, u.host, act)
}

func openCluster(o Options, peer string, c config.KubeCluster) (*kube.Cluster, error) {
	return kube.Open(kube.Options{
		Name: c.Name, Kubeconfig: c.Kubeconfig, Timeout: o.Config.Failover.Timeout, Peer: peer, Wall: o.Wall,
		Logger: o.Logger,
	})
}

// leftOpen is failover that is off: it ends what was begun before that.
func leftOpen(o Options, peer string) (*Failover, error) {
	conf := o.Config.Failover
	conf.Filter = config.FailoverFilter{} // nothing is selected, and a selector may be in error
	settings, err := kubeSettings(conf)
	if err != nil {
		return nil, err
	}
	made := &Failover{Settings: settings, Name: peer, Fences: noFences{}, Finder: &failover.SystemFinder{}}
	for _, c := range conf.Clusters() {
		made.Left = append(made.Left, failover.LeftCluster{Name: c.Name, Open: func() (failover.Cluster, func(), error) {
			cluster, err := openCluster(o, peer, c)
			if err != nil {
				return nil, nil, err
			}
			return cluster, cluster.Close, nil
		}})
	}
	return made, nil
}

// kubernetes are the parts of a Peer for Kubernetes, besides its Core.
type kubernetes struct {
	failover   *Failover  // nil: it is off
	fences     *fenceList // nil: nothing is fenced
	off        *Failover  // nil: it is on
	figures    *health.KubeFigures
	log        lateLog // for what machines are used
	components haParts
}

// noFences is mode noobaa's: nothing is fenced.
type noFences struct{}

// For implements failover.Fences.
func (noFences) For(failover.Machine) []failover.Device { return nil }

// kubeSettings translates the configuration, whose values were checked one by
// one, but for selectors.
func kubeSettings(conf config.Failover) (s failover.Settings, err error) {
	s = failover.Settings{
		Mode: failover.Mode(conf.Mode), DryRun: conf.DryRun,
		Detection: failover.Detection{LeaseAge: conf.Detection.LeaseAge, Hold: conf.Detection.Hold,
			NotReadyAfter: conf.Detection.NotReadyAfter},
		Probe: failover.Probe{Interval: conf.Detection.ProbeInterval, Timeout: conf.Detection.ProbeTimeout,
			Misses: conf.Detection.ProbeMisses},
		Guard: failover.Guard{StormCooldown: conf.Guard.StormCooldown, NodeRate: conf.Guard.NodeRate,
			HealthyDelay: conf.Guard.HealthyDelay},
		Remedy: failover.Remedy{PowerOn: conf.PowerOn, Retries: conf.Retries, RetryInterval: conf.RetryPause,
			Timeout: conf.Timeout},
		NooBaa: failover.NooBaa{Namespace: conf.NooBaa.Namespace, Exempt: conf.NooBaa.ExemptPrefixes},
	}
	if s.Guard.MinHealthy, err = failover.ParseShare(conf.Guard.MinHealthy); err != nil {
		return s, fmt.Errorf("failover.min_healthy: %w", err)
	}
	if s.Guard.MaxUnhealthy, err = failover.ParseShare(conf.Guard.MaxUnhealthy); err != nil {
		return s, fmt.Errorf("failover.max_unhealthy: %w", err)
	}
	pods, err := selector("failover.pod_selector", conf.Filter.PodSelector)
	if err != nil {
		return s, err
	}
	nodes, err := selector("failover.node_selector", conf.Filter.NodeSelector)
	if err != nil {
		return s, err
	}
	if namespaces := conf.Filter.Namespaces; pods != nil || len(namespaces) > 0 {
		s.Remedy.Pods = func(p failover.Pod) bool {
			return (len(namespaces) == 0 || slices.Contains(namespaces, p.Namespace)) &&
				(pods == nil || pods.Matches(labels.Set(p.Labels)))
		}
	}
	if nodes != nil {
		s.Remedy.Nodes = func(n failover.Node) bool { return nodes.Matches(labels.Set(n.Labels)) }
	}
	return s, nil
}

// selector reads one of Kubernetes' selectors; nil for none, which matches all.
func selector(key, text string) (labels.Selector, error) {
	if text == "" {
		return nil, nil
	}
	s, err := labels.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; write it as in app=noobaa,tier!=cache", key, err)
	}
	return s, nil
}

// kubeWatch is the part of a Core for kube nodes.
type kubeWatch struct {
	made       Failover
	Controller *failover.Controller
	Prober     *failover.Prober
	reports    *events.Reporter // of mode noobaa, whose deeds are no commands
}

func newKubeWatch(o Failover, self cluster.Self, c *Core, wall func() time.Time, log *slog.Logger) *kubeWatch {
	reports := events.NewReporter(events.ReporterOptions{Do: c.Session, View: c.Store.View, Wall: wall, Logger: log})
	return &kubeWatch{
		made: o, reports: reports,
		Controller: failover.NewController(failover.ControllerOptions{
			Self: self.Peer, Peer: o.Name, Log: c.Store, Clusters: o.Clusters, Left: o.Left, Fences: o.Fences,
			Unread: o.Unread, KubeletProber: o.KubeletProber, Finder: o.Finder,
			Machine: machines(c.Contacts), Settings: o.Settings, Wall: wall, Logger: log, Report: reports.Report,
		}),
		Prober: failover.NewProber(failover.ProberOptions{
			Log: c.Store, Voter: c.Session, KubeletProber: o.KubeletProber, Probe: o.Settings.Probe, Wall: wall, Logger: log,
		}),
	}
}
