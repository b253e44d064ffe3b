package haconfig

import corev1 "k8s.io/api/core/v1"

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

// constraints are what the table says, for a selector.
func (f spreadFacts) constraints(selector any) []any {
	var out []any
	for _, rule := range spreadTable {
		if !rule.applies(f) {
			continue
		}
		c := map[string]any{"topologyKey": rule.key, "maxSkew": 1, "labelSelector": selector, "whenUnsatisfiable": string(corev1.ScheduleAnyway)}
		if rule.strict(f) {
			c["whenUnsatisfiable"], c["minDomains"] = string(corev1.DoNotSchedule), rule.domains(f)
		}
		out = append(out, c)
	}
	return out
}
