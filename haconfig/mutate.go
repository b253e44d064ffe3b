package haconfig

import (
	"encoding/json"
	"fmt"
	"net/http"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Object is what is asked about: which one, and its JSON.
type Object struct {
	schema.GroupVersionKind
	Namespace, Name string
	Raw             []byte
}

// Verdict is what Mutate decides about an object that it does not refuse.
type Verdict struct {
	Patch   []Operation // nil: it is as it should be
	Message string      // for the client of the API server; "" for none
}

// Refusal is why an object is not admitted.
type Refusal struct {
	Code int // of HTTP
	Text string
}

// Error implements error.
func (r *Refusal) Error() string { return r.Text }

// refuse makes a Refusal.
func refuse(code int, format string, a ...any) *Refusal {
	return &Refusal{Code: code, Text: fmt.Sprintf(format, a...)}
}

// groupApps is the group of workloads.
const groupApps = "apps"

// Kinds that are known.
var (
	kindDeployment  = schema.GroupKind{Group: groupApps, Kind: "Deployment"}
	kindStatefulSet = schema.GroupKind{Group: groupApps, Kind: "StatefulSet"}
	kindNamespace   = schema.GroupKind{Kind: "Namespace"}
	kindVolume      = schema.GroupKind{Kind: "PersistentVolume"}
	kindBudget      = schema.GroupKind{Group: policyv1.GroupName, Kind: "PodDisruptionBudget"}
	kindAutoscaler  = schema.GroupKind{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}
)

// Mutate decides what is to be changed of an object. Objects of kinds that are not
// known stay as they are, with a message. Every error is a *Refusal. Applied to its
// own outcome it changes nothing.
func (c Conventions) Mutate(o Object, s Surroundings) (Verdict, error) {
	switch o.GroupKind() {
	case kindDeployment, kindStatefulSet:
		return c.workload(o, s)
	case kindAutoscaler:
		return c.autoscaler(o, s)
	}
	return Verdict{Message: "unexpected resource: " + o.GroupKind().String()}, nil
}

// workload decides about what has pods.
func (c Conventions) workload(o Object, s Surroundings) (Verdict, error) {
	w, err := decodeWorkload(o)
	if err != nil {
		return Verdict{}, err
	}
	scaler, scaled := s.scaler(o)
	p := c.policyOf(s.Annotations)
	wanted, err := c.replicas(w.component(c, o), p.tolerance)
	if err != nil {
		return Verdict{}, err
	}
	replicas := w.replicas
	if wanted != nil && (!scaled || *replicas < *wanted) {
		replicas = wanted
	}
	facts := spreadFacts{policy: p, hostSpread: isTrue(w.annotations[c.Names.HostSpread()]), several: s.Nodes > 1}
	if replicas != nil {
		facts.most = *replicas
	}
	facts.most = max(facts.most, scaler.Max)

	patch := newPatch(w.has...)
	patch.setNumber(w.replicas, replicas, "spec", "replicas")
	if err := patch.affinity(w.pod.Affinity, p); err != nil {
		return Verdict{}, err
	}
	if err := c.spread(patch, w, replicas, facts); err != nil {
		return Verdict{}, err
	}
	if err := patch.tolerations(w.pod.Tolerations, c.tolerations()); err != nil {
		return Verdict{}, err
	}
	return patch.verdict()
}

// autoscaler decides about a HorizontalPodAutoscaler: its minimum is raised, and
// its maximum where that is too low.
func (c Conventions) autoscaler(o Object, s Surroundings) (Verdict, error) {
	var hpa HorizontalPodAutoscaler
	if err := decode(o.Raw, &hpa); err != nil {
		return Verdict{}, err
	}
	of := component{override: hpa.Metadata.Annotations[c.Names.Replicas()], replicas: hpa.Spec.MinReplicas}
	of.kind, of.ruled = c.typeOf(o.Namespace, o.Name, hpa.Metadata.Labels)
	wanted, err := c.replicas(of, c.policyOf(s.Annotations).tolerance)
	if err != nil || wanted == nil {
		return Verdict{}, err
	}
	least, most := max(*hpa.Spec.MinReplicas, *wanted), hpa.Spec.MaxReplicas
	if most < least {
		most = *wanted
		if c.Strict.Autoscaler {
			most = least
		}
	}
	patch := newPatch("/spec")
	patch.setNumber(hpa.Spec.MinReplicas, &least, "spec", "minReplicas")
	patch.setNumber(&hpa.Spec.MaxReplicas, &most, "spec", "maxReplicas")
	return patch.verdict()
}

// encode writes what was made here of what was read as JSON.
func encode(value any) (json.RawMessage, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, refuse(http.StatusInternalServerError, "encode what was decided: %v", err)
	}
	return text, nil
}
