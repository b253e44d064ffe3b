package haconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// maxManifests bounds how many objects are read of a file.
const maxManifests = 100_000

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
	return &Inventory{namespaces: map[string]corev1.Namespace{}, scalers: map[string][]Autoscaler{}, budgets: map[string][]policyv1.PodDisruptionBudget{}, volumes: claimed{}}
}

// ReadManifests reads documents of YAML or JSON, and lists of objects in them. Kinds
// that do not matter are passed over.
func (i *Inventory) ReadManifests(r io.Reader) error {
	documents := yaml.NewDecoder(r)
	for n := 1; n <= maxManifests; n++ {
		var document any
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			return nil
		}
		var raw []byte
		if err == nil && document != nil {
			raw, err = json.Marshal(document)
		}
		if err == nil && raw != nil {
			err = i.Add(raw)
		}
		if err != nil {
			return fmt.Errorf("document %d: %w", n, err)
		}
	}
	return fmt.Errorf("more than %d documents", maxManifests)
}

// Add takes one object in JSON, or a list of them.
func (i *Inventory) Add(raw []byte) error {
	var meta struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        metav1.ObjectMeta `json:"metadata"`
		Items           []json.RawMessage `json:"items"`
	}
	if err := unmarshal(raw, &meta); err != nil {
		return err
	}
	for _, item := range meta.Items {
		if err := i.Add(item); err != nil {
			return err
		}
	}
	version, err := schema.ParseGroupVersion(meta.APIVersion)
	if err != nil {
		return err
	}
	kind := version.WithKind(meta.Kind)
	namespace := meta.Metadata.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	switch kind.GroupKind() {
	case schema.GroupKind{Kind: "Namespace"}:
		var n corev1.Namespace
		if err := unmarshal(raw, &n); err != nil {
			return err
		}
		i.namespaces[n.Name] = n
	case schema.GroupKind{Group: policyv1.GroupName, Kind: "PodDisruptionBudget"}:
		var b policyv1.PodDisruptionBudget
		if err := unmarshal(raw, &b); err != nil {
			return err
		}
		i.budgets[namespace] = append(i.budgets[namespace], b)
	case schema.GroupKind{Kind: "PersistentVolume"}:
		var v corev1.PersistentVolume
		if err := unmarshal(raw, &v); err != nil {
			return err
		}
		i.volumes.add(&v)
	case kindAutoscaler:
		var hpa autoscalingv2.HorizontalPodAutoscaler
		if err := unmarshal(raw, &hpa); err != nil {
			return err
		}
		ref := hpa.Spec.ScaleTargetRef
		i.scalers[namespace] = append(i.scalers[namespace], Autoscaler{ref.APIVersion, ref.Kind, ref.Name, hpa.Spec.MaxReplicas})
		fallthrough
	case kindDeployment, kindStatefulSet:
		i.objects = append(i.objects, Component{Object: Object{kind, meta.Metadata.Name, raw}, Namespace: namespace})
	}
	return nil
}

// Considered are the Deployments and StatefulSets about which the webhook is asked.
func (i *Inventory) Considered(n Names) (all []Component, err error) {
	for _, of := range i.objects {
		if of.Kind == kindAutoscaler.Kind {
			continue
		}
		if of.Considered, err = i.considered(of, n, false); err != nil {
			return nil, err
		}
		if of.Considered {
			all = append(all, of)
		}
	}
	return all, nil
}

// considered reports whether the webhook is asked about an object; unknown is the
// answer for one whose namespace is not in the inventory.
func (i *Inventory) considered(of Component, n Names, unknown bool) (bool, error) {
	if namespace, known := i.namespaces[of.Namespace]; known {
		unknown = namespace.Labels[n.Consider()] == "true"
	}
	var meta struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	if err := unmarshal(of.Raw, &meta); err != nil {
		return false, err
	}
	_, skipped := meta.Metadata.Labels[n.Skip()]
	return unknown && !skipped, nil
}

// Advise judges everything in the inventory, in its order. nodes is how many kube
// nodes there are. A namespace that is not in it has the annotations of fallback,
// and is considered; fallback nil means that there is none beside those in it.
func (i *Inventory) Advise(c Conventions, nodes int, fallback map[string]string) (all []Advice, err error) {
	for _, of := range i.objects {
		annotations := fallback
		if n, known := i.namespaces[of.Namespace]; known {
			annotations = n.Annotations
		}
		if of.Considered, err = i.considered(of, c.Names, fallback != nil); err != nil {
			return nil, err
		}
		of.Around = Surroundings{Annotations: annotations, Autoscalers: i.scalers[of.Namespace], Nodes: nodes}
		of.Budgets, of.volumes = i.budgets[of.Namespace], i.volumes
		advice, err := c.Advise(of)
		if err != nil {
			return nil, err
		}
		all = append(all, advice...)
	}
	return all, nil
}
