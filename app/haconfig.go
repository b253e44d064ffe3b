package app

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/haconfig"
	hakube "github.com/trivet-ha/trivet/haconfig/kube"
	"github.com/trivet-ha/trivet/internal/httpserver"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

// reviewTimeout is what a review may take here. The registration gives ten
// seconds: a refusal that says why is better than none.
const reviewTimeout = 8 * time.Second

// haParts are the parts of a Peer for deployed components. The zero value is
// haconfig that is off.
type haParts struct {
	cluster *hakube.Cluster // nil: off
	log     *lateLog
	keeper  *haconfig.Keeper
	figures *componentFigures
}

// lateLog is the state of a log that is opened later than whoever reads it. Until
// then it is that of a peer without one.
type lateLog struct {
	store atomic.Pointer[raftstore.Store]
}

// CA implements haconfig.Peers.
func (l *lateLog) CA() []byte { return l.View().Secrets().CACert }

// Addresses implements haconfig.Peers.
func (l *lateLog) Addresses() (all []string) {
	for _, m := range l.View().Members() {
		all = append(all, m.Address)
	}
	return all
}

// View is the present state.
func (l *lateLog) View() fsm.View {
	if store := l.store.Load(); store != nil {
		return store.View()
	}
	return fsm.New().View()
}

// componentFigures count reviews.
type componentFigures struct {
	reviews *prometheus.CounterVec // result
	seconds prometheus.Histogram
}

func newComponentFigures() *componentFigures {
	f := &componentFigures{
		reviews: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "trivet", Name: "haconfig_reviews_total",
			Help: "Admission reviews that this peer answered: changed, unchanged, refused for what the object says, failed for what could not be read, malformed, busy."}, []string{"result"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "trivet", Name: "haconfig_review_seconds",
			Help:    "How long this peer took to answer an admission review.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 2.5, 10}}),
	}
	for _, result := range []string{haconfig.ResultChanged, haconfig.ResultUnchanged, haconfig.ResultRefused, haconfig.ResultFailed, haconfig.ResultMalformed, haconfig.ResultBusy} {
		f.reviews.WithLabelValues(result) // so that each is there from the start
	}
	return f
}

func (f *componentFigures) observe(result string, took time.Duration) {
	f.reviews.WithLabelValues(result).Inc()
	f.seconds.Observe(took.Seconds())
}

// openComponents is what the configuration makes of it: nothing at all while it is
// off. It reads files and talks to nobody.
func (p *Peer) openComponents(context.Context) error {
	conf := p.opts.Config.HAConfig
	if !conf.On() {
		return nil
	}
	cluster, err := hakube.Open(hakube.Options{Kubeconfig: conf.Kubeconfig, Names: haconfig.Names{Prefix: conf.Prefix}, Now: time.Now})
	if err != nil {
		return fmt.Errorf("haconfig: %w", err)
	}
	p.opened.addFunc("haconfig cluster", cluster.Close)
	c := haParts{cluster: cluster, log: &lateLog{}, figures: newComponentFigures()}
	prober := haconfig.NewHTTPProber(c.log)
	p.opened.addFunc("haconfig prober", prober.Close)
	keep := haconfig.KeeperOptions{Peers: c.log, Registry: cluster, Registration: conf.Registration, Prober: prober, Logger: p.opts.Logger,
		More: []func(leader.Authority) haconfig.Chore{haconfig.Retrigger(cluster)}}
	if rules := namespaceRules(conf); len(rules) > 0 {
		keep.More = append(keep.More, haconfig.Annotate(haconfig.AnnotatorOptions{
			Namespaces: cluster, View: c.log.View, Names: haconfig.Names{Prefix: conf.Prefix}, Rules: rules, Never: append(hakube.Never(), conf.Namespace), Logger: p.opts.Logger,
		}))
	}
	if conf.Budgets {
		keep.More = append(keep.More, haconfig.Guard(cluster, haconfig.Names{Prefix: conf.Prefix}, p.opts.Logger))
	}
	if conf.Via == config.HAViaEndpoints {
		port, err := portOf(conf.Listen)
		if err != nil {
			return fmt.Errorf("haconfig.listen: %w", err)
		}
		keep.Slices, keep.Endpoints = cluster, haconfig.Endpoints{Namespace: conf.Namespace, Service: conf.Service, Port: port}
	}
	c.keeper = haconfig.NewKeeper(keep)
	p.ha = c
	return nil
}

