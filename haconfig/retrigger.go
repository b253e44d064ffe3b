package haconfig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/trivet-ha/trivet/raftstore/leader"
)

// nodesEvery is how often the leader looks whether there is more than one kube node.
const nodesEvery = 5 * time.Second

// Workloads are what is deployed in a cluster.
type Workloads interface {
	// Nodes is how many kube nodes there are, two for more.
	Nodes(ctx context.Context) (int, error)
	// Deployed lists the Deployments and StatefulSets about which the webhook is
	// asked.
	Deployed(ctx context.Context) ([]Component, error)
	// Touch has the webhook asked about one again, and changes nothing itself.
	Touch(ctx context.Context, of Component) error
}

// Retrigger returns the chore that has the webhook asked again about what was
// admitted when there was one kube node and now are several, or the other way. The
// first round of each leadership always looks: the number before it is not known.
func Retrigger(w Workloads) func(leader.Authority) Chore {
	return func(leader.Authority) Chore {
		var known, several bool
		return Chore{"settings after a change of the number of kube nodes", nodesEvery,
			func(ctx context.Context, write Write) error {
				nodes, err := w.Nodes(ctx)
				if err != nil {
					return err
				}
				now := nodes > 1
				if known && now == several {
					return nil
				}
				if err := retrigger(ctx, w, now, write); err != nil {
					return err // and so it is tried again
				}
				known, several = true, now
				return nil
			}}
	}
}

// retrigger touches what has as its first constraint over hosts the one for the other number
// of kube nodes. One that cannot be touched keeps none of the others from it.
func retrigger(ctx context.Context, w Workloads, several bool, write Write) error {
	deployed, err := w.Deployed(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for _, of := range deployed {
		var is running
		err := unmarshal(of.Raw, &is)
		constraints := is.Spec.Template.Spec.TopologySpreadConstraints
		i := slices.IndexFunc(constraints,
			func(c corev1.TopologySpreadConstraint) bool { return c.TopologyKey == corev1.LabelHostname })
		if err == nil && i >= 0 && (constraints[i].WhenUnsatisfiable == corev1.DoNotSchedule) != several {
			err = write(ctx, func(ctx context.Context) error { return w.Touch(ctx, of) })
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s %s/%s: %w", of.Kind, of.Namespace, of.Name, err))
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return errors.Join(failed[:min(len(failed), 5)]...) // a line in the log shall not have thousands
}
