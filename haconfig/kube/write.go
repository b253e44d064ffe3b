package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trivet-ha/trivet/haconfig"
	"github.com/trivet-ha/trivet/internal/kubeclient"
)

// managedBy marks the objects that Trivet manages, so that no controller of
// Kubernetes does.
const managedBy = "trivet"

// Registration implements haconfig.Registry.
func (c *Cluster) Registration(ctx context.Context, name string) (haconfig.Registration, error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	var conf struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
		Webhooks []struct {
			ClientConfig clientConfig `json:"clientConfig"`
		} `json:"webhooks"`
	}
	err := kubeclient.JSON(ctx, c.registration.Get().Resource("mutatingwebhookconfigurations").Name(name), &conf)
	if kubeclient.Gone(err) {
		return haconfig.Registration{}, c.noteAnswer(ctx, "", nil)
	}
	if err := c.noteAnswer(ctx, "get mutatingwebhookconfigurations.admissionregistration.k8s.io "+name, err); err != nil {
		return haconfig.Registration{}, err
	}
	r := haconfig.Registration{Name: name, Version: conf.Metadata.ResourceVersion}
	for _, hook := range conf.Webhooks {
		r.Bundles = append(r.Bundles, hook.ClientConfig.CABundle)
		place, path := hook.ClientConfig.at()
		r.Places, r.Paths = append(r.Places, place), append(r.Paths, path)
	}
	return r, nil
}

// clientConfig is how an API server reaches a webhook: by a service of its cluster or a URL.
type clientConfig struct {
	URL     string `json:"url"`
	Service struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
		Path      string `json:"path"`
	} `json:"service"`
	CABundle []byte `json:"caBundle"`
}

// at is where a webhook asks, its path "" if that cannot be read.
func (c clientConfig) at() (place, path string) {
	if c.Service.Name != "" {
		return c.Service.Namespace + "/" + c.Service.Name, c.Service.Path
	}
	u, err := url.Parse(c.URL)
	if err != nil {
		return "", ""
	}
	host := u.Hostname()
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.Unmap().String()
	}
	return net.JoinHostPort(host, cmp.Or(u.Port(), "443")), u.Path
}

// DropRegistration deletes a registration, and reports whether there was one. In a dry run
// the API server judges the deletion, and deletes nothing.
func (c *Cluster) DropRegistration(ctx context.Context, name string, dry bool) (found bool, err error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	drop := c.registration.Delete().Resource("mutatingwebhookconfigurations").Name(name).MaxRetries(0)
	if dry {
		drop = drop.Param("dryRun", metav1.DryRunAll)
	}
	err = drop.Do(ctx).Error()
	if kubeclient.Gone(err) {
		return false, c.noteAnswer(ctx, "", nil)
	}
	return err == nil, c.noteAnswer(ctx, "delete mutatingwebhookconfigurations.admissionregistration.k8s.io "+name, err)
}

// PutBundle implements haconfig.Registry. The patch does nothing if the
// registration is no longer as it was read.
func (c *Cluster) PutBundle(ctx context.Context, r haconfig.Registration, bundle []byte) error {
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value,omitempty"`
	}
	patch := []operation{{"test", "/metadata/resourceVersion", r.Version}}
	for i, was := range r.Bundles {
		at := fmt.Sprintf("/webhooks/%d/clientConfig/caBundle", i)
		switch {
		case len(bundle) > 0:
			patch = append(patch, operation{"add", at, bundle})
		case len(was) > 0:
			patch = append(patch, operation{Op: "remove", Path: at})
		}
	}
	text, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	return c.send(ctx, "patch mutatingwebhookconfigurations.admissionregistration.k8s.io "+r.Name,
		c.registration.Patch(types.JSONPatchType).Resource("mutatingwebhookconfigurations").Name(r.Name).Body(text))
}

// Endpoints implements haconfig.Slices.
func (c *Cluster) Endpoints(ctx context.Context, namespace, service string) (haconfig.Endpoints, error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	e := haconfig.Endpoints{Namespace: namespace, Service: service}
	var slice discoveryv1.EndpointSlice
	err := c.discovery.Get().Namespace(namespace).Resource("endpointslices").Name(service).MaxRetries(0).Do(ctx).Into(
		&slice)
	if kubeclient.Gone(err) {
		return e, c.noteAnswer(ctx, "", nil)
	}
	if err := c.noteAnswer(ctx, "get endpointslices.discovery.k8s.io "+namespace+"/"+service, err); err != nil {
		return e, err
	}
	e.Version, e.Family = slice.ResourceVersion, string(slice.AddressType)
	for _, one := range slice.Endpoints {
		e.Addresses = append(e.Addresses, one.Addresses...)
	}
	slices.Sort(e.Addresses)
	if len(slice.Ports) == 1 && slice.Ports[0].Port != nil {
		e.Port = *slice.Ports[0].Port
	}
	return e, nil
}

// PutEndpoints implements haconfig.Slices.
func (c *Cluster) PutEndpoints(ctx context.Context, e haconfig.Endpoints) error {
	port, ready, protocol, name := e.Port, true, corev1.ProtocolTCP, "https"
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: e.Namespace, Name: e.Service, ResourceVersion: e.Version,
			Labels: map[string]string{discoveryv1.LabelServiceName: e.Service, discoveryv1.LabelManagedBy: managedBy},
		},
		AddressType: discoveryv1.AddressType(e.Family),
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}},
	}
	for _, address := range e.Addresses {
		slice.Endpoints = append(slice.Endpoints,
			discoveryv1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}})
	}
	verb, request := "create", c.discovery.Post()
	if e.Version != "" {
		verb, request = "update", c.discovery.Put().Name(e.Service)
	}
	return c.send(ctx, verb+" endpointslices.discovery.k8s.io "+e.Namespace+"/"+e.Service,
		request.Namespace(e.Namespace).Resource("endpointslices").Body(slice))
}

// DropEndpoints implements haconfig.Slices.
func (c *Cluster) DropEndpoints(ctx context.Context, e haconfig.Endpoints) error {
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &e.Version}}
	return unlessGone(c.send(ctx, "delete endpointslices.discovery.k8s.io "+e.Namespace+"/"+e.Service,
		c.discovery.Delete().Namespace(e.Namespace).Resource("endpointslices").Name(e.Service).Body(&options)))
}
