package haconfig

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Kinds of components that the tables tell apart. Any other text of the label is
// that of a server.
const (
	controller = "controller"
	server     = "server"
)

// replicaTable is how many replicas a component has, by what its namespace says of
// failures: nothing, the empty text, or anything.
var replicaTable = map[string][columns]int32{
	//          absent, empty, some
	controller: {2, 1, 2},
	server:     {2, 2, 2},
}

// tableReplicas looks a component up.
func tableReplicas(kind string, t tolerance) int32 {
	row, known := replicaTable[kind]
	if !known {
		row = replicaTable[server]
	}
	return row[t.column()]
}

// spreadRule is a row of the table of constraints: over what, when, how strictly,
// and over how many at least.
type spreadRule struct {
	key     string
	applies func(spreadFacts) bool
	strict  func(spreadFacts) bool
	domains func(spreadFacts) int32 // where it is strict
}

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
	},
	{
		key: corev1.LabelTopologyZone,
		applies: func(f spreadFacts) bool {
			return len(f.zones) >= 2 && (f.tolerance.column() == absent || f.tolerance.text == zone)
		},
		strict:  func(spreadFacts) bool { return true },
		domains: func(f spreadFacts) int32 { return min(int32(len(f.zones)), f.most) }, // an annotation has at most 256 KiB
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
		c := corev1.TopologySpreadConstraint{TopologyKey: rule.key, MaxSkew: 1, LabelSelector: selector, WhenUnsatisfiable: corev1.ScheduleAnyway, MatchLabelKeys: keys}
		if rule.strict(f) {
			domains := rule.domains(f)
			c.WhenUnsatisfiable, c.MinDomains = corev1.DoNotSchedule, &domains
		}
		out = append(out, &c)
	}
	return out
}
