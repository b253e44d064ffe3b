package kube

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/internal/kubeclient"
)

// Bounds of a client.
const (
	// defaultTimeout bounds one call, unless the Options say otherwise.
	defaultTimeout = 10 * time.Second
)

// Options say which cluster is meant and who we are.
type Options struct {
	// Name is what the configuration calls the cluster.
	Name string
	// Kubeconfig is a file; "" means the cluster whose pod we are.
	Kubeconfig string
	// Timeout bounds every call but Watch, all pages of a list together. 0 means ten
	// seconds.
	Timeout time.Duration
	// Peer is named in Events as their source.
	Peer string
	// Wall gives the times in Events.
	Wall func() time.Time
	// Logger is told when the cluster can be followed no longer, and again.
	Logger *slog.Logger
}

// Cluster is a Kubernetes cluster. Its methods may be called concurrently, but for
// Watch, of which there is one at a time.
type Cluster struct {
	name    string
	peer    string
	timeout time.Duration
	wall    func() time.Time
	logger  *slog.Logger
	sight   *sight
	http    *http.Client

	core, coordination, storage, policy *rest.RESTClient
}

var _ failover.Cluster = (*Cluster)(nil)

// Open returns the cluster of a kubeconfig. It reads the file, and those that it
// names, and sends nothing: whether the API server can be reached is for Answers
// to say. Certificates and tokens that stand in files of their own are read again
// when they change. The caller closes the cluster.
func Open(o Options) (*Cluster, error) {
	conf, err := kubeclient.Config(o.Kubeconfig)
	if err != nil {
		return nil, err
	}
	if conf.Insecure {
		o.Logger.Warn("API server certificate is not verified; give its CA in the kubeconfig", "kube_cluster", o.Name,
			"kubeconfig", o.Kubeconfig)
	}
	c := &Cluster{name: o.Name, peer: o.Peer, timeout: o.Timeout, wall: o.Wall,
		logger: o.Logger.With("kube_cluster", o.Name)}
	if c.timeout == 0 {
		c.timeout = defaultTimeout
	}
	c.sight = &sight{logger: c.logger, blind: map[string]error{}}
	if c.http, err = kubeclient.Clients(conf,
		kubeclient.Group{Client: &c.core, Version: corev1.SchemeGroupVersion, Kinds: corev1.AddToScheme},
		kubeclient.Group{Client: &c.coordination, Version: coordinationv1.SchemeGroupVersion,
			Kinds: coordinationv1.AddToScheme},
		kubeclient.Group{Client: &c.storage, Version: schema.GroupVersion{Group: "storage.k8s.io", Version: "v1"}},
		kubeclient.Group{Client: &c.policy, Version: policyv1.SchemeGroupVersion, Kinds: policyv1.AddToScheme},
	); err != nil {
		return nil, fmt.Errorf("cluster %s: %w", o.Name, err)
	}
	return c, nil
}

// Name implements failover.Cluster.
func (c *Cluster) Name() string { return c.name }

// Close ends the connections that carry no call.
func (c *Cluster) Close() { utilnet.CloseIdleConnectionsFor(c.http.Transport) }

// within bounds one call.
func (c *Cluster) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return bound(ctx, c.timeout)
}
