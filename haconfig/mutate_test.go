package haconfig

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

var conventions = Conventions{Names: Names{DefaultPrefix}}

// object makes one of JSON in which PREFIX stands for the prefix.
func object(kind, json string) Object {
	gvk := appsv1.SchemeGroupVersion.WithKind(kind)
	if kind == kindAutoscaler.Kind {
		gvk = autoscalingv2.SchemeGroupVersion.WithKind(kind)
	}
	return Object{GroupVersionKind: gvk, Name: "demo", Raw: []byte(strings.ReplaceAll(json, "PREFIX", DefaultPrefix))}
}

// around are surroundings of annotations by their short names.
func around(nodes int, annotations ...string) Surroundings {
	s := Surroundings{Nodes: nodes, Annotations: map[string]string{}}
	for i := 0; i+1 < len(annotations); i += 2 {
		s.Annotations[DefaultPrefix+annotations[i]] = annotations[i+1]
	}
	return s
}

// TestReplicaTable goes through the table, and what stands before it.
func TestReplicaTable(t *testing.T) {
	tolerances := map[string]Surroundings{
		"absent": around(3), "empty": around(3, "failure-tolerance-type", ""),
		"some": around(3, "failure-tolerance-type", "x"),
	}
	for _, row := range []struct {
		kind, tolerance, replicas, override, want string
	}{
		{"controller", "absent", "1", "", "2"}, {"controller", "empty", "3", "", "1"}, {"controller", "some", "1", "", "2"},
		{"server", "absent", "5", "", "2"}, {"server", "empty", "1", "", "2"}, {"server", "some", "1", "", "2"},
		{"whatever", "empty", "1", "", "2"}, {"", "some", "7", "", "7"}, {"", "some", "7", "nonsense", "7"},
		{"server", "some", "0", "nonsense", "0"}, {"server", "some", "null", "3", "null"},
		{"controller", "empty", "1", "4", "4"}, {"server", "some", "2", "0", "0"}, {"server", "some", "2", "-1", "-1"},
		{"server", "some", "1", "4294967298", "2"},
	} {
		for _, kind := range []string{"Deployment", "StatefulSet"} {
			o := object(kind, fmt.Sprintf(
				`{"metadata":{"labels":{"PREFIXtype":%q},"annotations":{"PREFIXreplicas":%q}},"spec":{"replicas":%s,"selector":{}}}`,
				row.kind, row.override, row.replicas))
			v, err := conventions.Mutate(o, tolerances[row.tolerance])
			if err != nil {
				t.Fatalf("%+v: %v", row, err)
			}
			if got := text(t, at(parse(t, apply(t, o.Raw, v.Patch)), decided["replicas"])); got != row.want {
				t.Errorf("%s %+v: %s", kind, row, got)
			}
		}
	}
}

// TestRefusals are objects that are not admitted, with the code by default and
// under strictness.
func TestRefusals(t *testing.T) {
	strict := Conventions{Names: conventions.Names,
		Strict: Strict{Replicas: true, Selector: true, Autoscaler: true, Zones: true}}
	override := func(value string) string {
		return `{"metadata":{"labels":{"PREFIXtype":"server"},"annotations":{"PREFIXreplicas":"` + value +
			`"}},"spec":{"replicas":1,"selector":{}}}`
	}
	for name, row := range map[string]struct {
		kind, json   string
		code, strict int
	}{
		"override is no number":      {"Deployment", override("three"), 403, 403},
		"override is far too great":  {"Deployment", override("99999999999999999999"), 403, 403},
		"override wraps":             {"Deployment", override("4294967298"), 0, 422},
		"override is negative":       {"StatefulSet", override("-1"), 0, 422},
		"override is zero":           {"StatefulSet", override("0"), 0, 0},
		"no selector":                {"StatefulSet", `{"spec":{"replicas":1}}`, 500, 422},
		"no selector and no spec":    {"StatefulSet", `{}`, 500, 422},
		"no body":                    {"Deployment", ``, 403, 403},
		"cut off":                    {"Deployment", `{"spec":[`, 403, 403},
		"another type":               {"Deployment", `{"spec":{"replicas":"three"}}`, 403, 403},
		"another type, further down": {"Deployment", `{"spec":{"template":{"spec":{"containers":"c"}}}}`, 403, 403},
		"a list":                     {"HorizontalPodAutoscaler", `[]`, 403, 403},
		"nothing to say":             {"Deployment", `{}`, 0, 0},
	} {
		for c, code := range map[*Conventions]int{&conventions: row.code, &strict: row.strict} {
			_, err := c.Mutate(object(row.kind, row.json), around(3))
			var refused *Refusal
			if errors.As(err, &refused) != (code != 0) || refused != nil && refused.Code != code {
				t.Errorf("%s: %v, want code %d (strict: %+v)", name, err, code, c.Strict)
			}
		}
	}
}

