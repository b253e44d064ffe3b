package haconfig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// fenced is a cluster with components and budgets, in memory.
type fenced struct {
	t       *testing.T
	objects []string
	budgets []policyv1.PodDisruptionBudget
	puts    []string
	version int
	err     error // of writes
	rules   []ComponentRule
}

func (f *fenced) conventions() Conventions {
	return Conventions{Names: conventions.Names, Components: f.rules}
}

// Guarded implements Budgets.
func (f *fenced) Guarded(_ context.Context, untyped bool) (*Inventory, error) {
	if untyped != (len(f.rules) > 0) {
		f.t.Errorf("components without a label are read: %v, with %d rules", untyped, len(f.rules))
	}
	all := NewInventory()
	for _, raw := range f.objects {
		if err := all.Add([]byte(raw)); err != nil {
			f.t.Fatal(err)
		}
	}
	for _, b := range f.budgets {
		b.TypeMeta = metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"}
		raw, err := json.Marshal(b)
		if err != nil {
			f.t.Fatal(err)
		}
		if err := all.Add(raw); err != nil {
			f.t.Fatal(err)
		}
	}
	return all, nil
}

// PutBudget implements Budgets.
func (f *fenced) PutBudget(_ context.Context, b policyv1.PodDisruptionBudget) error {
	if f.err != nil {
		return f.err
	}
	at := f.at(b)
	if (at < 0) != (b.ResourceVersion == "") || at >= 0 && f.budgets[at].ResourceVersion != b.ResourceVersion {
		f.t.Errorf("it was not as it was read: %s %q", b.Name, b.ResourceVersion)
	}
	f.version++
	b.ResourceVersion, b.UID = fmt.Sprint(f.version), types.UID("uid-"+b.Name)
	f.puts = append(f.puts, "put "+b.Name)
	if at < 0 {
		f.budgets = append(f.budgets, b)
	} else {
		f.budgets[at] = b
	}
	return nil
}

// DropBudget implements Budgets.
func (f *fenced) DropBudget(_ context.Context, b policyv1.PodDisruptionBudget) error {
	at := f.at(b)
	if at < 0 || f.budgets[at].ResourceVersion != b.ResourceVersion {
		f.t.Errorf("dropped and not there: %+v", b.ObjectMeta)
	}
	f.puts = append(f.puts, "drop "+b.Name)
	f.budgets = slices.Delete(f.budgets, at, at+1)
	return f.err
}

func (f *fenced) at(b policyv1.PodDisruptionBudget) int {
	return slices.IndexFunc(f.budgets, func(has policyv1.PodDisruptionBudget) bool { return has.Name == b.Name })
}

// round is one, after which so much was written.
func (f *fenced) round(when string, want ...string) {
	f.t.Helper()
	f.puts = nil
	err := Guard(f, f.conventions(), slog.New(slog.DiscardHandler))(tenure{}).Do(f.t.Context(), proven(tenure{}))
	if err != nil || !slices.Equal(f.puts, want) {
		f.t.Errorf("%s: %q, want %q (%v)", when, f.puts, want, err)
	}
}

func considering(label string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n","labels":{%q:%q}}}`,
		conventions.Names.Consider(), label)
}

// guardedObject is a component whose pods have labels a=NAME and more.
func guardedObject(kind, name, meta, more string) string {
	meta = strings.ReplaceAll(meta, "PREFIX", DefaultPrefix)
	return strings.NewReplacer("KIND", kind, "NAME", name, "META", meta, "MORE", more).Replace(`{"apiVersion":"apps/v1","kind":"KIND",
"metadata":{"namespace":"n","name":"NAME","uid":"uid-KIND-NAME","labels":{META}},"spec":{"selector":{"matchLabels":{"a":"NAME"}},"template":{"metadata":{"labels":{"a":"NAME"MORE}}}}}`)
}

const typed = `"PREFIXtype":"server"`

// TestBudgets makes, mends and removes them.
func TestBudgets(t *testing.T) {
	f := &fenced{t: t, objects: []string{considering("true"), guardedObject("Deployment", "web", typed, ""),
		guardedObject("StatefulSet", "db", typed, ""),
		guardedObject("Deployment", "untyped", "", ""), guardedObject("Deployment", "skipped", typed+`,"PREFIXskip":""`, "")}}
	f.round("at first", "put trivet-deployment-web", "put trivet-statefulset-db")
	f.round("nothing has changed")
	b := f.budgets[0]
	if b.Spec.MaxUnavailable.String() != "1" || *b.Spec.UnhealthyPodEvictionPolicy != "AlwaysAllow" ||
		b.Spec.Selector.MatchLabels["a"] != "web" || b.Spec.MinAvailable != nil ||
		b.OwnerReferences[0].Kind != "Deployment" || b.OwnerReferences[0].UID != "uid-Deployment-web" ||
		!*b.OwnerReferences[0].Controller || *b.OwnerReferences[0].BlockOwnerDeletion || b.Namespace != "n" {
		t.Errorf("%+v", b)
	}
	f.budgets[0].Spec.UnhealthyPodEvictionPolicy = nil
	f.round("an operator changed it", "put trivet-deployment-web")
	foreign := policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "theirs", Namespace: "n", ResourceVersion: "1"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "web"}}}}
	f.budgets = append(f.budgets, foreign)
	f.round("foreign-budget", "drop trivet-deployment-web")
	f.budgets[f.at(foreign)].Spec.Selector.MatchLabels["a"] = "another"
	f.round("it is for others", "put trivet-deployment-web")
	f.objects[1] = guardedObject("Deployment", "web", "", "")
	f.round("it has no type any more", "drop trivet-deployment-web")
	f.objects[0] = considering("false")
	f.round("its namespace is considered no more", "drop trivet-statefulset-db")
	if len(f.budgets) != 1 || f.budgets[0].Name != "theirs" {
		t.Errorf("%+v", f.budgets)
	}
}

