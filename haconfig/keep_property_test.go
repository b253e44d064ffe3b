package haconfig

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// TestAnnotatorProperty has leaders, rules, people and failures come in any order:
// what is there settles, nobody's word is written over, and no zone that was chosen is
// left by itself.
func TestAnnotatorProperty(t *testing.T) {
	lists := [][]string{nil, {"a"}, {"a", "b", "c"}, {"d", "c", "b", "a"}, {"x", "y", "z"}}
	rapid.Check(t, func(r *rapid.T) {
		a := annotatingOf(t, Rule{Name: "n", Consider: true})
		a.add("n")
		lead := a.log.lead()
		n := a.all["n"]
		foreign := map[string]string{} // what a person wrote last, by key
		for range rapid.IntRange(1, 12).Draw(r, "steps") {
			key := DefaultPrefix + anyOf(r, "key", "zones", "zones", "failure-tolerance-type", "zone-pinning")
			switch rapid.IntRange(0, 5).Draw(r, "step") {
			case 0:
				rule := Rule{Name: "n", Consider: rapid.Bool().Draw(r, "consider"), Zones: anyOf(r, "list", lists...)}
				rule.FromNodes = len(rule.Zones) == 0 && rapid.Bool().Draw(r, "from nodes")
				a.places = inZones("", false, anyOf(r, "places", lists...)...)
				if tolerance := anyOf(r, "tolerance", "-", "", "node", "zone"); tolerance != "-" &&
					(len(rule.Zones) > 0 || rule.FromNodes) {
					rule.Tolerance = &tolerance
				}
				a.o.Rules[0] = rule
			case 1:
				lead = a.log.lead()
			case 2:
				text := anyOf(r, "text", "zone", "node", "", "true", "a,b,c", "q", "c,a", "z,y,x")
				n.Annotations[key], foreign[key] = text, text
				if mark, err := appliedTo(*n); err == nil && mark.is(key, text) {
					delete(foreign, key) // nobody can tell it from ours
				}
			case 3:
				delete(n.Annotations, key)
				delete(foreign, key)
			case 4:
				a.volumes = map[string][]string{"n": anyOf(r, "volumes", nil, []string{"v"}, []string{"a"})}
			case 5:
				a.refuse = errors.New("away")
				_ = a.round(lead) // whatever it says
				a.refuse = nil
			}
			before, chosen := maps.Clone(n.Annotations), slices.Clone(choiceOf(a).Zones)
			_ = a.round(lead) // a problem is one, and changes nothing
			for key, was := range foreign {
				if now := n.Annotations[key]; now != was && !strings.HasSuffix(key, "/zones") {
					r.Fatalf("a person's %s=%q became %q", key, was, now)
				}
			}
			if choice := choiceOf(a).Zones; before[DefaultPrefix+"zones"] == "" {
				for _, zone := range chosen {
					if !slices.Contains(choice, zone) {
						r.Fatalf("zones %q were chosen, and are %q by themselves", chosen, choice)
					}
				}
			}
			if err := a.log.state.View().Check(); err != nil {
				r.Fatal(err)
			}
			settled, puts := fmt.Sprint(n.Labels, n.Annotations), len(a.puts)
			lead = a.log.lead()
			_ = a.round(lead)
			if now := fmt.Sprint(n.Labels, n.Annotations); now != settled || len(a.puts) != puts {
				r.Fatalf("it does not settle:\n%s\n%s", settled, now)
			}
		}
	})
}

func choiceOf(a *annotating) (zones struct{ Zones []string }) {
	c, _ := a.log.state.View().ZoneChoice("uid-n")
	zones.Zones = c.Zones
	return zones
}

// TestBudgetsProperty has any components and budgets: no pod of a component has two
// budgets of which one is ours, and what is there settles.
func TestBudgetsProperty(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		f := &fenced{t: t, objects: []string{considering(anyOf(r, "considered", "true", "true", "false"))}}
		labelsOf := func(name string) string {
			return anyOf(r, name, `{"a":"1"}`, `{"a":"1","b":"1"}`, `{"b":"1"}`, `{"b":"2"}`, `{}`)
		}
		var pods []map[string]string
		for i := range rapid.IntRange(0, 4).Draw(r, "components") {
			labels := labelsOf("labels")
			pods = append(pods, map[string]string{})
			if err := unmarshal([]byte(labels), &pods[i]); err != nil {
				r.Fatal(err)
			}
			f.objects = append(f.objects,
				fmt.Sprintf(
					`{"apiVersion":"apps/v1","kind":%q,"metadata":{"namespace":"n","name":"c%d","uid":"u%d","labels":{%q:%q}},"spec":{"selector":{"matchLabels":%s},"template":{"metadata":{"labels":%s}}}}`,
					anyOf(r, "kind", "Deployment", "StatefulSet"), i, i, conventions.Names.Type(),
					anyOf(r, "type", "server", "controller", ""), labelsOf("selector"), labels))
		}
		for i := range rapid.IntRange(0, 2).Draw(r, "theirs") {
			b := policyv1.PodDisruptionBudget{
				ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: fmt.Sprintf("theirs-%d", i), ResourceVersion: "1"},
				Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}}}
			if err := unmarshal([]byte(labelsOf("their selector")), &b.Spec.Selector.MatchLabels); err != nil {
				r.Fatal(err)
			}
			f.budgets = append(f.budgets, b)
		}
		theirs := fmt.Sprint(f.budgets)
		for round := range 2 {
			f.puts = nil
			if err := Guard(
				f, conventions, slog.New(slog.DiscardHandler))(tenure{}).Do(t.Context(), proven(tenure{})); err != nil {
				r.Fatal(err)
			}
			if round == 1 && len(f.puts) > 0 {
				r.Fatalf("it does not settle: %q", f.puts)
			}
		}
		if got := fmt.Sprint(slices.DeleteFunc(slices.Clone(f.budgets), isOwnBudget)); got != theirs {
			r.Fatalf("theirs became %s", got)
		}
		for _, pod := range pods {
			all, mine := 0, 0
			for _, b := range f.budgets {
				if selects(b, pod) {
					all++
					if isOwnBudget(b) {
						mine++
					}
				}
			}
			if mine > 0 && all > 1 {
				r.Fatalf("pods %v have %d budgets, %d of them ours", pod, all, mine)
			}
		}
	})
}