// TestStrictValues are quirks that change values.
func TestStrictValues(t *testing.T) {
	strict := Conventions{Names: conventions.Names, Strict: Strict{Autoscaler: true, Zones: true}}
	o := object(kindAutoscaler.Kind,
		`{"metadata":{"labels":{"PREFIXtype":"server"}},"spec":{"minReplicas":4,"maxReplicas":3}}`)
	for c, want := range map[*Conventions]string{&conventions: "2", &strict: "4"} {
		v, err := c.Mutate(o, around(3))
		if err != nil {
			t.Fatal(err)
		}
		if got := text(t, at(parse(t, apply(t, o.Raw, v.Patch)), decided["maxReplicas"])); got != want {
			t.Errorf("maxReplicas is %s, want %s", got, want)
		}
	}
	for c, want := range map[*Conventions]string{&conventions: `[" a","b"," b"]`, &strict: `["a","b"]`} {
		v, err := c.Mutate(object("Deployment", `{}`), around(3, "zones", "b, a, b", "zone-pinning", "T"))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(v.Patch[len(v.Patch)-2].Value) +
			string(v.Patch[len(v.Patch)-1].Value); !strings.Contains(sorted(got), sorted(want)) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// sorted makes lists of zones comparable whose order is that of their bytes.
func sorted(text string) string { return strings.ReplaceAll(text, `" a"," b","b"`, `" a","b"," b"`) }

// TestUnknownFieldsSurvive looks that what this binary does not know is not lost.
func TestUnknownFieldsSurvive(t *testing.T) {
	o := object("Deployment", `{"metadata":{"labels":{"PREFIXtype":"server"}},"spec":{"replicas":2,"later":1,"template":{"metadata":{"labels":{"a":"b"}},"spec":{"later":{},
"affinity":{"later":[1],"nodeAffinity":{"later":true,"requiredDuringSchedulingIgnoredDuringExecution":{"later":"x","nodeSelectorTerms":[{"later":null}]}}},
"topologySpreadConstraints":[{"topologyKey":"rack","later":7}],"tolerations":[{"key":"x","later":8}]}}}}`)
	seconds := int64(5)
	c := Conventions{Names: conventions.Names, NotReadySeconds: &seconds}
	v, err := c.Mutate(o, around(3, "zones", "a", "zone-pinning", "1"))
	if err != nil || len(v.Patch) != 3 {
		t.Fatalf("%+v %v", v, err)
	}
	after := apply(t, o.Raw, v.Patch)
	if n := strings.Count(string(after), `"later"`); n != 8 {
		t.Errorf("%d of 8 are left: %s", n, after)
	}
	unchangedOutside(t, o.Raw, after)
}

// TestPrefix looks at another prefix, and at which there can be.
func TestPrefix(t *testing.T) {
	c := Conventions{Names: Names{"ha.example.org/"}}
	o := object("Deployment",
		`{"metadata":{"labels":{"ha.example.org/type":"server","PREFIXtype":"x"}},"spec":{"replicas":1}}`)
	if v, err := c.Mutate(o, around(3)); err != nil || len(v.Patch) == 0 || v.Patch[0].Path != "/spec/replicas" {
		t.Errorf("%+v %v", v, err)
	}
	for prefix, want := range map[string]bool{
		DefaultPrefix: true, "a/": true, "": false, "/": false, "a": false, "a/b/": false, "A/": false, "-a/": false,
		"a./": false, strings.Repeat("a", 254) + "/": false,
	} {
		if ValidPrefix(prefix) != want {
			t.Errorf("%q: %v", prefix, !want)
		}
	}
}

// A constraint compares pods of one revision where Kubernetes takes the key: with a selector that
// does not name it. A label of it in the template, as of a copied pod, is in no selector of ours.
func TestRevisionsOfConstraints(t *testing.T) {
	const revision = `"pod-template-hash"`
	for selector, want := range map[string]bool{
		``:                      false,
		`,"labelSelector":null`: false,
		`,"labelSelector":{}`:   true,
		`,"labelSelector":{"matchLabels":{"a":"b"}}`:                                           true,
		`,"labelSelector":{"matchLabels":{` + revision + `:"x"}}`:                              false,
		`,"labelSelector":{"matchExpressions":[{"key":"a","operator":"Exists"}]}`:              true,
		`,"labelSelector":{"matchExpressions":[{"key":` + revision + `,"operator":"Exists"}]}`: false,
		`,"labelSelector":{"matchLabels":{"a":"b"}},"matchLabelKeys":["x"]`:                    true,
	} {
		template := `{"metadata":{"labels":{"a":"b",` + revision + `:"copied"}},"spec":{"topologySpreadConstraints":[` +
			`{"maxSkew":1,"topologyKey":"rack"` + selector + `}]}}`
		o := object("Deployment",
			`{"metadata":{"labels":{"PREFIXtype":"server"}},"spec":{"replicas":3,"template":`+template+`}}`)
		v, err := conventions.Mutate(o, around(3))
		if err != nil {
			t.Fatal(err)
		}
		all, _ := at(parse(t, apply(t, o.Raw, v.Patch)), decided["topologySpreadConstraints"]).([]any)
		if len(all) != 2 {
			t.Fatalf("revisions-of-constraints: %s: %v", selector, all)
		}
		if got := strings.Contains(text(t, all[0].(map[string]any)["matchLabelKeys"]), revision); got != want {
			t.Errorf("revisions-of-constraints: %q: compared by revision is %v, and Kubernetes takes %v: %s", selector, got,
				want, text(t, all[0]))
		}
		if ours := text(t, all[1]); strings.Count(ours, revision) != 1 ||
			!strings.Contains(ours, `"matchLabelKeys":[`+revision) {
			t.Errorf("revisions-of-constraints: the selector of ours names the revision: %s", ours)
		}
	}
}
