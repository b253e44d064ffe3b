package haconfig

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ruledObservability is the type observability of a rule in expressions: a text that no
// label can have.
const ruledObservability = "observability by rule"

// constraintsPath is where the constraints of a workload are.
const constraintsPath = `"/spec/template/spec/topologySpreadConstraints/"`

// Expressions are the conventions in CEL, made of the tables by which Mutate decides, for
// policies that an API server evaluates by itself. Those of the fields rest on variables
// of the policy, in haconfig/kube/manifest.
type Expressions struct {
	Zones     string // of a namespace, of variables.annotations
	Kind      string // of a component: the label's type, else a rule's
	Wanted    string // replicas, of kind and column
	Largest   string // maximum of an autoscaler whose minimum grows above it
	Keys      string // of constraints that are replaced
	Spread    string // patches that add constraints
	Tolerates string // patches that add tolerations
}

// Expressions returns them for these conventions.
func (c Conventions) Expressions() Expressions {
	var keys []string
	for _, rule := range spreadTable {
		keys = append(keys, quoted(rule.key))
	}
	e := Expressions{
		Zones: `variables.annotations[%[1]s].split(",")`, Kind: c.kindExpression(), Wanted: c.wantedExpression(),
		Largest: "variables.wanted", Keys: "[" + strings.Join(keys, ", ") + "]", Spread: spreadExpression(),
		Tolerates: c.toleratesExpression(),
	}
	if c.Strict.Zones {
		e.Zones += ".map(z, z.trim())"
	}
	e.Zones = fmt.Sprintf(`%[1]s in variables.annotations ? `+e.Zones+`.filter(z, z != "").distinct().sort() : []`,
		quoted(c.Names.Zones()))
	if c.Strict.Autoscaler {
		e.Largest = "variables.least"
	}
	return e
}

// quoted is a text as a literal of CEL.
func quoted(text string) string { return strconv.QuoteToASCII(text) }

// kindExpression is typeOf.
func (c Conventions) kindExpression() string {
	key := quoted(c.Names.Type())
	var out strings.Builder
	fmt.Fprintf(&out, `%[1]s in variables.labels && variables.labels[%[1]s] != "" ? variables.labels[%[1]s] : `, key)
	for _, r := range c.Components {
		kind := r.Type
		if kind == observability {
			kind = ruledObservability
		}
		fmt.Fprintf(&out, "%s ? %s : ", r.expression(), quoted(kind))
	}
	return out.String() + `""`
}

// expression is fits.
func (r ComponentRule) expression() string {
	all := []string{"true"}
	for what, pattern := range map[string]string{"request.namespace": r.Namespace, "request.name": r.Name} {
		stem, open := strings.CutSuffix(pattern, "*")
		switch {
		case pattern == "":
		case open:
			all = append(all, fmt.Sprintf("%s.startsWith(%s)", what, quoted(stem)))
		default:
			all = append(all, fmt.Sprintf("%s == %s", what, quoted(pattern)))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(r.Labels)) {
		all = append(all, fmt.Sprintf("%[1]s in variables.labels && variables.labels[%[1]s] == %s", quoted(key),
			quoted(r.Labels[key])))
	}
	slices.Sort(all)
	return "(" + strings.Join(all, " && ") + ")"
}

// wantedExpression is the table of replicas, with an override above it, which is cut to 32
// bits as int32 does. An override that is no integer, or that Strict refuses, is an error,
// for which the API server refuses the object.
func (c Conventions) wantedExpression() string {
	row := func(of [columns]int32) string {
		return strings.Join(strings.Fields(fmt.Sprint(of)), ", ")
	}
	var rows []string
	for _, kind := range slices.Sorted(maps.Keys(replicaTable)) {
		rows = append(rows, quoted(kind)+": "+row(replicaTable[kind]))
	}
	rows = append(rows, quoted(ruledObservability)+": "+row([columns]int32{1, 1, 1}))
	table := "{" + strings.Join(rows, ", ") + "}"
	override := "((variables.override + 2147483648) % 4294967296 + 4294967296) % 4294967296 - 2147483648"
	if c.Strict.Replicas {
		// A literal alone would be evaluated, and fail, when the policy is stored.
		override = fmt.Sprintf("(variables.override < 0 || variables.override > 2147483647 ? "+
			"int(variables.own[%s] + \" is not from 0 to 2147483647\") : variables.override)", quoted(c.Names.Replicas()))
	}
	return fmt.Sprintf(
		`%[1]s in variables.own && variables.own[%[1]s] != "" ? %s : (variables.kind in %[3]s ? %[3]s[variables.kind] : %[3]s[%[4]s])[variables.column]`,
		quoted(c.Names.Replicas()), override, table, quoted(server))
}

// spreadExpression adds the constraints of the table behind those that are kept.
func spreadExpression() string {
	var all []string
	before := "size(variables.keeps)"
	for _, rule := range spreadTable {
		at := fmt.Sprintf("%s + string(%s)", constraintsPath, before)
		fields := fmt.Sprintf(`"maxSkew": dyn(1), "topologyKey": dyn(%s), "labelSelector": dyn({}), "whenUnsatisfiable": `,
			quoted(rule.key))
		all = append(all, fmt.Sprintf(`(!(%[1]s) ? [] : [`+
			`JSONPatch{op: "add", path: %[2]s + "-", value: %[3]s ? {%[4]sdyn("DoNotSchedule"), "minDomains": dyn(%[5]s)} : {%[4]sdyn("ScheduleAnyway")}}, `+
			`JSONPatch{op: "copy", from: variables.deployment ? "/spec/template/metadata/labels" : "/spec/selector", path: %[6]s + (variables.deployment ? "/labelSelector/matchLabels" : "/labelSelector")}`+
			`] + (!variables.deployment ? [] : [JSONPatch{op: "add", path: %[6]s + "/matchLabelKeys", value: [%[7]s]}]) + `+
			`(!variables.deployment || !(%[7]s in object.spec.template.metadata.labels) ? [] : `+
			`[JSONPatch{op: "remove", path: %[6]s + "/labelSelector/matchLabels/" + %[7]s}]))`,
			rule.cel.applies, constraintsPath, rule.cel.strict, fields, rule.cel.domains, at, quoted(labelPodTemplate)))
		before += fmt.Sprintf(" + (%s ? 1 : 0)", rule.cel.applies)
	}
	return strings.Join(all, " + ")
}

// toleratesExpression adds the tolerations that are configured and of which a pod has none.
func (c Conventions) toleratesExpression() string {
	var all, some []string
	for _, t := range c.tolerations() {
		missing := fmt.Sprintf(
			`!variables.tolerations.exists(t, has(t.key) && t.key == %s && (!has(t.effect) || t.effect in ["", %s]))`,
			quoted(t.Key), quoted(string(t.Effect)))
		some = append(some, missing)
		all = append(all, fmt.Sprintf(
			`(!(%s) ? [] : [JSONPatch{op: "add", path: "/spec/template/spec/tolerations/-", value: {"key": dyn(%s), "operator": dyn(%s), "effect": dyn(%s), "tolerationSeconds": dyn(%d)}}])`,
			missing, quoted(t.Key), quoted(string(t.Operator)), quoted(string(t.Effect)), *t.TolerationSeconds))
	}
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf(
		`(size(variables.tolerations) > 0 || !(%s) ? [] : [JSONPatch{op: "add", path: "/spec/template/spec/tolerations", value: []}]) + `,
		strings.Join(some, " || ")) + strings.Join(all, " + ")
}
