package haconfig

import (
	"maps"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
			keys = []string{labelPodTemplate}
		}
		after = append(after, facts.constraints(w.selector, keys)...)
	}
	return p.set(before, after, "spec", "template", "spec", "topologySpreadConstraints")
}

// labelPodTemplate has the hash of a Deployment's template: pods of one revision have the same.
const labelPodTemplate = "pod-template-hash"

// byRevision returns a constraint that compares pods of one revision. One without a selector, or
// whose selector names the label, stays as it is: Kubernetes refuses the key there.
func byRevision(constraint map[string]any) map[string]any {
	keys, _ := constraint["matchLabelKeys"].([]any)
	selector, there := constraint["labelSelector"].(map[string]any)
	labels, _ := selector["matchLabels"].(map[string]any)
	_, labelled := labels[labelPodTemplate]
	expressions, _ := selector["matchExpressions"].([]any)
	expressed := slices.ContainsFunc(expressions, func(e any) bool {
		one, _ := e.(map[string]any)
		return one["key"] == labelPodTemplate
	})
	if slices.Contains(keys, any(labelPodTemplate)) || !there || labelled || expressed {
		return constraint
	}
	out := make(map[string]any, len(constraint)+1)
	maps.Copy(out, constraint)
	out["matchLabelKeys"] = append(slices.Clone(keys), labelPodTemplate)
	return out
}

// spreadRule is a row of the table of constraints: over what, when, how strictly,
// and over how many at least.
type spreadRule struct {
	key     string
	applies func(spreadFacts) bool
	strict  func(spreadFacts) bool
	domains func(spreadFacts) int32 // where it is strict
	cel     spreadCEL               // the same
}

// spreadCEL is a row in the words of Expressions. How many kube nodes there are, and how far
// an autoscaler may go, an API server does not tell a policy: there are several, and the
// replicas are those of the object.
type spreadCEL struct{ applies, strict, domains string }

// spreadFacts are what the rows are decided by.
type spreadFacts struct {
	policy
	hostSpread bool  // the object asks for it
	several    bool  // there is more than one kube node
	most       int32 // replicas that there may come to be
}

// spreadTable is which constraints a component with several replicas gets.
var spreadTable = []spreadRule{
	{
		key:     corev1.LabelHostname,
		applies: func(spreadFacts) bool { return true },
		strict: func(f spreadFacts) bool {
			return (f.tolerance.column() == some || f.hostSpread) && f.several
		},
		domains: func(f spreadFacts) int32 { return min(3, f.most) },
		cel: spreadCEL{"true", "(variables.column == 2 || variables.hostSpread)",
			"variables.replicas < 3 ? variables.replicas : 3"},
	},
	{
		key: corev1.LabelTopologyZone,
		applies: func(f spreadFacts) bool {
			return len(f.zones) >= 2 && (f.tolerance.column() == absent || f.tolerance.text == zone)
		},
		strict:  func(spreadFacts) bool { return true },
		domains: func(f spreadFacts) int32 { return min(int32(len(f.zones)), f.most) }, // an annotation has at most 256 KiB
		cel: spreadCEL{`(size(variables.zones) >= 2 && (variables.column == 0 || variables.tolerance == "zone"))`, "true",
			"size(variables.zones) < variables.replicas ? size(variables.zones) : variables.replicas"},
	},
}

// constraints are what the table says, for a selector; keys are the labels in which
// the pods that are compared are alike, besides it. They are of the API's type, which
// is encoded in half the time of a map.
func (f spreadFacts) constraints(selector *metav1.LabelSelector, keys []string) []any {
	out := make([]any, 0, len(spreadTable))
	for _, rule := range spreadTable {
		if !rule.applies(f) {
			continue
		}
		c := corev1.TopologySpreadConstraint{TopologyKey: rule.key, MaxSkew: 1, LabelSelector: selector,
			WhenUnsatisfiable: corev1.ScheduleAnyway, MatchLabelKeys: keys}
		if rule.strict(f) {
			domains := rule.domains(f)
			c.WhenUnsatisfiable, c.MinDomains = corev1.DoNotSchedule, &domains
		}
		out = append(out, &c)
	}
	return out
}
