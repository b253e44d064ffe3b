package kube

import (
	"context"
	"fmt"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"

	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/internal/kubeclient"
)

// Most that a list may have. A longer list is an error and is not cut: no caller
// may take a part for the whole.
const (
	maxPods        = 2_500   // of one Node; Kubernetes supports 110
	maxAttachments = 100_000 // of the cluster, as they cannot be asked for by Node
	maxBudgets     = 20_000  // of the cluster
	maxNamespaced  = 50_000  // pods of a namespace
)

// Node implements failover.NodeReader.
func (c *Cluster) Node(ctx context.Context, name string) (failover.Node, error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	n, err := c.node(ctx, name)
	if err != nil {
		return failover.Node{}, err
	}
	return nodeOf(n), nil
}

// node reads a Node. No resourceVersion in the request means a quorum read of the
// storage; "0" would mean any cache.
func (c *Cluster) node(ctx context.Context, name string) (*corev1.Node, error) {
	var n corev1.Node
	err := c.core.Get().Resource("nodes").Name(name).MaxRetries(0).Do(ctx).Into(&n)
	return &n, ask{"get", "nodes", name}.failed(ctx, err)
}

// Renewal implements failover.NodeReader. It is a list of one: that needs no right which
// the watch does not need.
func (c *Cluster) Renewal(ctx context.Context, node string) (r failover.Renewal, err error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	options := metav1.ListOptions{Limit: 1,
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, node).String()}
	var leases coordinationv1.LeaseList
	err = c.coordination.Get().Namespace(leaseNamespace).Resource("leases").VersionedParams(&options,
		metav1.ParameterCodec).MaxRetries(0).Do(ctx).Into(&leases)
	do := ask{"list", "leases.coordination.k8s.io", node}
	switch {
	case err != nil:
		return r, do.failed(ctx, err)
	case len(leases.Items) == 0:
		return r, fmt.Errorf("%v: %w", do, failover.ErrGone)
	}
	r = leaseOf(&leases.Items[0]).renewal
	r.Stored = true
	return r, nil
}

// Pods implements failover.PodStore. The list is of one moment, however many pages
// it has.
func (c *Cluster) Pods(ctx context.Context, node string) ([]failover.Pod, error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	var pods []failover.Pod
	err := list{client: c.core, resource: "pods", called: "pods", most: maxPods}.each(ctx,
		fields.OneTermEqualSelector("spec.nodeName", node), func() kubeclient.Page {
			var page corev1.PodList
			return kubeclient.Page{Into: &page, Meta: &page, Take: func() (int, error) {
				for i := range page.Items {
					pods = append(pods, podOf(&page.Items[i]))
				}
				return len(page.Items), nil
			}}
		})
	return pods, err
}

// Attachments implements failover.NodeReader.
func (c *Cluster) Attachments(ctx context.Context, node string) ([]string, error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	var names []string
	err := list{client: c.storage, resource: "volumeattachments", called: "volumeattachments.storage.k8s.io",
		most: maxAttachments}.each(ctx,
		fields.Everything(), func() kubeclient.Page {
			var page attachmentList
			return kubeclient.Page{Into: &page, Meta: &page.Metadata, Take: func() (int, error) {
				for _, a := range page.Items {
					if a.Spec.NodeName == node {
						names = append(names, a.Metadata.Name)
					}
				}
				return len(page.Items), nil
			}}
		})
	slices.Sort(names)
	return names, err
}

// attachmentList is what is read of a list of VolumeAttachments.
type attachmentList struct {
	Metadata metav1.ListMeta `json:"metadata"`
	Items    []struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
		Spec     struct {
			NodeName string `json:"nodeName"`
		} `json:"spec"`
	} `json:"items"`
}

// list is a resource that is read page by page.
type list struct {
	client    *rest.RESTClient
	namespace string // "" for all
	labels    string // a selector; "" for all
	resource  string
	called    string // with its group, for errors
	most      int    // objects
}

// each reads all pages of what the selector leaves, from the storage.
func (l list) each(ctx context.Context, selector fields.Selector, next func() kubeclient.Page) error {
	options := metav1.ListOptions{Limit: pageSize, FieldSelector: selector.String(), LabelSelector: l.labels}
	return kubeclient.Pages(l.called, l.most, options, next, func(options *metav1.ListOptions, into any) error {
		request := l.client.Get().Namespace(l.namespace).Resource(l.resource).VersionedParams(options, metav1.ParameterCodec)
		return ask{verb: "list", resource: l.called}.failed(ctx, kubeclient.Read(ctx, request, into))
	})
}
