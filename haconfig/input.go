package haconfig

import (
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Surroundings are what is decided by, besides the object itself.
type Surroundings struct {
	// Annotations are the namespace's.
	Annotations map[string]string
	// Autoscalers are the namespace's HorizontalPodAutoscalers, in the API
	// server's order.
	Autoscalers []Autoscaler
	// Nodes is how many kube nodes there are; beyond two it makes no difference.
	Nodes int
}

// Autoscaler is a HorizontalPodAutoscaler, as far as it matters.
type Autoscaler struct {
	APIVersion, Kind, Name string // of what it scales
	Max                    int32
}

// HorizontalPodAutoscaler is what is read of an autoscaler, as Kubernetes writes it.
type HorizontalPodAutoscaler struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		ScaleTargetRef struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Name       string `json:"name"`
		} `json:"scaleTargetRef"`
		MinReplicas *int32 `json:"minReplicas"`
		MaxReplicas int32  `json:"maxReplicas"`
	} `json:"spec"`
}

// Autoscaler returns which object it scales, and to how many replicas.
func (h HorizontalPodAutoscaler) Autoscaler() Autoscaler {
	ref := h.Spec.ScaleTargetRef
	return Autoscaler{ref.APIVersion, ref.Kind, ref.Name, h.Spec.MaxReplicas}
}

// Conventions are how an installation wants its components. The zero value is
// Gardener's without tolerations, but for the prefix; see Names.
type Conventions struct {
	Names Names
	// NotReadySeconds and UnreachableSeconds are how long a pod stays on a kube node
	// that is so, where the pod does not say it. nil adds nothing; 0 is a value.
	NotReadySeconds, UnreachableSeconds *int64
	Strict                              Strict
	// Components are rules for those without the label type. The first that fits counts.
	Components []ComponentRule
}

// Strict takes out quirks of the original, each by itself.
type Strict struct {
	// Replicas refuses an override that is no count from 0 to 2^31-1, with code 422.
	// Else it is cut to 32 bits.
	Replicas bool
	// Selector refuses a StatefulSet without spec.selector with code 422, as the
	// API server itself would. Else the code is 500, where the original panics.
	Selector bool
	// Autoscaler raises an autoscaler's maximum to its minimum. Else it is set to the
	// table's value, which may be below the minimum.
	Autoscaler bool
	// Zones trims blanks around the names of zones. Else they are part of the name.
	Zones bool
}

// tolerance is what a namespace says of failures. That nothing is said and that
// the empty text is said are two things.
type tolerance struct {
	said bool
	text string
}

// zone is the tolerance that spreads over zones.
const zone = "zone"

// column is the tolerance's place in the tables.
func (t tolerance) column() int {
	switch {
	case !t.said:
		return absent
	case t.text == "":
		return empty
	}
	return some
}

// Columns of the tables.
const (
	absent = iota
	empty
	some
	columns
)

// policy is what a namespace asks for.
type policy struct {
	tolerance tolerance
	zones     []string // sorted, none twice, none empty
	pinned    bool     // to the zones, with any tolerance
}

func (c Conventions) policyOf(annotations map[string]string) policy {
	var p policy
	p.tolerance.text, p.tolerance.said = annotations[c.Names.Tolerance()]
	p.zones = c.zones(annotations[c.Names.Zones()])
	p.pinned = isTrue(annotations[c.Names.Pinning()])
	return p
}

func (c Conventions) zones(list string) []string {
	var zones []string
	for name := range strings.SplitSeq(list, ",") {
		if c.Strict.Zones {
			name = strings.TrimSpace(name)
		}
		if name != "" {
			zones = append(zones, name)
		}
	}
	slices.Sort(zones)
	return slices.Compact(zones)
}

// isTrue reads a boolean as Go writes it; any other text counts as not set.
func isTrue(text string) bool {
	value, err := strconv.ParseBool(text)
	return err == nil && value
}

// scaler finds who scales an object; the first one counts.
func (s Surroundings) scaler(of Object) (Autoscaler, bool) {
	version := of.Group + "/" + of.Version
	if of.Group == "" {
		version = of.Version
	}
	at := slices.IndexFunc(s.Autoscalers, func(a Autoscaler) bool {
		return a.APIVersion == version && a.Kind == of.Kind && a.Name == of.Name
	})
	if at < 0 {
		return Autoscaler{}, false
	}
	return s.Autoscalers[at], true
}
