package app

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/health"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/doctor"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/haconfig"
	hakube "github.com/trivet-ha/trivet/haconfig/kube"
	"github.com/trivet-ha/trivet/internal/httpserver"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

// reviewTimeout is what a review may take here. The registration gives ten
// seconds: a refusal that says why is better than none.
const reviewTimeout = 8 * time.Second

// haParts are the parts of a Peer for deployed components. The zero value is
// haconfig that is off.
type haParts struct {
	clusters []haCluster // none: off
	log      *lateLog
	reviews  *prometheus.CounterVec   // cluster, result
	seconds  *prometheus.HistogramVec // cluster
}

// haCluster is one cluster whose components are looked after.
type haCluster struct {
	name   string
	kube   *hakube.Cluster
	keeper *haconfig.Keeper
}

// lateLog is the state of a log that is opened later than its readers. Until
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

// answers is the figure that says whether the API server of a cluster answers here.
func (c haCluster) answers() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "trivet", Name: "haconfig_api_server_answers",
		Help:        "1 while the API server of a cluster answers this peer what reviews need; components of one that does not are refused here.",
		ConstLabels: prometheus.Labels{"cluster": c.name}},
		func() float64 { return health.BoolValue(c.kube.Ready() == nil) })
}

// openComponents is what the configuration makes of it: nothing at all while it is
// off. It reads files and opens no connection.
func openComponents(o Options, closing *closers) (haParts, error) {
	conf := o.Config.HAConfig
	if !conf.On() {
		return haParts{}, nil
	}
	var annotated []string
	for _, c := range conf.Clusters() {
		if len(conf.Rules(c.Name)) > 0 {
			annotated = append(annotated, c.Name)
		}
	}
	parts := haParts{
		log: &lateLog{},
		reviews: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "trivet", Name: "haconfig_reviews_total",
			Help: "Admission reviews that this peer answered, by cluster, which is empty for a path that names none: changed, unchanged, refused for what the object says, failed for what could not be read, malformed, busy."},
			[]string{"cluster", "result"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "trivet", Name: "haconfig_review_seconds",
			Help:    "How long this peer took to answer an admission review of a cluster.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 2.5, 10}}, []string{"cluster"}),
	}
	census := haconfig.NewCensus(annotated...)
	for _, c := range conf.Clusters() {
		opened, err := openComponentsOf(c, o, parts.log, census, closing)
		if err != nil {
			return haParts{}, fmt.Errorf("haconfig: cluster %s: %w", c.Name, err)
		}
		parts.clusters = append(parts.clusters, opened)
		parts.seconds.WithLabelValues(c.Name)
		for _, result := range []string{haconfig.ResultChanged, haconfig.ResultUnchanged, haconfig.ResultRefused,
			haconfig.ResultFailed, haconfig.ResultMalformed, haconfig.ResultBusy} {
			parts.reviews.WithLabelValues(c.Name, result) // so that each is there from the start
		}
	}
	return parts, nil
}

// openComponentsOf opens one cluster, and makes what the leader does in it.
func openComponentsOf(c config.KubeCluster, o Options, log *lateLog, census *haconfig.Census,
	opened *closers) (haCluster, error) {
	conf := o.Config.HAConfig
	names, logger := haconfig.Names{Prefix: conf.Prefix}, o.Logger.With("cluster", c.Name)
	cluster, err := hakube.Open(hakube.Options{Kubeconfig: c.Kubeconfig, Names: names, Now: time.Now})
	if err != nil {
		return haCluster{}, err
	}
	opened.addFunc("haconfig cluster "+c.Name, cluster.Close)
	prober := haconfig.NewHTTPProber(log, c.Name)
	opened.addFunc("haconfig prober of "+c.Name, prober.Close)
	keep := haconfig.KeeperOptions{
		Cluster: c.Name, Alone: len(conf.Clusters()) == 1, Peers: log, Registry: cluster, Registration: conf.Registration,
		Prober: prober, Logger: o.Logger,
		More: []func(leader.Authority) haconfig.Chore{haconfig.Retrigger(cluster)},
	}
	var rules []haconfig.Rule
	for _, r := range conf.Rules(c.Name) {
		rules = append(rules, haconfig.Rule{Name: r.Name, Labels: r.Labels, Consider: r.Consider, Tolerance: r.Tolerance,
			Zones: r.Zones, FromNodes: r.FromNodes, Pinning: r.Pinning})
	}
	if len(rules) > 0 {
		keep.More = append(keep.More, haconfig.Annotate(haconfig.AnnotatorOptions{
			Cluster: c.Name, Census: census, Namespaces: cluster, Topology: cluster, View: log.View, Names: names, Rules: rules,
			Never: append(hakube.Never(), conf.Namespace), Logger: logger,
		}))
	}
	if conf.Budgets {
		keep.More = append(keep.More, haconfig.Guard(cluster, HAConventions(conf, c.Name), logger))
	}
	_, text, err := net.SplitHostPort(conf.Listen)
	number, unlike := strconv.ParseUint(text, 10, 16)
	if err := cmp.Or(err, unlike); err != nil {
		return haCluster{}, fmt.Errorf("haconfig.listen: %w", err)
	}
	port := int32(number)
	keep.Place, keep.Names = webhookPlace(o.Config, port), o.Config.API.TLS.Names
	if conf.Via == config.HAViaEndpoints {
		keep.Slices, keep.Endpoints = cluster,
			haconfig.Endpoints{Namespace: conf.Namespace, Service: conf.Service, Port: port}
	}
	return haCluster{name: c.Name, kube: cluster, keeper: haconfig.NewKeeper(keep)}, nil
}

