package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/trivet-ha/trivet/haconfig"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
	"github.com/trivet-ha/trivet/internal/kubeclient"
)

// Bounds of what one peer asks of the API server.
const (
	requestsPerSecond = 200
	requestsAtOnce    = 400
	// defaultTimeout bounds one call, unless the Options say otherwise.
	defaultTimeout = 2 * time.Second
	pageSize       = 250
)

// reads bounds the reads of namespaces that reviews cause, each of two calls: all of them leave
// a fifth of requestsPerSecond, and half of requestsAtOnce, to the leader's chores and to Run,
// and one source leaves a quarter of theirs to others. An API server's time-out stands the wait
// (docs/design.md#budgets).
var reads = admission.Places{AtOnce: 96, OfKnown: 24, Share: 48, Waiting: 4096, Wait: 3 * time.Second,
	Refusal: time.Second, Each: admission.Pace{Rate: 60, Burst: 60}, All: admission.Pace{Rate: 80, Burst: 100}}

// Options say which cluster is meant.
type Options struct {
	Kubeconfig string           // a file; "" means the cluster whose pod we are
	Names      haconfig.Names   // of the labels by which objects are found
	Timeout    time.Duration    // of every call, all pages of a list together; 0 means two seconds
	Now        func() time.Time // monotonic
}

// Cluster is a Kubernetes cluster. Its methods may be called concurrently.
type Cluster struct {
	o    Options
	http *http.Client

	core, apps, autoscaling, policy, discovery, registration *rest.RESTClient

	namespaces *readCache[haconfig.Surroundings] // without the nodes
	nodes      *readCache[int]

	mu      sync.Mutex
	heard   time.Time // when the API server last answered
	silence error     // since then
	refused error     // what of a review's reads it last refused us; nil: nothing
}

var _ haconfig.Cluster = (*Cluster)(nil)

var (
	// errNotAsked is the silence of an API server that cannot have answered.
	errNotAsked = errors.New("the API server was not asked yet")
	// errLate is the end of a call's time, as opposed to that of who asked for it.
	errLate = errors.New("the API server gave no answer")
)

// Open returns the cluster of a kubeconfig. It reads the file, and those that it
// names, and sends nothing. The caller closes the cluster.
func Open(o Options) (*Cluster, error) {
	conf, err := kubeclient.Config(o.Kubeconfig)
	if err != nil {
		return nil, err
	}
	conf.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(requestsPerSecond, requestsAtOnce)
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	c := &Cluster{o: o, silence: errNotAsked, nodes: newReadCache[int](o.Now, nil),
		namespaces: newReadCache[haconfig.Surroundings](o.Now, admission.NewLine(reads, readLanes))}
	if c.http, err = kubeclient.Clients(conf,
		kubeclient.Group{Client: &c.core, Version: corev1.SchemeGroupVersion, Kinds: corev1.AddToScheme},
		kubeclient.Group{Client: &c.apps, Version: schema.GroupVersion{Group: "apps", Version: "v1"}},
		kubeclient.Group{Client: &c.autoscaling, Version: schema.GroupVersion{Group: "autoscaling", Version: "v2"}},
		kubeclient.Group{Client: &c.policy, Version: policyv1.SchemeGroupVersion, Kinds: policyv1.AddToScheme},
		kubeclient.Group{Client: &c.discovery, Version: discoveryv1.SchemeGroupVersion, Kinds: discoveryv1.AddToScheme},
		kubeclient.Group{Client: &c.registration,
			Version: schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}},
	); err != nil {
		return nil, err
	}
	return c, nil
}

// Close waits for what is read, a call's time at most, and ends the connections
// that carry no call. No method is called any more.
func (c *Cluster) Close() {
	c.namespaces.wait()
	c.nodes.wait()
	utilnet.CloseIdleConnectionsFor(c.http.Transport)
}

// within bounds one call, and keeps client-go from writing to its global log what
// we return as an error.
func (c *Cluster) within(ctx context.Context) (context.Context, context.CancelFunc) {
	late := fmt.Errorf("%w within %v", errLate, c.o.Timeout)
	return context.WithTimeoutCause(kubeclient.Quiet(ctx), c.o.Timeout, late)
}

// send sends a request once, within a call's time.
func (c *Cluster) send(ctx context.Context, what string, r *rest.Request) error {
	ctx, cancel := c.within(ctx)
	defer cancel()
	return c.noteAnswer(ctx, what, r.MaxRetries(0).Do(ctx).Error())
}

// unlessGone is err, or nil where it says that the object is gone: for calls for which that is no fault.
func unlessGone(err error) error {
	if kubeclient.Gone(err) {
		return nil
	}
	return err
}

// noteAnswer notes whether the API server has answered, and returns the error in words.
// A refusal is an answer, too. A call that its caller gave up is neither answer nor silence.
func (c *Cluster) noteAnswer(ctx context.Context, what string, err error) error {
	var status *apierrors.StatusError
	answered := err == nil || errors.As(err, &status) && status.ErrStatus.Code < http.StatusInternalServerError &&
		(kubeclient.Said(err) || apierrors.IsTooManyRequests(err)) // which an API server says without a Status
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	gaveUp := err != nil && ctx.Err() != nil && !errors.Is(err, errLate)
	c.mu.Lock()
	switch {
	case answered:
		c.heard, c.silence = c.o.Now(), nil
	case !gaveUp:
		c.silence = err
	}
	c.mu.Unlock()
	switch {
	case err == nil:
		return nil
	case kubeclient.Gone(err):
		return err // its text is what others expect
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: renew the token or certificate of the kubeconfig: %w", what, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: let us, as in `trivet haconfig manifest`: %w", what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
