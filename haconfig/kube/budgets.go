package kube

import (
	"context"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trivet-ha/trivet/haconfig"
)

var _ haconfig.Budgets = (*Cluster)(nil)

const budgets = "poddisruptionbudgets"

// Guarded implements haconfig.Budgets.
func (c *Cluster) Guarded(ctx context.Context, untyped bool) (*haconfig.Inventory, error) {
	labelled := c.o.Names.Type() + ",!" + c.o.Names.Skip()
	if untyped {
		labelled = "!" + c.o.Names.Skip()
	}
	return c.gathered(ctx, append(c.deployed(labelled), kind{c.policy, budgets, "PodDisruptionBudget", ""}))
}

// PutBudget implements haconfig.Budgets.
func (c *Cluster) PutBudget(ctx context.Context, b policyv1.PodDisruptionBudget) error {
	verb, request := "create", c.policy.Post()
	if b.ResourceVersion != "" {
		verb, request = "update", c.policy.Put().Name(b.Name)
	}
	return c.send(ctx, verb+" "+budgets+".policy", request.Namespace(b.Namespace).Resource(budgets).Body(&b))
}

// DropBudget implements haconfig.Budgets. That it is gone is no fault.
func (c *Cluster) DropBudget(ctx context.Context, b policyv1.PodDisruptionBudget) error {
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &b.UID, ResourceVersion: &b.ResourceVersion}}
	return unlessGone(c.send(ctx, "delete "+budgets+".policy",
		c.policy.Delete().Namespace(b.Namespace).Resource(budgets).Name(b.Name).Body(&options)))
}