// namespaceRules translates those of the configuration.
func namespaceRules(conf config.HAConfig) (rules []haconfig.Rule) {
	for _, r := range conf.Rules() {
		rules = append(rules, haconfig.Rule{Name: r.Name, Labels: r.Labels, Consider: r.Consider, Tolerance: r.Tolerance, Zones: r.Zones, Pinning: r.Pinning})
	}
	return rules
}

// warnings are what the leader cannot keep in the cluster, where this peer leads.
func (c haParts) warnings() (out []api.Warning) {
	if c.cluster == nil {
		return nil
	}
	faults := c.keeper.Faults()
	for _, what := range slices.Sorted(maps.Keys(faults)) {
		out = append(out, api.Warning{Code: "haconfig_not_kept", Text: what + ": " + strings.ReplaceAll(faults[what], "\n", "; "),
			Remedy: "see docs/haconfig.md, \"When something is wrong\"; it is tried again all the time"})
	}
	return out
}

func portOf(address string) (int32, error) {
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		return 0, err
	}
	port, err := strconv.ParseUint(text, 10, 16)
	return int32(port), err
}

// duties are what the leader does for components.
func (c haParts) duties() []leader.Duty {
	if c.cluster == nil {
		return nil
	}
	return []leader.Duty{c.keeper}
}

// conventions translates the configuration, whose values were checked.
func conventions(conf config.HAConfig) haconfig.Conventions {
	seconds := func(n int) *int64 {
		if n < 0 {
			return nil
		}
		long := int64(n)
		return &long
	}
	strict := func(quirk string) bool { return slices.Contains(conf.Strict, quirk) }
	return haconfig.Conventions{
		Names: haconfig.Names{Prefix: conf.Prefix}, NotReadySeconds: seconds(conf.NotReady), UnreachableSeconds: seconds(conf.Unreachable),
		Strict: haconfig.Strict{
			Replicas: strict(config.QuirkReplicas), Selector: strict(config.QuirkSelector), Autoscaler: strict(config.QuirkAutoscaler), Zones: strict(config.QuirkZones),
		},
	}
}

// serveComponents opens the webhook's port. The certificate is made by this peer
// itself, from the CA in its state, so that it needs no other peer.
func (p *Peer) serveComponents(ctx context.Context) error {
	c := p.ha
	if c.cluster == nil {
		return nil
	}
	conf := p.opts.Config.HAConfig
	c.log.store.Store(p.core.Store)
	ln, err := listen(ctx, "haconfig.listen", conf.Listen)
	if err != nil {
		return err
	}
	p.registry.MustRegister(c.figures.reviews, c.figures.seconds)
	issued := &api.Issued{
		Peer: p.id.ID, Names: append(p.serverNames(), p.serviceNames()...), View: c.log.View,
		Wall: p.opts.Wall, Random: p.opts.Random, Logger: p.opts.Logger,
	}
	reviews := haconfig.NewHandler(haconfig.HandlerOptions{
		Cluster: c.cluster, Conventions: conventions(conf), Timeout: reviewTimeout, Admission: p.doorway.admission, Observe: c.figures.observe, Logger: p.opts.Logger,
	})
	p.start(ln, httpserver.New(p.publicServer(reviews, api.TLS(issued.Get))))
	run, stop := context.WithCancel(context.Background())
	p.opened.addFunc("haconfig caches", stop)
	p.running.Go(func() { c.cluster.Run(run) })
	return nil
}

// serviceNames are the names by which the API server calls a Service.
func (p *Peer) serviceNames() []string {
	conf := p.opts.Config.HAConfig
	name := conf.Service + "." + conf.Namespace
	return []string{name, name + ".svc", name + ".svc.cluster.local"}
}
