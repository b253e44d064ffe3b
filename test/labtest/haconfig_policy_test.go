//go:build e2e

package labtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	kuberrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/trivet-ha/trivet/haconfig"
	"github.com/trivet-ha/trivet/haconfig/kube"
	"github.com/trivet-ha/trivet/test/labtest/kubelab"
	"github.com/trivet-ha/trivet/test/testenv"
)

// policyCase is one object in one namespace, as the vectors of package haconfig have it.
type policyCase struct {
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
		Name      string
		Kind      schema.GroupVersionKind
		Object    json.RawMessage
		RawObject *string
	}
	strict bool
	rules  []haconfig.ComponentRule
	update *int64 // replicas of an update that follows
}

// policyDiffers is what policies decide otherwise than the webhook, by the case, and why:
// docs/haconfig.md#policy says the same.
var policyDiffers = map[string]string{
	"hpa-target-higher":             "replicas, minDomains: an autoscaler is not seen",
	"hpa-target-max-below-replicas": "replicas, minDomains: an autoscaler is not seen",
	"tsc-host-mindomains-hpa":       "minDomains: an autoscaler is not seen",
	"tsc-single-node":               "the number of Nodes is not seen",
	"update-lowers":                 "replicas, minDomains: an update may be of what an autoscaler scales",
}

// The conventions as policies, which a real API server evaluates, decide as the webhook's
// code does, field by field, but for what is listed. A second write changes nothing.
func TestHAConfigPolicies(t *testing.T) {
	t.Parallel()
	k := kubelab.Start(t, "--lite")
	client := kubeObjects(t, k)
	var groups []haconfig.Conventions
	differ := map[string]bool{}
	for n, c := range policyCases(t) {
		conventions := c.conventions()
		at := slices.IndexFunc(groups, func(g haconfig.Conventions) bool {
			g.Names = conventions.Names
			return reflect.DeepEqual(g, conventions)
		})
		if at < 0 {
			at = len(groups)
			conventions.Names.Prefix = fmt.Sprintf("group%d.example.org/", at)
			groups = append(groups, conventions)
			k.Apply(kube.Policy(kube.PolicyOptions{Name: fmt.Sprintf("group%d", at), Conventions: conventions}))
			probe := policySite{t: t, client: client, c: c, conventions: conventions, namespace: fmt.Sprintf("probe-%d", at)}
			probe.c.Cluster.Namespace.Annotations = nil
			probe.open()
			probe.await()
		}
		s := policySite{t: t, client: client, c: c, conventions: groups[at], namespace: fmt.Sprintf("case-%d", n)}
		s.open()
		t.Run(c.ID, func(t *testing.T) {
			s.t = t
			difference := s.compare()
			differ[c.ID] = difference != ""
			if differ[c.ID] != (policyDiffers[c.ID] != "") {
				t.Errorf("policy: it differs: %q; listed: %q", difference, policyDiffers[c.ID])
			}
		})
	}
	for id := range policyDiffers {
		if !differ[id] {
			t.Errorf("policy: %s is listed, and does not differ", id)
		}
	}
}

func (c policyCase) conventions() haconfig.Conventions {
	return haconfig.Conventions{
		NotReadySeconds:    c.Config.DefaultNotReadyTolerationSeconds,
		UnreachableSeconds: c.Config.DefaultUnreachableTolerationSeconds,
		Strict:             haconfig.Strict{Replicas: c.strict, Autoscaler: c.strict, Zones: c.strict},
		Components:         c.rules,
	}
}

// policyCases are the vectors that an API server can be asked about, and more.
func policyCases(t *testing.T) (out []policyCase) {
	t.Helper()
	text, err := os.ReadFile("../../haconfig/testdata/vectors.json")
	testenv.Must(t, err)
	var all struct{ Vectors []policyCase }
	testenv.Must(t, json.Unmarshal(text, &all))
	byID := map[string]policyCase{}
	for _, v := range all.Vectors {
		byID[v.ID] = v
		if v.Request.RawObject == nil && !v.Cluster.NamespaceMissing && v.Request.Kind.Kind != "DaemonSet" &&
			v.ID != "hpa-object-max-quirk" && !strings.HasSuffix(v.ID, "-not-checked") { // no API server takes that
			out = append(out, v)
		}
	}
	if len(out) < 35 {
		t.Fatalf("only %d vectors", len(out))
	}
	more := func(of, id string, change func(c *policyCase)) {
		c, known := byID[of]
		if !known {
			t.Fatalf("no vector %s", of)
		}
		c.ID = id
		change(&c)
		out = append(out, c)
	}
	five := int64(5)
	more("overwrite-4", "update-lowers", func(c *policyCase) { c.update = &five })
	for _, of := range []string{"zones-dirty-list", "overwrite-int32-wrap", "hpa-object-max-quirk", "overwrite-4"} {
		more(of, "strict-"+of, func(c *policyCase) { c.strict = true })
	}
	for _, rule := range []haconfig.ComponentRule{
		{Namespace: "case-*", Name: "demo", Type: "observability"}, {Name: "d*", Type: "controller"},
		{Namespace: "other", Type: "observability"}, {Labels: map[string]string{"app": "none"}, Type: "server"},
	} {
		more("replicas-no-type-label", fmt.Sprintf("rule-%s%s", rule.Namespace, rule.Type), func(c *policyCase) {
			c.rules = []haconfig.ComponentRule{rule, {Name: "never", Type: "server"}}
		})
	}
	for id, selector := range map[string]any{"none": nil, "empty": map[string]any{},
		"of-a-revision": map[string]any{"matchLabels": map[string]any{revision: "copied"}},
		"of-revisions":  map[string]any{"matchExpressions": []any{map[string]any{"key": revision, "operator": "Exists"}}}} {
		more("tsc-replace-own-keys", "kept-selector-"+id, func(c *policyCase) {
			c.Request.Object = keptSelector(t, c.Request.Object, selector)
		})
	}
	return out
}

