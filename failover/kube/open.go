package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/trivet-ha/trivet/failover"
)

// Bounds of a client.
const (
	// requestsPerSecond and requestsAtOnce bound what one peer asks of one API
	// server, lists and deletions together; signs of life and watches come on top.
	// A kube node's pods, 110 by default, go within three seconds.
	requestsPerSecond = 50
	requestsAtOnce    = 100
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
	conf, err := load(o.Kubeconfig)
	if err != nil {
		return nil, err
	}
	if conf.Insecure {
		o.Logger.Warn("API server certificate is not verified; give its CA in the kubeconfig", "kube_cluster", o.Name, "kubeconfig", o.Kubeconfig)
	}
	harden(conf)
	c := &Cluster{name: o.Name, peer: o.Peer, timeout: o.Timeout, wall: o.Wall, logger: o.Logger.With("kube_cluster", o.Name)}
	if c.timeout == 0 {
		c.timeout = defaultTimeout
	}
	c.sight = &sight{logger: c.logger, blind: map[string]error{}}
	if c.http, err = Clients(conf,
		Group{&c.core, corev1.SchemeGroupVersion, corev1.AddToScheme}, Group{&c.coordination, coordinationv1.SchemeGroupVersion, coordinationv1.AddToScheme},
		Group{&c.storage, storagev1.SchemeGroupVersion, storagev1.AddToScheme}, Group{&c.policy, policyv1.SchemeGroupVersion, policyv1.AddToScheme},
	); err != nil {
		return nil, fmt.Errorf("cluster %s: %w", o.Name, err)
	}
	return c, nil
}

// Name implements failover.Cluster.
func (c *Cluster) Name() string { return c.name }

// Close ends the connections that carry no call.
func (c *Cluster) Close() { utilnet.CloseIdleConnectionsFor(c.http.Transport) }

// load reads a kubeconfig, or what a pod finds in its file system.
func load(path string) (*rest.Config, error) {
	if path == "" {
		conf, err := rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, errors.New("this process runs in no pod of a cluster: name a kubeconfig instead")
		}
		if err != nil {
			return nil, fmt.Errorf("the service account of this pod: %w", err)
		}
		return conf, nil
	}
	rules := clientcmd.ClientConfigLoadingRules{ExplicitPath: path} // and nothing from the environment
	file, err := rules.Load()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", withoutQuotes(err))
	}
	conf, err := clientcmd.NewNonInteractiveClientConfig(*file, file.CurrentContext, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	return conf, nil
}

// Files returns the files that the current context of a kubeconfig names. It is empty
// where that cannot be read.
func Files(kubeconfig string) []string {
	rules := clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}
	file, err := rules.Load()
	if err != nil {
		return nil
	}
	var all []string
	current := cmp.Or(file.Contexts[file.CurrentContext], clientcmdapi.NewContext())
	if c := file.Clusters[current.Cluster]; c != nil {
		all = append(all, c.CertificateAuthority)
	}
	if u := file.AuthInfos[current.AuthInfo]; u != nil {
		all = append(all, u.ClientCertificate, u.ClientKey, u.TokenFile)
	}
	return slices.DeleteFunc(all, func(path string) bool { return path == "" })
}

// quotes are what parsers of YAML repeat of a file: the word behind a *, which may be
// a token, or a value that is not of its tag.
var quotes = regexp.MustCompile("'[^']*'|`[^`]*`")

// withoutQuotes returns the error of reading a kubeconfig without what it repeats of
// the file.
func withoutQuotes(err error) error {
	var failed *fs.PathError
	if errors.As(err, &failed) {
		return err
	}
	return errors.New(quotes.ReplaceAllLiteralString(err.Error(), "(not shown)"))
}

// harden puts our bounds into conf. It sets no Timeout, which would end watches.
func harden(conf *rest.Config) {
	conf.UserAgent = "trivet"
	conf.ContentType = runtime.ContentTypeProtobuf // a third of the work of JSON
	conf.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	conf.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(requestsPerSecond, requestsAtOnce)
	conf.WarningHandlerWithContext = rest.NoWarnings{}
	conf.Dial = dialer().DialContext
	conf.Wrap(func(next http.RoundTripper) http.RoundTripper { return bounded{next} })
	if conf.ExecProvider != nil {
		conf.ExecProvider.StdinUnavailable = true
		conf.ExecProvider.StdinUnavailableMessage = "a daemon has no terminal"
	}
}

// within bounds one call.
func (c *Cluster) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return bound(ctx, c.timeout)
}
