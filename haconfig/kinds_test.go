package haconfig

import (
	"fmt"
	"testing"
)

// TestComponentsByRule has components with and without the label, and rules that fit
// and do not.
func TestComponentsByRule(t *testing.T) {
	c := Conventions{Names: conventions.Names, Components: []ComponentRule{
		{Namespace: "monitoring", Type: observability},
		{Namespace: "shop-*", Name: "web*", Labels: map[string]string{"tier": "a"}, Type: controller},
		{Name: "web", Type: server},
	}}
	const labelled = `{"PREFIXtype":"server"}`
	for _, row := range []struct {
		namespace, name, labels string
		replicas                int
		want                    string // replicas; "-": left
	}{
		{"monitoring", "prometheus", `{}`, 3, "1"},
		{"monitoring", "prometheus", `{}`, 1, "-"},
		{"monitoring", "prometheus", `{}`, 0, "-"},
		{"monitoring", "prometheus", labelled, 1, "2"},
		{"monitoring", "prometheus", `{"PREFIXtype":"observability"}`, 1, "2"}, // the label's other texts are a server's
		{"shop-1", "web-front", `{"tier":"a"}`, 3, "1"},
		{"shop-1", "web-front", `{"tier":"b"}`, 3, "-"},
		{"shop", "web-front", `{"tier":"a"}`, 3, "-"},
		{"shop-1", "web", `{"tier":"b"}`, 1, "2"},
		{"any", "db", `{}`, 5, "-"},
	} {
		o := object("Deployment", fmt.Sprintf(`{"metadata":{"labels":%s},"spec":{"replicas":%d}}`, row.labels, row.replicas))
		o.Namespace, o.Name = row.namespace, row.name
		v, err := c.Mutate(o, around(3, "failure-tolerance-type", ""))
		if err != nil {
			t.Fatal(err)
		}
		got := "-"
		for _, op := range v.Patch {
			if op.Path == "/spec/replicas" {
				got = string(op.Value)
			}
		}
		if got != row.want {
			t.Errorf("component-by-rule: %+v: replicas %s", row, got)
		}
	}
	o := object("HorizontalPodAutoscaler", `{"spec":{"minReplicas":2,"maxReplicas":3}}`)
	o.Namespace = "monitoring"
	if v, err := c.Mutate(o, around(3)); err != nil || len(v.Patch) != 0 {
		t.Errorf("an autoscaler of what is observed is lowered: %+v %v", v, err)
	}
}

// TestAdviceNamesWhatHasNoType tells components that no label and no rule names.
func TestAdviceNamesWhatHasNoType(t *testing.T) {
	all := NewInventory()
	for _, raw := range []string{considering("true"), guardedObject("Deployment", "web", typed, ""),
		guardedObject("StatefulSet", "prometheus", "", ""), guardedObject("Deployment", "other", "", ""),
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"far","name":"unconsidered"}}`} {
		if err := all.Add([]byte(raw)); err != nil {
			t.Fatal(err)
		}
	}
	c := Conventions{Names: conventions.Names, Components: []ComponentRule{{Name: "prometheus", Type: observability}}}
	advice, err := all.Advise(c, 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]bool{}
	for _, a := range advice {
		said[a.Name+" "+a.Finding] = true
		if a.Finding == FindingType && a.Risk() {
			t.Error("a label that is missing is taken for a risk")
		}
	}
	for finding, want := range map[string]bool{"web no-type": false, "prometheus no-type": false, "other no-type": true,
		"unconsidered no-type": false, "prometheus single-replica": false, "other single-replica": true} {
		if said[finding] != want {
			t.Errorf("no-type: %s is %v, of %v", finding, said[finding], said)
		}
	}
}
