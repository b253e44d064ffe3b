package kube

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// RESTConfig is how others in this program reach the cluster of a kubeconfig, or
// with "" the one whose pod we are: with the same bounds of connections and
// answers as a Cluster. It reads files and sends nothing.
func RESTConfig(kubeconfig string) (*rest.Config, error) {
	conf, err := load(kubeconfig)
	if err != nil {
		return nil, err
	}
	harden(conf)
	return conf, nil
}

// Group is a group of an API and its client to be.
type Group struct {
	Client  **rest.RESTClient
	Version schema.GroupVersion
	Kinds   func(*runtime.Scheme) error // that it is made of
}

// Clients makes the client of each group, all over the same connections, which
// belong to the HTTP client that it returns. It sends nothing.
func Clients(conf *rest.Config, groups ...Group) (*http.Client, error) {
	kinds := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(kinds); err != nil {
		return nil, err
	}
	for _, group := range groups {
		if err := group.Kinds(kinds); err != nil {
			return nil, err
		}
	}
	metav1.AddToGroupVersion(kinds, schema.GroupVersion{Version: "v1"})
	conf.NegotiatedSerializer = serializer.NewCodecFactory(kinds).WithoutConversion()
	shared, err := rest.HTTPClientFor(conf)
	if err != nil {
		return nil, err
	}
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
