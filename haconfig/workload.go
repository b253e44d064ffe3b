package haconfig

import (
	"encoding/json"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// workload is a Deployment or StatefulSet, as far as it matters.
type workload struct {
	labels, annotations map[string]string
	replicas            *int32
	selector            *metav1.LabelSelector // of its own pods; nil: it has none
	deployment          bool                  // else a StatefulSet
	pod                 podShape
	has                 []string // paths of the objects above the pod's fields that there are
}

// podShape is a pod's specification. The parts that a patch replaces are kept as they
// were sent, so that fields in them that are not known here stay.
type podShape struct {
	corev1.PodSpec `json:",inline"`

	Affinity    json.RawMessage   `json:"affinity"`
	Constraints []json.RawMessage `json:"topologySpreadConstraints"`
	Tolerations []json.RawMessage `json:"tolerations"`
}

// shape is what Deployments and StatefulSets have in common.
type shape struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     *struct {
		Replicas *int32                `json:"replicas"`
		Selector *metav1.LabelSelector `json:"selector"`
		Template *struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
			Spec     *podShape         `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

// component is the workload for the table of replicas.
func (w workload) component(c Conventions, o Object) component {
	out := component{override: w.annotations[c.Names.Replicas()], replicas: w.replicas}
	out.kind, out.ruled = c.typeOf(o.Namespace, o.Name, w.labels)
	return out
}

// decodeWorkload reads an object; each field that it has must be of its type.
func decodeWorkload(o Object) (workload, error) {
	var s shape
	if err := decode(o.Raw, &s); err != nil {
		return workload{}, err
	}
	w := workload{deployment: o.GroupKind() == kindDeployment, labels: s.Metadata.Labels,
		annotations: s.Metadata.Annotations}
	var labels map[string]string // of the pods
	if s.Spec != nil {
		w.has, w.replicas, w.selector = append(w.has, "/spec"), s.Spec.Replicas, s.Spec.Selector
		if t := s.Spec.Template; t != nil {
			w.has, labels = append(w.has, "/spec/template"), t.Metadata.Labels
			if t.Spec != nil {
				w.has, w.pod = append(w.has, "/spec/template/spec"), *t.Spec
			}
		}
	}
	if w.deployment { // whichever it has
		delete(labels, labelPodTemplate) // its ReplicaSets write their own, by which constraints compare
		w.selector = &metav1.LabelSelector{MatchLabels: labels}
	}
	return w, w.pod.check()
}

// check judges what was kept as it was sent.
func (p podShape) check() error {
	if len(p.Affinity) > 0 {
		if err := decode(p.Affinity, new(corev1.Affinity)); err != nil {
			return err
		}
	}
	for _, raw := range p.Constraints {
		if err := decode(raw, new(corev1.TopologySpreadConstraint)); err != nil {
			return err
		}
	}
	for _, raw := range p.Tolerations {
		if err := decode(raw, new(corev1.Toleration)); err != nil {
			return err
		}
	}
	return nil
}

// decode reads an object, of which nothing may be of another type than it has.
func decode(raw []byte, into any) error {
	if len(raw) == 0 {
		return refuse(http.StatusForbidden, "there is no object to decode")
	}
	if err := unmarshal(raw, into); err != nil {
		return refuse(http.StatusForbidden, "the object cannot be decoded: %v", err)
	}
	return nil
}

// unmarshal reads JSON as the API server does: names in their case, and whole
// numbers as such.
func unmarshal(raw []byte, into any) error { return utiljson.Unmarshal(raw, into) }
