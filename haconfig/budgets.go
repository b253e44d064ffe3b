package haconfig

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"strings"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/trivet-ha/trivet/raftstore/leader"
)

// budgetsEvery is how soon a component has its budget. All labelled components are
// read for it.
const budgetsEvery = 15 * time.Second

// Budgets are the disruption budgets of a cluster.
type Budgets interface {
	// Guarded lists the namespaces, the components that have the label type, or all
	// with untyped, and all budgets.
	Guarded(ctx context.Context, untyped bool) (*Inventory, error)
	// PutBudget makes a budget, or changes it if it is still as it was read.
	PutBudget(ctx context.Context, b policyv1.PodDisruptionBudget) error
	// DropBudget removes one, if it is still as it was read.
	DropBudget(ctx context.Context, b policyv1.PodDisruptionBudget) error
}

// managed marks budgets that are ours.
const managed, managedBy = "app.kubernetes.io/managed-by", "trivet-haconfig"

// Guard returns the chore that gives components their disruption budgets: each that
// the webhook is asked about and has a type, by its label or a rule, has one, unless
// another client made one for its pods. Two for one pod would keep it from being
// evicted at all. A component of one replica may be evicted, too: one pod may go at a
// time.
func Guard(b Budgets, c Conventions, log *slog.Logger) func(leader.Authority) Chore {
	return func(leader.Authority) Chore {
		return Chore{"disruption budgets", budgetsEvery, func(ctx context.Context, write Write) error {
			all, err := b.Guarded(ctx, len(c.Components) > 0)
			if err != nil {
				return err
			}
			put, drop, taken, err := all.budgeted(c)
			if err != nil {
				return err
			}
			return errors.Join(guard(ctx, b, put, drop, write, log), taken)
		}}
	}
}

// guard writes what is planned. One that cannot be written keeps none of the others
// from it.
func guard(ctx context.Context, b Budgets, put, drop []policyv1.PodDisruptionBudget, write Write,
	log *slog.Logger) error {
	var failed []error
	each := func(all []policyv1.PodDisruptionBudget, done string,
		call func(context.Context, policyv1.PodDisruptionBudget) error) {
		for _, one := range all {
			if ctx.Err() != nil {
				return
			}
			if err := write(ctx, func(ctx context.Context) error { return call(ctx, one) }); err != nil {
				failed = append(failed, fmt.Errorf("%s/%s: %w", one.Namespace, one.Name, err))
				continue
			}
			log.Info("disruption budget "+done, "namespace", one.Namespace, "name", one.Name)
		}
	}
	each(drop, "is removed", b.DropBudget) // first: another may be there by now
	each(put, "is as it should be", b.PutBudget)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(failed[:min(len(failed), 5)]...) // a line in the log shall not have thousands
}

// guarded is a component as budgets see it.
type guarded struct {
	of       Component
	uid      types.UID
	labels   labels.Set // of its pods
	selector *metav1.LabelSelector
	matches  labels.Selector
	wants    bool // a budget
}

