package kube

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/internal/kubeclient"
)

// budget is a PodDisruptionBudget that has nothing left and selects a pod of a Node.
type budget struct {
	namespace, name string
	selects         labels.Selector
	node            string
	// listed says that expected is counted by the pods: for an integer minAvailable Kubernetes
	// expects each pod there is, also one that has ended or that another has replaced.
	listed            bool
	expected, desired int
	own, well         int // pods of the Node that have not ended, and those that are well elsewhere
}

// countsAtOnce is of how many namespaces the pods are listed at once: what permits a power-off
// may not grow old meanwhile.
const countsAtOnce = 8

// Disrupted implements failover.PodStore.
func (c *Cluster) Disrupted(ctx context.Context, pods []failover.Pod, lacking bool) ([]string, error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	var found []*budget // that have nothing left and select one of the pods
	var strange error
	err := list{client: c.policy, resource: "poddisruptionbudgets", called: "poddisruptionbudgets.policy",
		most: maxBudgets}.each(ctx, fields.Everything(), func() kubeclient.Page {
		var page policyv1.PodDisruptionBudgetList
		return kubeclient.Page{Into: &page, Meta: &page, Take: func() (int, error) {
			for i := range page.Items {
				b, err := exhausted(&page.Items[i], pods)
				strange = cmp.Or(strange, err)
				if b != nil {
					found = append(found, b)
				}
			}
			return len(page.Items), nil
		}}
	})
	if err = cmp.Or(err, strange); err == nil && lacking {
		err = c.countAll(ctx, found)
		found = slices.DeleteFunc(found, func(b *budget) bool { return !b.lacks() })
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, b := range found {
		names = append(names, b.namespace+"/"+b.name)
	}
	slices.Sort(names)
	return names, nil
}

// exhausted returns a budget that has nothing left and selects one of the pods; nil for
// another one.
func exhausted(b *policyv1.PodDisruptionBudget, pods []failover.Pod) (*budget, error) {
	if b.Status.DisruptionsAllowed > 0 {
		return nil, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector) // none selects nothing, an empty one everything
	if err != nil {
		return nil, fmt.Errorf("selector of the PodDisruptionBudget %s/%s: %w", b.Namespace, b.Name, err)
	}
	at := slices.IndexFunc(pods, func(p failover.Pod) bool {
		return p.Namespace == b.Namespace && selector.Matches(labels.Set(p.Labels))
	})
	if at < 0 {
		return nil, nil
	}
	found := &budget{namespace: b.Namespace, name: b.Name, selects: selector, node: pods[at].Node,
		expected: int(b.Status.ExpectedPods), desired: int(b.Status.DesiredHealthy)}
	if least := b.Spec.MinAvailable; least != nil && least.Type == intstr.Int {
		found.listed, found.expected = true, 0
	}
	return found, nil
}

// countAll counts the pods of budgets.
func (c *Cluster) countAll(ctx context.Context, all []*budget) error {
	within := make(map[string][]*budget) // by namespace
	for _, b := range all {
		within[b.namespace] = append(within[b.namespace], b)
	}
	failed := make(chan error, len(within)) // has room for all; never closed
	room := make(chan struct{}, countsAtOnce)
	var counting sync.WaitGroup
	for namespace, budgets := range within { // order-free: each has its own budgets
		room <- struct{}{}
		counting.Go(func() {
			defer func() { <-room }()
			if err := c.count(ctx, namespace, budgets); err != nil {
				failed <- err
			}
		})
	}
	counting.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// count counts the pods of budgets of one namespace.
func (c *Cluster) count(ctx context.Context, namespace string, budgets []*budget) error {
	pods := list{client: c.core, namespace: namespace, resource: "pods", called: "pods", most: maxNamespaced}
	if len(budgets) == 1 {
		pods.labels = budgets[0].selects.String() // of several one list has all
	}
	return pods.each(ctx, fields.Everything(), func() kubeclient.Page {
		var page corev1.PodList
		return kubeclient.Page{Into: &page, Meta: &page, Take: func() (int, error) {
			for i := range page.Items {
				for _, b := range budgets {
					b.see(&page.Items[i])
				}
			}
			return len(page.Items), nil
		}}
	})
}

// see counts a pod. The status of a budget counts those of the Node and those elsewhere as
// one, and may be behind.
func (b *budget) see(p *corev1.Pod) {
	if hasEnded(p) || !b.selects.Matches(labels.Set(p.Labels)) {
		return
	}
	if b.listed && !isReplaced(p) {
		b.expected++
	}
	switch {
	case p.Spec.NodeName == b.node:
		b.own++
	case p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}): // it stays, too
		b.well++
	}
}

// lacks reports whether pods are missing on other Nodes without which the budget would not hold.
func (b *budget) lacks() bool { return b.well < min(b.expected-b.own, b.desired) }

// isReplaced reports whether a pod is being deleted and its controller does not wait for that
// before it makes another. A StatefulSet does, and of other kinds that is not known.
func isReplaced(p *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(p)
	if p.DeletionTimestamp == nil || owner == nil {
		return false
	}
	switch owner.APIVersion + " " + owner.Kind {
	case "apps/v1 ReplicaSet", "v1 ReplicationController", "batch/v1 Job":
		return true
	}
	return false
}
