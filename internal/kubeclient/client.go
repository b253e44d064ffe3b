// Package kubeclient reaches the API server of a Kubernetes cluster for failover, haconfig
// and the elector: clients with one set of bounds for connections, answers and requests.
package kubeclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"regexp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/flowcontrol"
)

// AnnotationToken holds the greatest fencing token that wrote an object, in decimal; a
// lower one is never written over it.
const AnnotationToken = "trivet.dev/fencing-token"

const (
	// requestsPerSecond and requestsAtOnce bound what one peer asks of one API
	// server, lists and deletions together; signs of life and watches come on top.
	// A kube node's pods, 110 by default, go within three seconds.
	requestsPerSecond = 50
	requestsAtOnce    = 100
)

// Config is how the cluster of a kubeconfig is reached, or with "" the one whose pod we
// are. It reads files and sends nothing. Certificates and tokens that stand in files of
// their own are read again when they change. It sets no Timeout, which would end watches.
func Config(kubeconfig string) (*rest.Config, error) {
	conf, err := load(kubeconfig)
	if err != nil {
		return nil, err
	}
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
	return conf, nil
}

// Group is a group of an API and its client to be.
type Group struct {
	Client  **rest.RESTClient
	Version schema.GroupVersion
	Kinds   func(*runtime.Scheme) error // that it is made of; nil: they are read as JSON
}

// Clients makes the client of each group, all over the same connections, which
// belong to the HTTP client that it returns. It sends nothing.
func Clients(conf *rest.Config, groups ...Group) (*http.Client, error) {
	kinds := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(kinds); err != nil {
		return nil, err
	}
	for _, group := range groups {
		if group.Kinds == nil {
			continue
		}
		if err := group.Kinds(kinds); err != nil {
			return nil, err
		}
	}
	metav1.AddToGroupVersion(kinds, schema.GroupVersion{Version: "v1"})
	conf.NegotiatedSerializer = serializer.NewCodecFactory(kinds).WithoutConversion()
	made, err := rest.HTTPClientFor(conf)
	if err != nil {
		return nil, err
	}
	shared := new(http.Client)
	*shared = *made // it may be everybody's
	// client-go shows token and certificate to each server that a redirect leads to.
	shared.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, group := range groups {
		one, version := rest.CopyConfig(conf), group.Version
		one.APIPath, one.GroupVersion = "/apis", &version
		if version.Group == "" {
			one.APIPath = "/api"
		}
		if *group.Client, err = rest.RESTClientForConfigAndClient(one, shared); err != nil {
			return nil, err
		}
	}
	return shared, nil
}

// JSON decodes the answer to a request into a type that has some fields of a kind. Each
// package of Kubernetes' types adds 100 kB to 3 MB to the program, since it links all kinds of
// its group with protobuf; this is for kinds that are read seldom.
func JSON(ctx context.Context, r *rest.Request, into any) error {
	result := r.SetHeader("Accept", runtime.ContentTypeJSON).MaxRetries(0).Do(ctx)
	if err := result.Error(); err != nil { // that of Raw is never the API server's own: it reads no Status
		return err
	}
	text, err := result.Raw()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("decode the answer: %w", err)
	}
	return nil
}

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
		if _, ok := errors.AsType[*fs.PathError](err); !ok { // it may repeat what the file says
			err = errors.New(quotes.ReplaceAllLiteralString(err.Error(), "(not shown)"))
		}
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	conf, err := clientcmd.NewNonInteractiveClientConfig(*file, file.CurrentContext, &clientcmd.ConfigOverrides{},
		nil).ClientConfig()
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
