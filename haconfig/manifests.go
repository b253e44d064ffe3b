package haconfig

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Inventory are the objects of a file, or of a cluster, by what they are to advice.
type Inventory struct {
	namespaces map[string]corev1.Namespace
	scalers    map[string][]Autoscaler
	budgets    map[string][]policyv1.PodDisruptionBudget
	volumes    claimed
	objects    []Component
}

// NewInventory returns an empty one.
func NewInventory() *Inventory {
	return &Inventory{namespaces: map[string]corev1.Namespace{}, scalers: map[string][]Autoscaler{},
		budgets: map[string][]policyv1.PodDisruptionBudget{}, volumes: claimed{}}
}

// Add takes one object in JSON; one of a kind that advice does not depend on is
// passed over.
func (i *Inventory) Add(raw []byte) error {
	var of metav1.TypeMeta
	if err := unmarshal(raw, &of); err != nil {
		return err
	}
	kind := kindOf(of.APIVersion, of.Kind)
	if !matters(kind) {
		return nil
	}
	if err := i.add(kind, raw); err != nil {
		return fmt.Errorf("%s: %w", nameOf(of.Kind, raw), err)
	}
	return nil
}

// kindOf returns the kind of an object, none for a version that is none.
func kindOf(apiVersion, kind string) schema.GroupVersionKind {
	version, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return schema.GroupVersionKind{}
	}
	return version.WithKind(kind)
}

// matters reports whether advice depends on objects of a kind.
func matters(kind schema.GroupVersionKind) bool {
	switch kind.GroupKind() {
	case kindNamespace, kindBudget, kindVolume, kindAutoscaler, kindDeployment, kindStatefulSet:
		return true
	}
	return false
}

// nameOf names an object in JSON, as far as its name is to be read.
func nameOf(kind string, raw []byte) string {
	var of struct {
		Metadata struct {
			Namespace any `json:"namespace"`
			Name      any `json:"name"`
		} `json:"metadata"`
	}
	_ = unmarshal(raw, &of) // the caller has an error of its own to tell
	namespace, _ := of.Metadata.Namespace.(string)
	name, _ := of.Metadata.Name.(string)
	return named(kind, namespace, name)
}

// named names an object for a message.
func named(kind, namespace, name string) string {
	switch {
	case name == "":
		return kind + " without a name"
	case namespace == "":
		return kind + " " + name
	}
	return kind + " " + namespace + "/" + name
}

// add takes one object of a kind that matters.
func (i *Inventory) add(kind schema.GroupVersionKind, raw []byte) error {
	var meta struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	if err := unmarshal(raw, &meta); err != nil {
		return err
	}
	namespace := meta.Metadata.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	switch kind.GroupKind() {
	case kindNamespace:
		return taken(raw, func(n *corev1.Namespace) { i.namespaces[n.Name] = *n })
	case kindBudget:
		return taken(raw, func(b *policyv1.PodDisruptionBudget) {
			i.budgets[namespace] = append(i.budgets[namespace], *b)
		})
	case kindVolume:
		return taken(raw, i.volumes.add)
	case kindAutoscaler:
		if err := taken(raw, func(hpa *HorizontalPodAutoscaler) {
			i.scalers[namespace] = append(i.scalers[namespace], hpa.Autoscaler())
		}); err != nil {
			return err
		}
	}
	i.objects = append(i.objects, Component{Object: Object{kind, namespace, meta.Metadata.Name, raw},
		labels: meta.Metadata.Labels})
	return nil
}

// taken reads an object in JSON and has it taken.
func taken[T any](raw []byte, take func(*T)) error {
	object := new(T)
	if err := unmarshal(raw, object); err != nil {
		return err
	}
	take(object)
	return nil
}

// Considered are the Deployments and StatefulSets about which the webhook is asked.
func (i *Inventory) Considered(n Names) (all []Component) {
	for _, of := range i.objects {
		if of.Considered = i.considered(of, n, false); of.Considered && of.Kind != kindAutoscaler.Kind {
			all = append(all, of)
		}
	}
	return all
}

// considered reports whether the webhook is asked about an object; unknown is the
// answer for one whose namespace is not in the inventory.
func (i *Inventory) considered(of Component, n Names, unknown bool) bool {
	if namespace, known := i.namespaces[of.Namespace]; known {
		unknown = namespace.Labels[n.Consider()] == "true"
	}
	_, skipped := of.labels[n.Skip()]
	return unknown && !skipped
}

// Advise judges everything in the inventory, in its order. What cannot be judged
// is left out: the error joins one for each such object, which it names. nodes is how many kube
// nodes there are. A namespace that is not in it has the annotations of fallback,
// and is considered; fallback nil means that only the namespaces in it exist.
func (i *Inventory) Advise(c Conventions, nodes int, fallback map[string]string) (all []Advice, err error) {
	var wrong []error
	for _, of := range i.objects {
		annotations := fallback
		if n, known := i.namespaces[of.Namespace]; known {
			annotations = n.Annotations
		}
		of.Considered = i.considered(of, c.Names, fallback != nil)
		of.Around = Surroundings{Annotations: annotations, Autoscalers: i.scalers[of.Namespace], Nodes: nodes}
		of.Budgets, of.volumes = i.budgets[of.Namespace], i.volumes
		advice, err := c.Advise(of)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", nameOf(of.Kind, of.Raw), err))
		}
		all = append(all, advice...)
	}
	return all, errors.Join(wrong...)
}
