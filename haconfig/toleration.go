package haconfig

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// tolerations are what is configured, in the order in which it is added.
func (c Conventions) tolerations() []corev1.Toleration {
	var out []corev1.Toleration
	for _, of := range []struct {
		key     string
		seconds *int64
	}{
		{corev1.TaintNodeNotReady, c.NotReadySeconds},
		{corev1.TaintNodeUnreachable, c.UnreachableSeconds},
	} {
		if of.seconds != nil {
			out = append(out, corev1.Toleration{Key: of.key, Operator: corev1.TolerationOpExists,
				Effect: corev1.TaintEffectNoExecute, TolerationSeconds: of.seconds})
		}
	}
	return out
}

// tolerations adds those of which a pod has none with the same key that concerns
// running pods.
func (p *patch) tolerations(raw []rawJSON, wanted []corev1.Toleration) error {
	if len(wanted) == 0 {
		return nil
	}
	before, after := make([]any, 0, len(raw)), make([]any, 0, len(raw)+len(wanted))
	for _, text := range raw {
		one, err := tree(text, "tolerations")
		if err != nil {
			return err
		}
		before, after = append(before, one), append(after, one)
	}
	for _, t := range wanted {
		has := slices.ContainsFunc(before, func(item any) bool {
			one := item.(map[string]any)
			effect, _ := one["effect"].(string)
			return one["key"] == t.Key && (effect == "" || effect == string(t.Effect))
		})
		if !has {
			after = append(after, t)
		}
	}
	return p.set(before, after, "spec", "template", "spec", "tolerations")
}