// revision is the label that a Deployment's ReplicaSets write.
const revision = "pod-template-hash"

// keptSelector gives the constraint that is kept another selector, nil for none, and the template
// the label of a revision.
func keptSelector(t *testing.T, raw []byte, selector any) []byte {
	t.Helper()
	var o map[string]any
	testenv.Must(t, json.Unmarshal(raw, &o))
	all, _, err := unstructured.NestedSlice(o, "spec", "template", "spec", "topologySpreadConstraints")
	if err != nil || len(all) != 3 {
		t.Fatalf("%d constraints, %v", len(all), err)
	}
	kept := all[1].(map[string]any)
	if delete(kept, "labelSelector"); selector != nil {
		kept["labelSelector"] = selector
	}
	testenv.Must(t,
		errors.Join(unstructured.SetNestedSlice(o, all, "spec", "template", "spec", "topologySpreadConstraints"),
			unstructured.SetNestedField(o, "copied", "spec", "template", "metadata", "labels", revision)))
	out, err := json.Marshal(o)
	testenv.Must(t, err)
	return out
}

// policySite is one case in an API server.
type policySite struct {
	t           *testing.T
	client      dynamic.Interface
	c           policyCase
	conventions haconfig.Conventions
	namespace   string
}

// open makes the namespace of the case and one that nobody looks after.
func (s *policySite) open() {
	annotations := map[string]string{}
	for key, value := range s.c.Cluster.Namespace.Annotations {
		annotations[strings.Replace(key, haconfig.DefaultPrefix, s.conventions.Names.Prefix, 1)] = value
	}
	s.c.Cluster.Namespace.Annotations = annotations
	for name, labels := range map[string]map[string]string{
		s.namespace: {s.conventions.Names.Consider(): "true"}, s.namespace + "-plain": {},
	} {
		n := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
		n.SetName(name)
		n.SetLabels(labels)
		n.SetAnnotations(annotations)
		all := s.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
		if _, err := all.Create(s.t.Context(), n, meta.CreateOptions{}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// await waits until both policies are in force.
func (s *policySite) await() {
	s.t.Helper()
	for kind, spec := range map[string]string{
		"Deployment":              `{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"x"}]}}}`,
		"HorizontalPodAutoscaler": `{"maxReplicas":5,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"x"}}`,
	} {
		s.c.Request.Kind = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: kind}
		field := "replicas"
		if kind != "Deployment" {
			s.c.Request.Kind.Group, s.c.Request.Kind.Version, field = "autoscaling", "v2", "minReplicas"
		}
		s.c.Request.Object = fmt.Appendf(nil,
			`{"apiVersion":%q,"kind":%q,"metadata":{"name":"probe","labels":{%q:"server"}},"spec":%s}`,
			s.c.Request.Kind.GroupVersion(), kind, haconfig.DefaultPrefix+"type", spec)
		eventually(s.t, kubelab.ReadyLimit, "the policy for "+kind+" is in force", func() error {
			got, err := s.resource(s.namespace).Create(s.t.Context(), s.object(s.namespace),
				meta.CreateOptions{DryRun: []string{meta.DryRunAll}})
			if err != nil {
				return err
			}
			if n := fieldAt(got.Object, "spec", field); n != "2" {
				return fmt.Errorf("%s is %s", field, n)
			}
			return nil
		})
	}
}

// resource is where objects of the case's kind are, in a namespace.
func (s *policySite) resource(namespace string) dynamic.ResourceInterface {
	kind := s.c.Request.Kind
	return s.client.Resource(schema.GroupVersionResource{Group: kind.Group, Version: kind.Version,
		Resource: strings.ToLower(kind.Kind) + "s"}).Namespace(namespace)
}

// object is that of the case, for a namespace.
func (s *policySite) object(namespace string) *unstructured.Unstructured {
	raw := bytes.ReplaceAll(s.c.Request.Object, []byte(haconfig.DefaultPrefix), []byte(s.conventions.Names.Prefix))
	var out unstructured.Unstructured
	testenv.Must(s.t, json.Unmarshal(raw, &out.Object))
	out.SetNamespace(namespace)
	return &out
}

// compare says in what a policy and the webhook's code differ about the object as an API
// server has it; "" if in nothing.
func (s *policySite) compare() (difference string) {
	dry := meta.CreateOptions{DryRun: []string{meta.DryRunAll}}
	plain, err := s.resource(s.namespace+"-plain").Create(s.t.Context(), s.object(s.namespace+"-plain"), dry)
	switch {
	case kuberrors.IsInvalid(err): // until it is mutated
		plain = s.object(s.namespace)
	case err != nil:
		s.t.Fatal(err)
	}
	want, refused := s.mutated(plain)
	got, err := s.resource(s.namespace).Create(s.t.Context(), s.object(s.namespace), meta.CreateOptions{})
	if refused != nil || err != nil {
		if refused != nil && err != nil {
			return ""
		}
		return fmt.Sprintf("webhook: %v, policy: %v", refused, err)
	}
	if d := fieldsThatDiffer(got.Object, want); d != "" {
		_ = s.resource(s.namespace).Delete(s.t.Context(), got.GetName(), meta.DeleteOptions{})
		return d
	}
	after := got
	if s.c.update != nil {
		testenv.Must(s.t, unstructured.SetNestedField(after.Object, *s.c.update, "spec", "replicas"))
		want, refused = s.mutated(after)
		if refused != nil {
			s.t.Fatal(refused)
		}
	}
	defer func() { _ = s.resource(s.namespace).Delete(s.t.Context(), got.GetName(), meta.DeleteOptions{}) }()
	again := s.object(s.namespace)
	again.SetResourceVersion(got.GetResourceVersion())
	again.Object["spec"] = after.Object["spec"]
	written, err := s.resource(s.namespace).Update(s.t.Context(), again, meta.UpdateOptions{})
	if err != nil {
		return fmt.Sprintf("a second write: %v", err)
	}
	return fieldsThatDiffer(written.Object, want)
}

// mutated is what the webhook's code makes of an object.
func (s *policySite) mutated(o *unstructured.Unstructured) (out map[string]any, refused error) {
	raw, err := json.Marshal(o.Object)
	testenv.Must(s.t, err)
	around := haconfig.Surroundings{Annotations: s.c.Cluster.Namespace.Annotations, Nodes: s.c.Cluster.Nodes}
	for _, hpa := range s.c.Cluster.HPAs {
		ref := hpa.Spec.ScaleTargetRef
		around.Autoscalers = append(around.Autoscalers,
			haconfig.Autoscaler{APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name, Max: hpa.Spec.MaxReplicas})
	}
	v, refused := s.conventions.Mutate(haconfig.Object{GroupVersionKind: s.c.Request.Kind, Namespace: s.namespace,
		Name: o.GetName(), Raw: raw}, around)
	if refused != nil {
		return nil, refused
	}
	if len(v.Patch) > 0 {
		text, err := json.Marshal(v.Patch)
		testenv.Must(s.t, err)
		patch, err := jsonpatch.DecodePatch(text)
		testenv.Must(s.t, err)
		raw, err = patch.Apply(raw)
		testenv.Must(s.t, err)
	}
	testenv.Must(s.t, json.Unmarshal(raw, &out))
	return out, nil
}

// fieldsThatDiffer compares what the conventions decide.
func fieldsThatDiffer(got, want map[string]any) string {
	var all []string
	for _, path := range [][]string{{"spec", "replicas"}, {"spec", "minReplicas"}, {"spec", "maxReplicas"},
		{"spec", "template", "spec", "affinity"}, {"spec", "template", "spec", "topologySpreadConstraints"},
		{"spec", "template", "spec", "tolerations"}} {
		if a, b := fieldAt(got, path...), fieldAt(want, path...); a != b {
			all = append(all, fmt.Sprintf("%s: policy %s, webhook %s", path[len(path)-1], a, b))
		}
	}
	return strings.Join(all, "; ")
}

// fieldAt is a field as JSON, "null" if it is missing or an empty list.
func fieldAt(object map[string]any, path ...string) string {
	value, _, _ := unstructured.NestedFieldNoCopy(object, path...)
	text, err := json.Marshal(value)
	if err != nil || string(text) == "[]" {
		return "null"
	}
	return string(text)
}
