package kube

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/trivet-ha/trivet/failover"
)

// budget is a PodDisruptionBudget that has nothing left and selects a pod of a Node.
type budget struct {
	namespace, name string
	selects         labels.Selector
	node            string
	missing         int // of the pods that it expects
}

// Disrupted implements failover.PodStore.
func (c *Cluster) Disrupted(ctx context.Context, pods []failover.Pod) ([]failover.Budget, error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	found := make(map[string][]*budget) // by namespace
	var strange error
	err := list{client: c.policy, resource: "poddisruptionbudgets", called: "poddisruptionbudgets.policy",
		most: maxBudgets}.each(ctx, fields.Everything(),
		func() paged {
			var page policyv1.PodDisruptionBudgetList
			return paged{&page, &page, func() int {
				for i := range page.Items {
					b, err := exhausted(&page.Items[i], pods)
					strange = cmp.Or(strange, err)
					if b != nil {
						found[b.namespace] = append(found[b.namespace], b)
					}
				}
				return len(page.Items)
			}}
		})
	if err = cmp.Or(err, strange); err != nil {
		return nil, err
	}
	var out []failover.Budget
	for namespace, budgets := range found { // order-free: sorted below
		if err := c.count(ctx, namespace, budgets); err != nil {
			return nil, err
		}
		for _, b := range budgets {
			out = append(out, failover.Budget{Name: b.namespace + "/" + b.name, Missing: max(0, b.missing)})
		}
	}
	slices.SortFunc(out, func(a, b failover.Budget) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
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
	return &budget{b.Namespace, b.Name, selector, pods[at].Node, int(b.Status.ExpectedPods)}, nil
}

// count takes from what budgets of a namespace expect the pods of their Node, however these are,
// and those that are well elsewhere. The status of a budget counts both as one, and may be
// behind.
func (c *Cluster) count(ctx context.Context, namespace string, budgets []*budget) error {
	return list{client: c.core, namespace: namespace, resource: "pods", called: "pods", most: maxNamespaced}.each(ctx,
		fields.Everything(), func() paged {
			var page corev1.PodList
			return paged{&page, &page, func() int {
				for i := range page.Items {
					p := &page.Items[i]
					for _, b := range budgets {
						if (p.Spec.NodeName == b.node || isWell(p)) && b.selects.Matches(labels.Set(p.Labels)) {
							b.missing--
						}
					}
				}
				return len(page.Items)
			}}
		})
}

// isWell reports whether a pod is Ready and stays, as budgets count.
func isWell(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