// budgeted plans the budgets: those to be put, and those of ours that are not
// wanted any more. taken names the budgets that cannot be made, at most five of them,
// because another one has the name and is for other pods.
func (i *Inventory) budgeted(c Conventions) (put, drop []policyv1.PodDisruptionBudget, taken, err error) {
	all, err := i.guarded(c)
	if err != nil {
		return nil, nil, nil, err
	}
	var names []error
	wanted := map[string]bool{} // by namespace and name
	for _, g := range all {
		if !g.wants || !g.alone(all) ||
			slices.ContainsFunc(i.budgets[g.of.Namespace],
				func(b policyv1.PodDisruptionBudget) bool { return !isOwnBudget(b) && selects(b, g.labels) }) {
			continue
		}
		b := g.budget()
		wanted[b.Namespace+"/"+b.Name] = true
		at := slices.IndexFunc(i.budgets[b.Namespace],
			func(has policyv1.PodDisruptionBudget) bool { return has.Name == b.Name })
		if at < 0 {
			put = append(put, b)
			continue
		}
		has := i.budgets[b.Namespace][at]
		switch {
		case !isOwnBudget(has):
			names = append(names, fmt.Errorf(
				"%s/%s: the name is taken by a PodDisruptionBudget that is not trivet's and is for other pods: rename or delete that one",
				b.Namespace, b.Name))
			continue
		case has.DeletionTimestamp != nil, same(has, b):
			continue
		}
		b.UID, b.ResourceVersion = has.UID, has.ResourceVersion
		put = append(put, b)
	}
	for _, of := range i.budgets {
		for _, b := range of {
			if isOwnBudget(b) && b.DeletionTimestamp == nil && !wanted[b.Namespace+"/"+b.Name] {
				drop = append(drop, b)
			}
		}
	}
	slices.SortStableFunc(drop, func(a, b policyv1.PodDisruptionBudget) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return put, drop, errors.Join(names[:min(len(names), 5)]...), nil
}

// guarded are all components. Those that are considered, have a type and a selector
// that selects something in particular want a budget.
func (i *Inventory) guarded(c Conventions) (all []guarded, err error) {
	for _, of := range i.objects {
		if of.Kind == kindAutoscaler.Kind {
			continue
		}
		var o struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
			Spec     struct {
				Selector *metav1.LabelSelector `json:"selector"`
				Template struct {
					Metadata metav1.ObjectMeta `json:"metadata"`
				} `json:"template"`
			} `json:"spec"`
		}
		if err := unmarshal(of.Raw, &o); err != nil {
			return nil, fmt.Errorf("%s %s/%s: %w", of.Kind, of.Namespace, of.Name, err)
		}
		g := guarded{of: of, uid: o.Metadata.UID, labels: o.Spec.Template.Metadata.Labels, selector: o.Spec.Selector}
		kind, _ := c.typeOf(of.Namespace, of.Name, o.Metadata.Labels)
		g.matches, err = metav1.LabelSelectorAsSelector(o.Spec.Selector)
		g.wants = err == nil && !g.matches.Empty() && i.considered(of, c.Names, false) && kind != "" &&
			o.Metadata.DeletionTimestamp == nil && g.uid != ""
		all = append(all, g)
	}
	return all, nil
}

// alone reports whether a component's selector selects no other's pods.
func (g guarded) alone(all []guarded) bool {
	return !slices.ContainsFunc(all, func(other guarded) bool {
		return other.of.Namespace == g.of.Namespace && other.uid != g.uid && g.matches.Matches(other.labels)
	})
}

// budget is what a component has.
func (g guarded) budget() policyv1.PodDisruptionBudget {
	one, always := intstr.FromInt32(1), policyv1.AlwaysAllow
	yes, no := true, false
	return policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: g.of.Namespace, Name: budgetName(g.of.Kind, g.of.Name), Labels: map[string]string{managed: managedBy},
			// It goes with its component, and keeps it from nothing.
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: groupApps + "/v1", Kind: g.of.Kind, Name: g.of.Name, UID: g.uid, Controller: &yes,
					BlockOwnerDeletion: &no}},
		},
		Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &one, Selector: g.selector,
			UnhealthyPodEvictionPolicy: &always},
	}
}

// budgetName is that of a component's budget. A Deployment and a StatefulSet may have
// one name, and that name may be as long as names get.
func budgetName(kind, name string) string {
	const longest = 253
	out := "trivet-" + strings.ToLower(kind) + "-" + name
	if len(out) <= longest {
		return out
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(out)) // it never fails
	return fmt.Sprintf("%s-%016x", strings.TrimRight(out[:longest-17], "-."), h.Sum64())
}

// isOwnBudget reports whether we made a budget.
func isOwnBudget(b policyv1.PodDisruptionBudget) bool {
	return b.Labels[managed] == managedBy && strings.HasPrefix(b.Name, "trivet-")
}

// same reports whether a budget is as it shall be.
func same(has, want policyv1.PodDisruptionBudget) bool {
	return equality.Semantic.DeepEqual(has.Spec, want.Spec) &&
		equality.Semantic.DeepEqual(has.OwnerReferences, want.OwnerReferences)
}
