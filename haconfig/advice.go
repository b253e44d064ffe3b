package haconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Findings about a component. FindingChange and FindingRefused say what the webhook
// would do; the others, what would not survive the loss of a host or zone, with the
// conventions applied.
const (
	FindingChange   = "change"         // the conventions would change it
	FindingRefused  = "refused"        // it would not be admitted
	FindingSingle   = "single-replica" // it is down while its host is
	FindingSpread   = "no-spread"      // all of it may be on one host
	FindingBudget   = "no-budget"      // draining two hosts may take all of it
	FindingDrain    = "no-drain"       // a budget keeps its hosts from being drained
	FindingZones    = "few-zones"      // it is to survive a zone, and there are fewer than three
	FindingPinned   = "pinned-volume"  // it cannot go where its data is not
	FindingTogether = "shared-volume"  // replicas share a volume that one host mounts
	FindingType     = "no-type"        // nothing says what it is: it gets no replicas and no budget
)

// Advice is one finding.
type Advice struct {
	Namespace string `json:"namespace"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Finding   string `json:"finding"`
	Text      string `json:"text"`
}

// Risk reports whether the component may not survive, or may not be admitted.
func (a Advice) Risk() bool { return a.Finding != FindingChange && a.Finding != FindingType }

// Component is a Deployment or StatefulSet with what there is around it.
type Component struct {
	Object
	Around  Surroundings
	Budgets []policyv1.PodDisruptionBudget // of its namespace
	// Considered says that the webhook is asked about it.
	Considered bool

	labels  map[string]string // set by Inventory.add alone
	volumes claimed
}

// Advise says what the conventions would change of a component, and what they leave
// that will not survive the loss of a host. An error means that it cannot be read.
func (c Conventions) Advise(of Component) (all []Advice, err error) {
	say := func(finding, format string, a ...any) {
		all = append(all, Advice{of.Namespace, of.Kind, of.Name, finding, fmt.Sprintf(format, a...)})
	}
	raw := of.Raw
	if of.Considered {
		v, err := c.Mutate(of.Object, of.Around)
		var refused *Refusal
		if errors.As(err, &refused) {
			say(FindingRefused, "it is refused with code %d: %s", refused.Code, refused.Text)
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		for _, op := range v.Patch {
			if string(op.Value) != "{}" || strings.HasSuffix(op.Path, "Constraints") { // not what only makes room
				say(FindingChange, "%s becomes %s", strings.ReplaceAll(op.Path[1:], "/", "."), op.Value)
			}
		}
		if raw, err = v.apply(of.Raw); err != nil {
			return nil, err
		}
	}
	if of.Kind == kindAutoscaler.Kind {
		return all, nil
	}
	var w running
	if err := unmarshal(raw, &w); err != nil {
		return nil, fmt.Errorf("%s %s: %w", of.Kind, of.Name, err)
	}
	kind, ruled := c.typeOf(of.Namespace, of.Name, w.Metadata.Labels)
	if of.Considered && kind == "" {
		say(FindingType,
			"it has no label %s, and no rule of haconfig.components is for it: it is given neither replicas nor a budget",
			c.Names.Type())
	}
	w.accepted = of.Considered && ruled && kind == observability
	p := c.policyOf(of.Around.Annotations)
	w.adviseOn(of, p, say)
	w.judgeVolumes(of, p, say)
	return all, nil
}

// running is a component as its risks see it.
type running struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	accepted bool              // that it is down while its host is
	Spec     struct {
		Replicas  *int32                         `json:"replicas"`
		Template  corev1.PodTemplateSpec         `json:"template"`
		Templates []corev1.PersistentVolumeClaim `json:"volumeClaimTemplates"`
	} `json:"spec"`
}

// adviseOn says what a component will not survive. What is hibernated has nothing to
// survive.
func (w running) adviseOn(of Component, p policy, say func(finding, format string, a ...any)) {
	replicas := int32(1)
	if w.Spec.Replicas != nil {
		replicas = *w.Spec.Replicas
	}
	pod := w.Spec.Template
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.HostPath != nil:
			say(FindingPinned, "volume %s is a directory of whichever host it runs on", v.Name)
		case v.PersistentVolumeClaim != nil && replicas > 1 && of.Kind == kindDeployment.Kind:
			say(FindingTogether, "its %d replicas share the claim %s: unless that is ReadWriteMany, one host mounts it",
				replicas, v.PersistentVolumeClaim.ClaimName)
		}
	}
	switch {
	case replicas == 0, replicas == 1 && w.accepted:
		return
	case replicas == 1:
		say(FindingSingle, "it is down while its host is: give it the label for the table, or two replicas")
		return
	}
	// A host is in one domain of any key, so that pods in two domains are on two hosts: a constraint over zones
	// keeps them from being all on one host, where it wants two, or the namespace has two.
	apart := slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
		several := c.MinDomains != nil && *c.MinDomains >= 2 || c.TopologyKey == corev1.LabelHostname ||
			c.TopologyKey == corev1.LabelTopologyZone && len(p.zones) >= 2
		return c.WhenUnsatisfiable == corev1.DoNotSchedule && several && c.MaxSkew < replicas &&
			matches(c.LabelSelector, pod.Labels)
	})
	if !apart && !antiAffinity(pod.Spec.Affinity, of.Namespace, pod.Labels) {
		say(FindingSpread, "all %d replicas may be on one host: nothing that must hold spreads them over hosts or zones",
			replicas)
	}
	if n := len(p.zones); of.Considered && p.tolerance.text == zone && n < 3 {
		say(FindingZones,
			"it is to survive the loss of a zone, and its namespace has %d: what needs a majority does not survive without three",
			n)
	}
	w.judgeBudgets(of, replicas, say)
}

// judgeBudgets says what the budgets of a component let an eviction take: all of it, or nothing.
func (w running) judgeBudgets(of Component, replicas int32, say func(finding, format string, a ...any)) {
	var names []string
	for _, b := range of.Budgets {
		if !selects(b, w.Spec.Template.Labels) {
			continue
		}
		names = append(names, b.Name)
		switch most, known := evictable(b, replicas); {
		case known && most <= 0:
			say(FindingDrain, "PodDisruptionBudget %s lets none of its %d pods be evicted: no host that runs one can be drained",
				b.Name, replicas)
		case known && most >= replicas:
			say(FindingBudget, "PodDisruptionBudget %s lets all %d pods be evicted at once", b.Name, replicas)
		}
	}
	switch {
	case len(names) == 0:
		say(FindingBudget, "no PodDisruptionBudget selects its pods: who drains two hosts may take all of them at once")
	case len(names) > 1:
		say(FindingDrain, "PodDisruptionBudgets %s select the same pods: Kubernetes evicts no pod that several select",
			strings.Join(names, ", "))
	}
}

// evictable is how many of the pods that a budget selects may be evicted while all are
// healthy, rounded as Kubernetes does; known is false where the budget does not say.
func evictable(b policyv1.PodDisruptionBudget, replicas int32) (most int32, known bool) {
	value, left := b.Spec.MaxUnavailable, false
	if value == nil {
		value, left = b.Spec.MinAvailable, true
	}
	if value == nil {
		return 0, false
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(value, int(replicas), true)
	if err != nil {
		return 0, false
	}
	if left {
		n = int(replicas) - n
	}
	return int32(min(n, int(replicas))), true
}

// judgeVolumes says where volumes keep a component. A volume of one zone is as it
// should be where no zone is to be survived.
func (w running) judgeVolumes(of Component, p policy, say func(finding, format string, a ...any)) {
	if w.Spec.Replicas != nil && *w.Spec.Replicas == 0 {
		return
	}
	volumes := of.volumes.volumesOf(w, of)
	var zones []string
	for _, v := range volumes {
		where := VolumeZones(v)
		claim := v.Spec.ClaimRef.Name
		hosts := places(v, func(key string) bool { return key == corev1.LabelHostname }) // from which it can be mounted
		if len(hosts) == 1 {
			say(FindingPinned, "the volume of claim %s is on kube node %s: it is gone while that is", claim, hosts[0])
		}
		if allowed := pinnedTo(w.Spec.Template.Spec.Affinity); len(where) > 0 && len(allowed) > 0 &&
			!slices.ContainsFunc(where, func(z string) bool { return slices.Contains(allowed, z) }) {
			say(FindingPinned, "the volume of claim %s is in zone %s, and its pods may run in %s alone: they start nowhere",
				claim, strings.Join(where, ", "), strings.Join(allowed, ", "))
		}
		if len(where) == 0 {
			return // of one it is not known
		}
		zones = distinct(append(zones, where...))
	}
	survives := of.Considered && len(p.zones) >= 2 && (!p.tolerance.said || p.tolerance.text == zone)
	if len(zones) == 1 && survives {
		say(FindingPinned, "all its volumes are in zone %s: it does not survive that zone", zones[0])
	}
}

// pinnedTo are the zones that pods must run in; none if they may run in any.
func pinnedTo(a *corev1.Affinity) (zones []string) {
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		at := slices.IndexFunc(term.MatchExpressions, func(e corev1.NodeSelectorRequirement) bool {
			return e.Key == corev1.LabelTopologyZone && e.Operator == corev1.NodeSelectorOpIn
		})
		if at < 0 {
			return nil // this term is fulfilled anywhere
		}
		zones = append(zones, term.MatchExpressions[at].Values...)
	}
	return distinct(zones)
}

// antiAffinity reports whether pods with these labels must not share a host with each other.
func antiAffinity(a *corev1.Affinity, namespace string, of map[string]string) bool {
	return a != nil && a.PodAntiAffinity != nil &&
		slices.ContainsFunc(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
			func(t corev1.PodAffinityTerm) bool {
				own := len(t.Namespaces) == 0 && t.NamespaceSelector == nil || slices.Contains(t.Namespaces, namespace) ||
					t.NamespaceSelector != nil && len(t.NamespaceSelector.MatchLabels)+len(t.NamespaceSelector.MatchExpressions) == 0
				return own && t.TopologyKey != "" && matches(t.LabelSelector, of)
			})
}

// selects reports whether a budget is about pods with these labels.
func selects(b policyv1.PodDisruptionBudget, of map[string]string) bool {
	return matches(b.Spec.Selector, of)
}

// matches reports whether a selector is for these labels. One that makes no sense is for none.
func matches(selector *metav1.LabelSelector, of map[string]string) bool {
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && s.Matches(labels.Set(of))
}

// apply carries the patch out on an object of which it was made. It knows the one
// operation that there is.
func (v Verdict) apply(raw []byte) ([]byte, error) {
	if len(v.Patch) == 0 {
		return raw, nil
	}
	var object map[string]any
	if err := unmarshal(raw, &object); err != nil {
		return nil, err
	}
	for _, op := range v.Patch {
		path := strings.Split(op.Path[1:], "/")
		above := object
		for _, name := range path[:len(path)-1] {
			above = child(above, name)
		}
		var value any
		if err := unmarshal(op.Value, &value); err != nil {
			return nil, err
		}
		above[path[len(path)-1]] = value
	}
	return json.Marshal(object)
}
