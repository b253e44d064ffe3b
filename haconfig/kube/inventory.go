package kube

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/trivet-ha/trivet/haconfig"
	"github.com/trivet-ha/trivet/internal/kubeclient"
)

// maxObjects bounds how many objects of one kind are read for advice.
const maxObjects = 100_000

// Inventory reads everything that advice is given about, and counts the kube nodes,
// two for more. It is for a person who asks: each page has the time of a call.
func (c *Cluster) Inventory(ctx context.Context) (*haconfig.Inventory, int, error) {
	all, err := c.gathered(ctx,
		append(c.deployed(""), kind{c.autoscaling, "horizontalpodautoscalers", "HorizontalPodAutoscaler", ""},
			kind{c.policy, "poddisruptionbudgets", "PodDisruptionBudget", ""},
			kind{c.core, "persistentvolumes", "PersistentVolume", ""}))
	if err != nil {
		return nil, 0, err
	}
	nodes, err := c.Nodes(ctx)
	return all, nodes, err
}

// kind is one of objects that are gathered.
type kind struct {
	client         *rest.RESTClient
	resource, name string
	selector       string // of labels; "": all
}

// deployed are the kinds of what the webhook is asked about, and where it is.
func (c *Cluster) deployed(selector string) []kind {
	return []kind{{c.core, "namespaces", "Namespace", ""}, {c.apps, "deployments", "Deployment", selector},
		{c.apps, "statefulsets", "StatefulSet", selector}}
}

// gathered reads all objects of some kinds, page by page, as JSON: fields that this
// binary does not know are kept.
func (c *Cluster) gathered(ctx context.Context, kinds []kind) (*haconfig.Inventory, error) {
	all := haconfig.NewInventory()
	for _, k := range kinds {
		err := c.pages(ctx, k, "", func() kubeclient.Page {
			var page struct {
				Metadata metav1.ListMeta  `json:"metadata"`
				Items    []map[string]any `json:"items"`
			}
			return kubeclient.Page{Into: &page, Meta: &page.Metadata, Take: func() (int, error) {
				for _, item := range page.Items {
					// What is in a list does not say what it is.
					item["apiVersion"], item["kind"] = k.client.APIVersion().String(), k.name
					raw, err := json.Marshal(item)
					if err == nil {
						err = all.Add(raw)
					}
					if err != nil {
						return 0, fmt.Errorf("read %s: %w", k.resource, err)
					}
				}
				return len(page.Items), nil
			}}
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Deployed implements haconfig.Workloads.
func (c *Cluster) Deployed(ctx context.Context) ([]haconfig.Component, error) {
	all, err := c.gathered(ctx, c.deployed(""))
	if err != nil {
		return nil, err
	}
	return all.Considered(c.o.Names), nil
}

// Touch implements haconfig.Workloads. An empty patch is an update to admission, and
// changes nothing if admission does not. That the object is gone is no fault.
func (c *Cluster) Touch(ctx context.Context, of haconfig.Component) error {
	resource := "deployments"
	if of.Kind == "StatefulSet" {
		resource = "statefulsets"
	}
	return unlessGone(c.send(ctx, "patch "+resource+".apps",
		c.apps.Patch(types.MergePatchType).Namespace(of.Namespace).Resource(resource).Name(of.Name).Body([]byte("{}"))))
}

// pages reads all pages of a list without a namespace, each within a call's time, in a form
// other than the whole objects if accept names one.
func (c *Cluster) pages(ctx context.Context, k kind, accept string, next func() kubeclient.Page) error {
	options := metav1.ListOptions{Limit: pageSize, LabelSelector: k.selector}
	return kubeclient.Pages(k.resource, maxObjects, options, next, func(options *metav1.ListOptions, into any) error {
		ctx, cancel := c.within(ctx)
		defer cancel()
		request := k.client.Get().Resource(k.resource).VersionedParams(options, metav1.ParameterCodec)
		if accept != "" {
			request = request.SetHeader("Accept", accept)
		}
		return c.noteAnswer(ctx, "list "+k.resource, kubeclient.Read(ctx, request, into))
	})
}
