package haconfig

import (
	"net/http"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// spread decides about the constraints. What has one replica keeps those that it
// has; those of a Deployment compare pods of one revision only, else a rolling
// update could find no place.
func (c Conventions) spread(p *patch, w workload, replicas *int32, facts spreadFacts) error {
	if w.selector == nil {
		if c.Strict.Selector {
			return refuse(http.StatusUnprocessableEntity, "spec.selector: a StatefulSet must have one")
		}
		return refuse(http.StatusInternalServerError, "spec.selector is missing: nothing can be spread by it")
	}
	before := make([]any, 0, len(w.pod.Constraints))
	after := make([]any, 0, len(w.pod.Constraints)+len(spreadTable))
	replace := replicas != nil && *replicas >= 2
	for _, raw := range w.pod.Constraints {
		one, err := tree(raw, "topologySpreadConstraints")
		if err != nil {
			return err
		}
		before = append(before, one)
		if key := one["topologyKey"]; replace && (key == corev1.LabelHostname || key == corev1.LabelTopologyZone) {
			continue
		}
		if w.deployment {
			one = byRevision(one)
		}
		after = append(after, one)
	}
	if replace {
		var keys []string
		if w.deployment {
			keys = []string{appsv1.DefaultDeploymentUniqueLabelKey}
		}
		after = append(after, facts.constraints(w.selector, keys)...)
	}
	return p.set(before, after, "spec", "template", "spec", "topologySpreadConstraints")
}

// byRevision returns a constraint that compares pods of one revision.
func byRevision(constraint map[string]any) map[string]any {
	keys, _ := constraint["matchLabelKeys"].([]any)
	if slices.Contains(keys, any(appsv1.DefaultDeploymentUniqueLabelKey)) {
		return constraint
	}
	out := make(map[string]any, len(constraint)+1)
	for name, value := range constraint {
		out[name] = value
	}
	out["matchLabelKeys"] = append(slices.Clone(keys), appsv1.DefaultDeploymentUniqueLabelKey)
	return out
}
