package haconfig

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// anyOf draws one of the values.
func anyOf[T any](t *rapid.T, label string, values ...T) T {
	return rapid.SampledFrom(values).Draw(t, label)
}

// anyObject draws an object with everything that matters, wrong and right.
func anyObject(t *rapid.T) Object {
	labels, annotations := map[string]string{"app": "x"}, map[string]string{}
	if kind := anyOf(t, "type", "", "controller", "server", "other"); kind != "" {
		labels[DefaultPrefix+"type"] = kind
	}
	if r := anyOf(t, "override", "", "", "0", "1", "3", "-1", "4294967298", "2147483648"); r != "" {
		annotations[DefaultPrefix+"replicas"] = r
	}
	annotations[DefaultPrefix+"host-spread"] = anyOf(t, "host-spread", "", "true", "0", "yes")
	meta := map[string]any{"name": "demo", "labels": labels, "annotations": annotations}
	spec := map[string]any{}
	number := func(name string) {
		if n := rapid.IntRange(-2, 6).Draw(t, name); n != -2 {
			spec[name] = n
		}
	}
	kind := anyOf(t, "kind", "Deployment", "StatefulSet", "HorizontalPodAutoscaler")
	if kind == kindAutoscaler.Kind {
		number("minReplicas")
		number("maxReplicas")
	} else {
		number("replicas")
		spec["selector"] = map[string]any{"matchLabels": map[string]string{"app": "x"}}
		if template := anyPod(t); template != nil {
			spec["template"] = template
		}
	}
	raw, err := json.Marshal(map[string]any{"kind": kind, "metadata": meta, "spec": spec})
	if err != nil {
		t.Fatal(err)
	}
	o := object(kind, "")
	o.Raw = raw
	return o
}

func anyPod(t *rapid.T) map[string]any {
	if rapid.Bool().Draw(t, "no template") {
		return nil
	}
	keys := []string{corev1.LabelHostname, corev1.LabelTopologyZone, "rack"}
	pod := map[string]any{}
	if n := rapid.IntRange(0, 3).Draw(t, "constraints"); n > 0 {
		pod["topologySpreadConstraints"] = list(n, func() any {
			c := map[string]any{"topologyKey": anyOf(t, "over", keys...), "maxSkew": rapid.IntRange(1, 3).Draw(t, "skew")}
			if rapid.Bool().Draw(t, "selects") {
				by := anyOf(t, "selects by", "app", "pod-template-hash")
				c["labelSelector"] = map[string]any{"matchLabels": map[string]any{by: "x"}}
			}
			if rapid.Bool().Draw(t, "by revision") {
				c["matchLabelKeys"] = []string{anyOf(t, "by", "pod-template-hash", "x")}
			}
			return c
		})
	}
	if n := rapid.IntRange(0, 3).Draw(t, "tolerations"); n > 0 {
		pod["tolerations"] = list(n, func() any {
			return map[string]any{"key": anyOf(t, "tolerates", corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, ""),
				"effect": anyOf(t, "effect", "", "NoExecute", "NoSchedule")}
		})
	}
	if rapid.Bool().Draw(t, "affinity") {
		required := map[string]any{}
		if n := rapid.IntRange(0, 3).Draw(t, "terms"); n > 0 {
			required["nodeSelectorTerms"] = list(n, func() any {
				return map[string]any{
					"matchExpressions": list(rapid.IntRange(0, 3).Draw(t, "expressions"), func() any {
						return map[string]any{"key": anyOf(t, "about", keys...), "operator": "In", "values": []string{"a", "q"}}
					}),
					"matchFields": []any{map[string]any{"key": "metadata.name", "operator": "In", "values": []string{"n1"}}},
				}
			})
		}
		pod["affinity"] = map[string]any{"podAntiAffinity": map[string]any{},
			"nodeAffinity": map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": required}}
	}
	return map[string]any{"metadata": map[string]any{"labels": map[string]string{"app": "x"}}, "spec": pod}
}

func list(n int, item func() any) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = item()
	}
	return out
}

func anySurroundings(t *rapid.T) Surroundings {
	s := around(rapid.IntRange(0, 3).Draw(t, "nodes"))
	for _, values := range [][]string{
		{"zones", "", "a", "b,a", "c,,a,b,a", " a,a"}, {"failure-tolerance-type", "", "node", "zone", "x"},
		{"zone-pinning", "true", "0", "?"},
	} {
		if name := values[0]; rapid.Bool().Draw(t, name+" is said") {
			s.Annotations[DefaultPrefix+name] = anyOf(t, name, values[1:]...)
		}
	}
	if rapid.Bool().Draw(t, "scaled") {
		s.Autoscalers = []Autoscaler{
			{"apps/v1", anyOf(t, "scales", "Deployment", "StatefulSet"), "demo", int32(rapid.IntRange(1, 8).Draw(t, "most"))}}
	}
	return s
}

func anyConventions(t *rapid.T) Conventions {
	c := conventions
	for _, seconds := range []**int64{&c.NotReadySeconds, &c.UnreachableSeconds} {
		if rapid.Bool().Draw(t, "seconds are configured") {
			n := rapid.Int64Range(0, 300).Draw(t, "seconds")
			*seconds = &n
		}
	}
	c.Strict = Strict{rapid.Bool().Draw(t, "strict replicas"), rapid.Bool().Draw(t, "strict selector"),
		rapid.Bool().Draw(t, "strict autoscaler"), rapid.Bool().Draw(t, "strict zones")}
	return c
}

// objects is how many are drawn at least.
const objects = 10_000

// TestMutateIsIdempotent looks, for random objects in random surroundings, that a
// second pass changes nothing, that nothing else is touched, and what every
// admitted object has.
func TestMutateIsIdempotent(t *testing.T) {
	checked := 0
	property := func(t *rapid.T) {
		c, o, s := anyConventions(t), anyObject(t), anySurroundings(t)
		checked++
		v, err := c.Mutate(o, s)
		if err != nil {
			return // it is not admitted
		}
		after := apply(t, o.Raw, v.Patch)
		unchangedOutside(t, o.Raw, after)
		o.Raw = after
		if again, err := c.Mutate(o, s); err != nil || len(again.Patch) != 0 {
			t.Fatalf("%s\nis changed again: %s %v", after, text(t, again.Patch), err)
		}
	}
	for checked < objects {
		rapid.Check(t, property)
	}
}
