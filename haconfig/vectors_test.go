package haconfig

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// released is the version whose behaviour is ours.
const released = "v1.149.0"

// tester is what helpers need of a test, be it rapid's or not.
type tester interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
	Errorf(string, ...any)
}

// vector is an input, and what the released handler made of it.
type vector struct {
	ID      string
	Cluster struct {
		NamespaceMissing bool
		Namespace        struct{ Annotations map[string]string }
		Nodes            int
		HPAs             []autoscalingv2.HorizontalPodAutoscaler
	}
	Config struct {
		DefaultNotReadyTolerationSeconds, DefaultUnreachableTolerationSeconds *int64
	}
	Request struct {
		Operation, Namespace, Name string
		Kind                       schema.GroupVersionKind
		Object                     json.RawMessage
		RawObject                  *string
	}
	Expected map[string]outcome
}

// outcome is what is to come of a vector.
type outcome struct {
	Outcome string
	Allowed bool
	Code    int
	Message string
	Fields  map[string]any
}

// vectors reads all of them.
func vectors(t testing.TB) []vector {
	t.Helper()
	text, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Count   int
		Vectors []vector
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	if len(all.Vectors) != all.Count || all.Count == 0 {
		t.Fatalf("%d vectors of %d", len(all.Vectors), all.Count)
	}
	return all.Vectors
}

// input is a vector as Mutate takes it.
func (v vector) input() (Conventions, Object, Surroundings) {
	c := Conventions{Names: Names{DefaultPrefix}, NotReadySeconds: v.Config.DefaultNotReadyTolerationSeconds,
		UnreachableSeconds: v.Config.DefaultUnreachableTolerationSeconds}
	o := Object{GroupVersionKind: v.Request.Kind, Name: v.Request.Name, Raw: v.Request.Object}
	if v.Request.RawObject != nil {
		o.Raw = []byte(*v.Request.RawObject)
	}
	s := Surroundings{Annotations: v.Cluster.Namespace.Annotations, Nodes: v.Cluster.Nodes}
	for _, hpa := range v.Cluster.HPAs {
		ref := hpa.Spec.ScaleTargetRef
		s.Autoscalers = append(s.Autoscalers, Autoscaler{ref.APIVersion, ref.Kind, ref.Name, hpa.Spec.MaxReplicas})
	}
	return c, o, s
}

// apply is what the API server does with a patch.
func apply(t tester, raw []byte, ops []Operation) []byte {
	t.Helper()
	if len(ops) == 0 {
		return raw
	}
	text, err := json.Marshal(ops)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		t.Fatal(err)
	}
	out, err := patch.Apply(raw)
	if err != nil {
		t.Fatalf("%s does not fit %s: %v", text, raw, err)
	}
	return out
}

// TestVectors compares with what the released handler did, and looks that nothing
// else is touched and that a second pass changes nothing.
func TestVectors(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(v.ID, func(t *testing.T) {
			want := v.Expected[released]
			if v.Cluster.NamespaceMissing {
				return // Mutate is not asked; see TestHandlerVectors
			}
			c, o, s := v.input()
			got, err := c.Mutate(o, s)
			var refused *Refusal
			if errors.As(err, &refused) {
				if want.Allowed || refused.Code != want.Code {
					t.Errorf("refused with %d: %v, want %+v", refused.Code, err, want)
				}
				return
			}
			if err != nil || !want.Allowed || got.Message != want.Message {
				t.Fatalf("%+v, %v; want %+v", got, err, want)
			}
			once := apply(t, o.Raw, got.Patch)
			compareFields(t, once, want.Fields)
			unchangedOutside(t, o.Raw, once)
			o.Raw = once
			if again, err := c.Mutate(o, s); err != nil || len(again.Patch) != 0 {
				t.Errorf("the second pass: %+v %v", again, err)
			}
		})
	}
}

// decided are the fields that may differ, by the names of the vectors.
var decided = map[string][]string{
	"replicas": {"spec", "replicas"}, "minReplicas": {"spec", "minReplicas"}, "maxReplicas": {"spec", "maxReplicas"},
	"affinity":                  {"spec", "template", "spec", "affinity"},
	"topologySpreadConstraints": {"spec", "template", "spec", "topologySpreadConstraints"},
	"tolerations":               {"spec", "template", "spec", "tolerations"},
}

func compareFields(t *testing.T, raw []byte, want map[string]any) {
	t.Helper()
	object := parse(t, raw)
	for name, value := range want {
		path, known := decided[name]
		if !known {
			t.Fatalf("field %q is not known", name)
		}
		if got := at(object, path); !reflect.DeepEqual(got, value) {
			t.Errorf("%s is %s, want %s", name, text(t, got), text(t, value))
		}
	}
}

// unchangedOutside fails if anything but the decided fields differs, and the
// objects that were made to hold them.
func unchangedOutside(t tester, before, after []byte) {
	t.Helper()
	a, b := parse(t, before), parse(t, after)
	for _, path := range decided {
		for _, object := range []map[string]any{a, b} {
			drop(object, path)
		}
	}
	if !reflect.DeepEqual(a, b) {
		t.Errorf("%s\nbecame\n%s", before, after)
	}
}

// drop removes a field, and what is empty above it.
func drop(object map[string]any, path []string) {
	for n := len(path); n > 0; n-- {
		above, _ := at(object, path[:n-1]).(map[string]any)
		if below, _ := above[path[n-1]].(map[string]any); n == len(path) || len(below) == 0 {
			delete(above, path[n-1])
		}
	}
}

func parse(t tester, raw []byte) (out map[string]any) {
	t.Helper()
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func at(value any, path []string) any {
	for _, name := range path {
		object, _ := value.(map[string]any)
		value = object[name]
	}
	return value
}

func text(t tester, value any) string {
	t.Helper()
	out, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
