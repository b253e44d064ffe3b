package kube

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trivet-ha/trivet/haconfig"
)

var (
	_ haconfig.Namespaces = (*Cluster)(nil)
	_ haconfig.Topology   = (*Cluster)(nil)
)

// Namespaces implements haconfig.Namespaces.
func (c *Cluster) Namespaces(ctx context.Context) (all []haconfig.Namespace, there map[string]bool, err error) {
	there = map[string]bool{}
	err = c.pages(ctx, "namespaces", "", func() (pageOf, func() int) {
		var page corev1.NamespaceList
		return &page, func() int {
			for i := range page.Items {
				n := &page.Items[i]
				there[string(n.UID)] = true
				if n.DeletionTimestamp == nil {
					all = append(all, haconfig.Namespace{Name: n.Name, UID: string(n.UID), Version: n.ResourceVersion,
						Labels: n.Labels, Annotations: n.Annotations})
				}
			}
			return len(page.Items)
		}
	})
	return all, there, err
}

// Places implements haconfig.Topology. Of Nodes nothing but metadata is read.
func (c *Cluster) Places(ctx context.Context) ([]haconfig.Place, error) {
	all := []haconfig.Place{}
	err := c.pages(ctx, "nodes", metadataOnly, func() (pageOf, func() int) {
		var page metav1.PartialObjectMetadataList
		return &page, func() int {
			for _, n := range page.Items {
				if n.DeletionTimestamp == nil {
					all = append(all, haconfig.Place{Zone: n.Labels[corev1.LabelTopologyZone], Pool: n.Labels[haconfig.LabelPool],
						System: n.Labels[haconfig.LabelSystem] == "true"})
				}
			}
			return len(page.Items)
		}
	})
	return all, err
}

// VolumeZones implements haconfig.Topology.
func (c *Cluster) VolumeZones(ctx context.Context) (map[string][]string, error) {
	zones := map[string][]string{}
	err := c.pages(ctx, "persistentvolumes", "", func() (pageOf, func() int) {
		var page corev1.PersistentVolumeList
		return &page, func() int {
			for i := range page.Items {
				v := &page.Items[i]
				if claim := v.Spec.ClaimRef; claim != nil && v.Status.Phase == corev1.VolumeBound {
					zones[claim.Namespace] = append(zones[claim.Namespace], haconfig.VolumeZones(v)...)
				}
			}
			return len(page.Items)
		}
	})
	return zones, err
}

// pageOf is a page of a list, of whichever kind.
type pageOf interface {
	metav1.ListInterface
	runtime.Object
}

// pages reads all pages of a list without a namespace, in a form other than the whole
// objects if accept names one. next makes a page, and what takes its items and counts
// them.
func (c *Cluster) pages(ctx context.Context, resource, accept string, next func() (pageOf, func() int)) error {
	options := metav1.ListOptions{Limit: pageSize}
	for count := 0; ; {
		page, take := next()
		bounded, cancel := c.within(ctx)
		request := c.core.Get().Resource(resource)
		if accept != "" {
			request = request.SetHeader("Accept", accept)
		}
		err := c.noteAnswer(bounded, "list "+resource, list(bounded, request, options, page))
		cancel()
		if err != nil {
			return err
		}
		if count += take(); count > maxObjects {
			return fmt.Errorf("list %s: more than %d", resource, maxObjects)
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

// PutNamespace implements haconfig.Namespaces. With UID and resourceVersion the patch
// is refused for a namespace that is no longer as it was read.
func (c *Cluster) PutNamespace(ctx context.Context, n haconfig.Namespace, w haconfig.Written) error {
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": n.UID, "resourceVersion": n.Version, "labels": w.Labels, "annotations": w.Annotations, // nil removes
	}})
	if err != nil {
		return err
	}
	return c.send(ctx, "patch namespaces "+n.Name,
		c.core.Patch(types.MergePatchType).Resource("namespaces").Name(n.Name).Body(text))
}
