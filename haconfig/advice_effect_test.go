package haconfig

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// adviceOn returns the findings about one Deployment with three replicas, in a namespace with
// these annotations that is considered, or in one that is not.
func adviceOn(t *testing.T, annotations map[string]string, spec, budgets string) []string {
	t.Helper()
	text := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: c, namespace: ns, labels: {" + DefaultPrefix +
		"type: controller}}\n" +
		"spec: {replicas: 3, selector: {matchLabels: {app: c}}, template: {metadata: {labels: {app: c}}, spec: {containers: []" +
		spec + "}}}\n"
	if annotations == nil {
		text += "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: ns}\n"
	}
	for i, b := range strings.Fields(budgets) {
		text += fmt.Sprintf(
			"---\napiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: b%d, namespace: ns}\nspec: {selector: {matchLabels: {app: c}}, %s}\n",
			i, strings.ReplaceAll(b, ":", ": "))
	}
	all := NewInventory()
	if err := all.ReadManifests(strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	advice, err := all.Advise(conventions, 2, annotations)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, a := range advice {
		if a.Finding != FindingChange {
			found = append(found, a.Finding)
		}
	}
	return found
}

// TestWhatTheWebhookMakesIsRight: components as the webhook makes them are spread, whatever
// the tolerance and the number of zones; a tolerance of zones wants three.
func TestWhatTheWebhookMakesIsRight(t *testing.T) {
	tolerance, zones := conventions.Names.Tolerance(), conventions.Names.Zones()
	for name, c := range map[string]struct {
		annotations map[string]string
		want        string
	}{
		"seed, two zones":        {map[string]string{zones: "a,b"}, ""},
		"system, three zones":    {map[string]string{zones: "a,b,c"}, ""},
		"tolerance node":         {map[string]string{tolerance: "node", zones: "a"}, ""},
		"tolerance zone":         {map[string]string{tolerance: "zone", zones: "a,b,c"}, ""},
		"tolerance zone, two":    {map[string]string{tolerance: "zone", zones: "a,b"}, FindingZones},
		"tolerance zone, none":   {map[string]string{tolerance: "zone"}, FindingZones},
		"no tolerance, no zones": {map[string]string{}, FindingSpread},
		"no tolerance, one zone": {map[string]string{zones: "a"}, FindingSpread},
	} {
		if got := strings.Join(adviceOn(t, c.annotations, "", "maxUnavailable:1"), " "); got != c.want {
			t.Errorf("webhook-makes-it-right: %s: %q, want %q", name, got, c.want)
		}
	}
}

// TestSpreadIsJudgedByItsEffect: a constraint counts if it keeps the component's own pods from
// being all on one host, by whichever key.
func TestSpreadIsJudgedByItsEffect(t *testing.T) {
	const own, other = "labelSelector: {matchLabels: {app: c}}", "labelSelector: {matchLabels: {app: d}}"
	constraint := func(key, skew, rest string) string {
		return ", topologySpreadConstraints: [{topologyKey: " + key + ", maxSkew: " + skew + ", " + rest + "}]"
	}
	affinity := func(strict, rest string) string {
		return ", affinity: {podAntiAffinity: {" + strict + "DuringSchedulingIgnoredDuringExecution: [{" + rest + "}]}}"
	}
	const host, zoneKey = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
	const must, may = "whenUnsatisfiable: DoNotSchedule, ", "whenUnsatisfiable: ScheduleAnyway, "
	for name, c := range map[string]struct {
		spec   string
		spread bool
	}{
		"nothing":                    {"", false},
		"hosts":                      {constraint(host, "1", must+own), true},
		"hosts, if it can be":        {constraint(host, "1", may+own), false},
		"hosts, another's pods":      {constraint(host, "1", must+other), false},
		"hosts, no pods":             {constraint(host, "1", must+"minDomains: 2"), false},
		"hosts, skew of all":         {constraint(host, "3", must+own), false},
		"two zones":                  {constraint(zoneKey, "1", must+"minDomains: 2, "+own), true},
		"zones, how many is unknown": {constraint(zoneKey, "1", must+own), false},
		"two racks":                  {constraint("example.com/rack", "1", must+"minDomains: 2, "+own), true},
		"two zones, another's pods":  {constraint(zoneKey, "1", must+"minDomains: 2, "+other), false},
		"anti-affinity of hosts":     {affinity("required", "topologyKey: "+host+", "+own), true},
		"anti-affinity of zones":     {affinity("required", "topologyKey: "+zoneKey+", "+own), true},
		"anti-affinity to another":   {affinity("required", "topologyKey: "+host+", "+other), false},
		"anti-affinity elsewhere":    {affinity("required", "topologyKey: "+host+", namespaces: [x], "+own), false},
		"anti-affinity everywhere":   {affinity("required", "topologyKey: "+host+", namespaceSelector: {}, "+own), true},
	} {
		if got := adviceOn(t, nil, c.spec, "maxUnavailable:1"); slices.Contains(got, FindingSpread) == c.spread {
			t.Errorf("spread-by-its-effect: %s: %q", name, got)
		}
	}
}

// TestBudgetsAreJudgedByTheirEffect: a budget that lets all pods go protects nothing, one that
// lets none go keeps hosts from being drained, and so do two for the same pods.
func TestBudgetsAreJudgedByTheirEffect(t *testing.T) {
	const spread = ", topologySpreadConstraints: [{topologyKey: kubernetes.io/hostname, maxSkew: 1, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: c}}}]"
	for budgets, want := range map[string]string{
		"": FindingBudget, "maxUnavailable:1": "", "maxUnavailable:2": "", "minAvailable:1": "", "minAvailable:2": "",
		"minAvailable:50%": "", "maxUnavailable:34%": "", "maxUnavailable:1%": "",
		"maxUnavailable:0": FindingDrain, "maxUnavailable:0%": FindingDrain, "minAvailable:3": FindingDrain,
		"minAvailable:4": FindingDrain, "minAvailable:100%": FindingDrain, "minAvailable:67%": FindingDrain,
		"maxUnavailable:3": FindingBudget, "maxUnavailable:9": FindingBudget, "maxUnavailable:100%": FindingBudget,
		"maxUnavailable:67%": FindingBudget, "minAvailable:0": FindingBudget, "minAvailable:0%": FindingBudget,
		"maxUnavailable:1 minAvailable:2": FindingDrain,
	} {
		if got := strings.Join(adviceOn(t, nil, spread, budgets), " "); got != want {
			t.Errorf("budget-by-its-effect: %q: %q, want %q", budgets, got, want)
		}
	}
}