// TestForeignBudgetIsNeverWritten has somebody else's under the name of ours.
func TestForeignBudgetIsNeverWritten(t *testing.T) {
	f := &fenced{t: t, objects: []string{considering("true"), guardedObject("Deployment", "web", typed, "")},
		budgets: []policyv1.PodDisruptionBudget{
			{ObjectMeta: metav1.ObjectMeta{Name: "trivet-deployment-web", Namespace: "n"}}}}
	f.puts = nil
	err := Guard(f, f.conventions(), slog.New(slog.DiscardHandler))(tenure{}).Do(t.Context(), proven(tenure{}))
	if err == nil || !strings.Contains(err.Error(), "n/trivet-deployment-web") ||
		!strings.Contains(err.Error(), "name is taken") || len(f.puts) > 0 {
		t.Errorf("taken-name: %v after %q", err, f.puts)
	}
	f.budgets[0].Spec.Selector = &metav1.LabelSelector{}
	f.round("foreign-budget of all pods")
}

// TestOverlappingComponents gives none to a component whose selector selects another's
// pods: those would have two.
func TestOverlappingComponents(t *testing.T) {
	f := &fenced{t: t, objects: []string{considering("true"), guardedObject("Deployment", "web", typed, ""),
		strings.Replace(guardedObject("Deployment", "canary", typed, `,"track":"c"`), `{"a":"canary","track":"c"}`,
			`{"a":"web","track":"c"}`, 1),
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"n","name":"all","uid":"u","labels":{"` +
			DefaultPrefix + `type":"server"}},"spec":{"selector":{},"template":{"metadata":{"labels":{"z":"z"}}}}}`}}
	f.objects[2] = strings.Replace(f.objects[2], `"matchLabels":{"a":"canary"}`, `"matchLabels":{"track":"c"}`, 1)
	f.round("at first", "put trivet-deployment-canary")
	f.round("and again")
}

// TestBudgetsThatCannotBeWritten are told, and keep none of the others.
func TestBudgetsThatCannotBeWritten(t *testing.T) {
	f := &fenced{t: t, objects: []string{considering("true"), guardedObject("Deployment", "web", typed, "")},
		err: errors.New("quota")}
	chore := Guard(f, f.conventions(), slog.New(slog.DiscardHandler))(tenure{})
	if err := chore.Do(t.Context(), proven(tenure{})); err == nil ||
		!strings.Contains(err.Error(), "n/trivet-deployment-web: quota") {
		t.Error(err)
	}
	f.err = nil
	if err := chore.Do(t.Context(), proven(tenure{over: errors.New("another leads")})); err == nil || len(f.budgets) != 0 {
		t.Errorf("written without proof of leadership: %v", err)
	}
}

// TestBudgetNames fit Kubernetes, however long a component's is.
func TestBudgetNames(t *testing.T) {
	long := strings.Repeat("x", 253)
	a, b := budgetName("Deployment", long), budgetName("StatefulSet", long)
	if len(a) > 253 || len(b) > 253 || a == b || budgetName("Deployment", long[1:]) == a ||
		budgetName("Deployment", "a") != "trivet-deployment-a" {
		t.Errorf("%q %q", a, b)
	}
}

// TestBudgetsByRule gives them to components without a label, if a rule is for them,
// and lets the only pod of one go.
func TestBudgetsByRule(t *testing.T) {
	f := &fenced{t: t, objects: []string{considering("true"),
		guardedObject("StatefulSet", "prometheus", `"app":"prometheus"`, ""), guardedObject("Deployment", "other", "", "")},
		rules: []ComponentRule{{Labels: map[string]string{"app": "prometheus"}, Type: observability}}}
	f.round("budget-by-rule", "put trivet-statefulset-prometheus")
	if b := f.budgets[0]; b.Spec.MaxUnavailable.String() != "1" || b.Spec.MinAvailable != nil {
		t.Errorf("budget-blocks-a-drain: %+v", b.Spec)
	}
	f.rules[0].Labels["app"] = "another"
	f.round("the rule is for others", "drop trivet-statefulset-prometheus")
}
