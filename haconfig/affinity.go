package haconfig

import (
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// affinity pins a pod to the zones, where the namespace asks for it: in each term
// that it must meet, and else in one of its own. A term of ours next to theirs would
// mean "or".
func (p *patch) affinity(raw []byte, by policy) error {
	if len(by.zones) == 0 || !by.tolerance.said && !by.pinned {
		return nil
	}
	if len(raw) == 0 { // most objects
		p.addOperation(pinned(by.zones), "spec", "template", "spec", "affinity")
		return nil
	}
	before, err := tree(raw, "affinity")
	if err != nil {
		return err
	}
	after, err := tree(raw, "affinity") // a copy of its own
	if err != nil {
		return err
	}
	if after == nil { // null
		after = map[string]any{}
	}
	required := child(child(after, "nodeAffinity"), "requiredDuringSchedulingIgnoredDuringExecution")
	terms, _ := required["nodeSelectorTerms"].([]any)
	if len(terms) == 0 {
		terms = []any{map[string]any{}}
	}
	zones := make([]any, len(by.zones))
	for i, name := range by.zones {
		zones[i] = name
	}
	for i, item := range terms {
		term, ok := item.(map[string]any)
		if !ok { // null
			term = map[string]any{}
			terms[i] = term
		}
		theirs, _ := term["matchExpressions"].([]any)
		kept := slices.DeleteFunc(slices.Clone(theirs), func(e any) bool {
			expression, _ := e.(map[string]any)
			return expression["key"] == corev1.LabelTopologyZone
		})
		term["matchExpressions"] = append(kept,
			map[string]any{"key": corev1.LabelTopologyZone, "operator": string(corev1.NodeSelectorOpIn), "values": zones})
	}
	required["nodeSelectorTerms"] = terms
	return p.set(before, after, "spec", "template", "spec", "affinity")
}

// pinned is the affinity of a pod that had none.
func pinned(zones []string) corev1.Affinity {
	only := corev1.NodeSelectorRequirement{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: zones}
	return corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{only}}},
		}}}
}

// tree reads a JSON object, nil for none. Its types were checked with the object.
func tree(raw []byte, name string) (map[string]any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var out map[string]any
	if err := unmarshal(raw, &out); err != nil {
		return nil, refuse(http.StatusForbidden, "%s cannot be decoded: %v", name, err)
	}
	return out, nil
}

// child returns an object within another, which is made if need be.
func child(of map[string]any, name string) map[string]any {
	if found, ok := of[name].(map[string]any); ok {
		return found
	}
	made := map[string]any{}
	of[name] = made
	return made
}
