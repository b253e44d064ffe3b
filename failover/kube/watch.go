package kube

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"

	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/internal/kubeclient"
)

// leaseNamespace is where every kubelet renews the Lease of its Node's name.
const leaseNamespace = "kube-node-lease"

// answerTimeout bounds Answers: an API server that takes longer does not answer.
const answerTimeout = 2 * time.Second

// retryBackoff is between tries to list and watch: 0.2 s at first, never above 3 s.
// client-go's own ends at a minute, in which a returned API server would look like
// one whose kube nodes are all silent.
var retryBackoff = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 5,
	Cap: 2 * time.Second}

// Watch implements failover.Watcher. A kind of object that cannot be followed is
// tried again until ctx ends; meanwhile Answers fails.
func (c *Cluster) Watch(ctx context.Context, seen failover.Seen, synced func()) error {
	ctx = kubeclient.Quiet(ctx)
	var workers sync.WaitGroup
	defer workers.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer c.sight.close()
	m := &memory{ctx: ctx, seen: seen, synced: synced}
	for _, kind := range []followed{c.nodes(), c.leases()} {
		reflector := kind.reflector(m)
		workers.Go(func() { reflector.RunWithContext(ctx) })
	}
	<-ctx.Done()
	return nil
}

// Answers implements failover.Watcher. It fails, too, while Nodes or Leases cannot
// be followed: then the silence of a kube node means nothing.
func (c *Cluster) Answers(ctx context.Context) error {
	ctx, cancel := bound(ctx, min(c.timeout, answerTimeout))
	defer cancel()
	err := c.core.Get().AbsPath("/readyz").Throttle(flowcontrol.NewFakeAlwaysRateLimiter()).MaxRetries(0).Do(ctx).Error()
	if err != nil {
		return ask{"get", "/readyz", ""}.failed(ctx, err)
	}
	return c.sight.err()
}

// followed is a kind of object that is listed and watched.
type followed struct {
	client    *rest.RESTClient
	resource  string
	called    string // with its group, for errors
	namespace string
	object    runtime.Object
	list      func() runtime.Object // an empty one
	strip     func(runtime.Object)  // what is in a list, before it is gathered
	store     func(*memory) cache.ReflectorStore
	sight     *sight
}

func (c *Cluster) nodes() followed {
	return followed{
		client: c.core, resource: "nodes", called: "nodes", object: &corev1.Node{},
		list: func() runtime.Object { return &corev1.NodeList{} },
		strip: func(page runtime.Object) {
			for i := range page.(*corev1.NodeList).Items {
				strip(&page.(*corev1.NodeList).Items[i])
			}
		},
		store: store[*corev1.Node, failover.Node]{keep: nodeOf, one: (*memory).node, end: (*memory).nodeGone,
			list: (*memory).nodes}.into,
		sight: c.sight,
	}
}

func (c *Cluster) leases() followed {
	return followed{
		client: c.coordination, resource: "leases", called: "leases.coordination.k8s.io", namespace: leaseNamespace,
		object: &coordinationv1.Lease{},
		list:   func() runtime.Object { return &coordinationv1.LeaseList{} },
		strip:  func(runtime.Object) {}, // a Lease is small
		store: store[*coordinationv1.Lease, lease]{keep: leaseOf, one: (*memory).renewed,
			end: func(m *memory, name string) { delete(m.beats, name) }, list: (*memory).leases}.into,
		sight: c.sight,
	}
}

// reflector lists and watches the kind, and tells memory what it sees.
func (f followed) reflector(m *memory) *cache.Reflector {
	discard := klog.New(nil)
	source := &cache.ListWatch{ListWithContextFunc: f.page, WatchFuncWithContext: f.watch}
	back := retryBackoff
	r := cache.NewReflectorWithOptions(lists{source}, f.object, f.store(m),
		cache.ReflectorOptions{Name: f.resource, Logger: &discard, Backoff: &back})
	r.WatchListPageSize = pageSize
	return r
}

// lists keeps a reflector from asking for a list as a stream, which API servers
// before 1.34 do not know: a list in pages works everywhere.
type lists struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported is asked for by client-go.
func (lists) IsWatchListSemanticsUnSupported() bool { return true }

// page reads one page of a list from the storage and not from a cache: a cache may
// be older than what an earlier leader saw.
func (f followed) page(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	options.ResourceVersion, options.ResourceVersionMatch = "", ""
	bounded, cancel := bound(ctx, defaultTimeout)
	defer cancel()
	page := f.list()
	err := f.client.Get().NamespaceIfScoped(f.namespace, f.namespace != "").Resource(f.resource).
		VersionedParams(&options, metav1.ParameterCodec).MaxRetries(0).Do(bounded).Into(page)
	if err != nil {
		f.sight.lost(ctx, f.called, ask{verb: "list", resource: f.called}.failed(bounded, err))
		return nil, err // as it is, for the reflector to tell expired versions
	}
	f.strip(page)
	return page, nil
}

func (f followed) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	w, err := f.client.Get().NamespaceIfScoped(f.namespace, f.namespace != "").Resource(f.resource).
		VersionedParams(&options, metav1.ParameterCodec).MaxRetries(0).Watch(ctx)
	if err != nil {
		f.sight.lost(ctx, f.called, ask{verb: "watch", resource: f.called}.failed(ctx, err))
		return nil, err
	}
	f.sight.back(f.called)
	return w, nil
}

// sight knows which kinds of objects cannot be followed at the moment, and why.
type sight struct {
	logger *slog.Logger
	mu     sync.Mutex
	blind  map[string]error
}

// lost notes that a kind is not followed. The log hears of the first time alone,
// and of nothing once ctx has ended.
func (s *sight) lost(ctx context.Context, kind string, err error) {
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.blind[kind] == nil {
		s.logger.Warn("watch Kubernetes objects failed; Lease ages are frozen", "kind", kind, "err", err)
	}
	s.blind[kind] = err
}

// back notes that a kind is followed.
func (s *sight) back(kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.blind[kind] != nil {
		s.logger.Info("watching Kubernetes objects again", "kind", kind)
	}
	delete(s.blind, kind)
}

func (s *sight) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.blind)
}

func (s *sight) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, kind := range []string{"nodes", "leases.coordination.k8s.io"} {
		if err := s.blind[kind]; err != nil {
			return fmt.Errorf("its %s are not seen: %w", kind, err)
		}
	}
	return nil
}
