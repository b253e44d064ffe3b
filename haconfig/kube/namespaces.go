package kube

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trivet-ha/trivet/haconfig"
	"github.com/trivet-ha/trivet/internal/kubeclient"
)

var (
	_ haconfig.Namespaces = (*Cluster)(nil)
	_ haconfig.Topology   = (*Cluster)(nil)
)

// Namespaces implements haconfig.Namespaces.
func (c *Cluster) Namespaces(ctx context.Context) (all []haconfig.Namespace, there map[string]bool, err error) {
	there = map[string]bool{}
	err = c.pages(ctx, kind{client: c.core, resource: "namespaces"}, "", func() kubeclient.Page {
		var page corev1.NamespaceList
		return kubeclient.Page{Into: &page, Meta: &page, Take: func() (int, error) {
			for i := range page.Items {
				n := &page.Items[i]
				there[string(n.UID)] = true
				if n.DeletionTimestamp == nil {
					all = append(all, haconfig.Namespace{Name: n.Name, UID: string(n.UID), Version: n.ResourceVersion,
						Labels: n.Labels, Annotations: n.Annotations})
				}
			}
			return len(page.Items), nil
		}}
	})
	return all, there, err
}

// Places implements haconfig.Topology. Of Nodes nothing but metadata is read.
func (c *Cluster) Places(ctx context.Context) ([]haconfig.Place, error) {
	all := []haconfig.Place{}
	err := c.pages(ctx, kind{client: c.core, resource: "nodes"}, metadataOnly, func() kubeclient.Page {
		var page metav1.PartialObjectMetadataList
		return kubeclient.Page{Into: &page, Meta: &page, Take: func() (int, error) {
			for _, n := range page.Items {
				if n.DeletionTimestamp == nil {
					all = append(all, haconfig.Place{Zone: n.Labels[corev1.LabelTopologyZone], Pool: n.Labels[haconfig.LabelPool],
						System: n.Labels[haconfig.LabelSystem] == "true"})
				}
			}
			return len(page.Items), nil
		}}
	})
	return all, err
}

// VolumeZones implements haconfig.Topology.
func (c *Cluster) VolumeZones(ctx context.Context) (map[string][]string, error) {
	zones := map[string][]string{}
	err := c.pages(ctx, kind{client: c.core, resource: "persistentvolumes"}, "", func() kubeclient.Page {
		var page corev1.PersistentVolumeList
		return kubeclient.Page{Into: &page, Meta: &page, Take: func() (int, error) {
			for i := range page.Items {
				v := &page.Items[i]
				if claim := v.Spec.ClaimRef; claim != nil && v.Status.Phase == corev1.VolumeBound {
					zones[claim.Namespace] = append(zones[claim.Namespace], haconfig.VolumeZones(v)...)
				}
			}
			return len(page.Items), nil
		}}
	})
	return zones, err
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