// webhookPlace is where a registration of 'trivet haconfig manifest' asks, "" without a floating IP to ask.
func webhookPlace(conf config.Config, port int32) string {
	if conf.HAConfig.Via == config.HAViaEndpoints {
		return conf.HAConfig.Namespace + "/" + conf.HAConfig.Service
	}
	at, err := config.FloatingAddress(conf.FloatingIP.Address)
	if err != nil {
		return ""
	}
	return netip.AddrPortFrom(at, uint16(port)).String()
}

// warnings are which API servers do not answer this peer, and what it cannot keep in
// clusters where it leads.
func (c haParts) warnings() (out []api.Warning) {
	for _, of := range c.clusters {
		if err := of.kube.Silent(); err != nil {
			out = append(out, api.Warning{Code: "haconfig_api_silent",
				Text:   "cluster " + of.name + ": " + err.Error() + "; its components are refused here",
				Remedy: "see whether it answers this host with the kubeconfig named in haconfig; the other clusters are served"})
		}
		faults := of.keeper.Faults()
		for _, what := range slices.Sorted(maps.Keys(faults)) {
			out = append(out, api.Warning{Code: "haconfig_not_kept",
				Text:   "cluster " + of.name + ": " + what + ": " + strings.ReplaceAll(faults[what], "\n", "; "),
				Remedy: "see docs/haconfig.md, \"When something is wrong\"; it is tried again all the time"})
		}
	}
	return out
}

// services say to doctor which API servers answer this peer.
func (c haParts) services() (out []doctor.Service) {
	for _, of := range c.clusters {
		out = append(out, doctor.Service{What: "the API server of " + of.name, Section: "haconfig",
			Error: api.ErrorText(of.kube.Silent())})
	}
	return out
}

// duties are what the leader does for components.
func (c haParts) duties() (all []leader.Duty) {
	for _, of := range c.clusters {
		all = append(all, of.keeper)
	}
	return all
}

// HAConventions translates the configuration for a cluster. Its values were checked.
func HAConventions(conf config.HAConfig, cluster string) haconfig.Conventions {
	var rules []haconfig.ComponentRule
	for _, r := range conf.ComponentRules(cluster) {
		rules = append(rules, haconfig.ComponentRule{Namespace: r.Namespace, Name: r.Name, Labels: r.Labels, Type: r.Type})
	}
	seconds := func(n int) *int64 {
		if n < 0 {
			return nil
		}
		long := int64(n)
		return &long
	}
	strict := func(quirk string) bool { return slices.Contains(conf.Strict, quirk) }
	return haconfig.Conventions{
		Names: haconfig.Names{Prefix: conf.Prefix}, NotReadySeconds: seconds(conf.NotReady),
		UnreachableSeconds: seconds(conf.Unreachable),
		Strict: haconfig.Strict{
			Replicas: strict(config.QuirkReplicas), Selector: strict(config.QuirkSelector),
			Autoscaler: strict(config.QuirkAutoscaler), Zones: strict(config.QuirkZones),
		},
		Components: rules,
	}
}

// serveComponents opens the webhook's port. The certificate is made by this peer
// itself, from the CA in its state, so that it needs no other peer.
func (p *Peer) serveComponents(ctx context.Context) error {
	c := p.kube.components
	if len(c.clusters) == 0 {
		return nil
	}
	conf := p.opts.Config.HAConfig
	c.log.store.Store(p.core.Store)
	ln, err := listen(ctx, "haconfig.listen", conf.Listen)
	if err != nil {
		return err
	}
	p.figures.MustRegister(c.reviews, c.seconds)
	service := conf.Service + "." + conf.Namespace // the API server calls it by this name or a longer one
	issued := p.issued(append(serverNames(p.opts.Config, p.id), service, service+".svc", service+".svc.cluster.local"))
	var served []haconfig.Served
	for _, of := range c.clusters {
		p.figures.MustRegister(of.answers())
		served = append(served, haconfig.Served{Name: of.name, Cluster: of.kube, Conventions: HAConventions(conf, of.name)})
	}
	reviews := haconfig.NewHandler(haconfig.HandlerOptions{
		Clusters: served, Timeout: reviewTimeout, Admission: p.serving.admission, Logger: p.opts.Logger,
		Observe: func(cluster, result string, took time.Duration) {
			c.reviews.WithLabelValues(cluster, result).Inc()
			c.seconds.WithLabelValues(cluster).Observe(took.Seconds())
		},
	})
	p.serving.start(ln, httpserver.New(p.serving.public(admission.Webhook, reviews, api.TLS(issued.Get))))
	run, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	p.opened.addFunc("haconfig caches", func() { stop(); running.Wait() }) // before the clusters are closed
	for _, of := range c.clusters {
		running.Go(func() { of.kube.Run(run) })
	}
	return nil
}
