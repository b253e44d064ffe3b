package kube

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/trivet-ha/trivet/haconfig"
)

// document is one of a manifest, as far as it is looked at.
type document struct {
	Kind     string
	Metadata struct{ Name, Namespace string }
	Rules    []struct {
		APIGroups     []string `yaml:"apiGroups"`
		Resources     []string
		ResourceNames []string `yaml:"resourceNames"`
		Verbs         []string
	}
	Webhooks []struct {
		ClientConfig      map[string]any `yaml:"clientConfig"`
		FailurePolicy     string         `yaml:"failurePolicy"`
		NamespaceSelector struct {
			MatchLabels      map[string]string           `yaml:"matchLabels"`
			MatchExpressions []struct{ Values []string } `yaml:"matchExpressions"`
		} `yaml:"namespaceSelector"`
		ObjectSelector struct {
			MatchExpressions []struct{ Key, Operator string } `yaml:"matchExpressions"`
		} `yaml:"objectSelector"`
		TimeoutSeconds int `yaml:"timeoutSeconds"`
	}
}

func documents(t *testing.T, o ManifestOptions) (all []document) {
	t.Helper()
	text := Manifest(o)
	for _, left := range []string{"NAMESPACE", "SERVICE", "PORT", "REGISTRATION", "CONSIDER", "SKIP", "EXCLUDED", "CLIENT",
		"#if", "#end"} {
		if strings.Contains(text, left) {
			t.Errorf("%s is left in\n%s", left, text)
		}
	}
	decoder := yaml.NewDecoder(strings.NewReader(text))
	for {
		var d document
		if err := decoder.Decode(&d); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		all = append(all, d)
	}
}

// TestManifest reads both ways of registration.
func TestManifest(t *testing.T) {
	o := ManifestOptions{Via: ViaFloatingIP, Address: "2001:db8::1", Port: 9443, Namespace: "trivet", Registration: "reg",
		Service: "svc",
		Names:   haconfig.Names{Prefix: haconfig.DefaultPrefix}, Exclude: []string{"mine"}}
	for via, want := range map[string]string{
		ViaFloatingIP: "map[url:https://[2001:db8::1]:9443/webhooks/high-availability-config]",
		ViaEndpoints:  "map[service:map[name:svc namespace:trivet path:/webhooks/high-availability-config port:9443]]",
	} {
		o.Via = via
		var kinds []string
		for _, d := range documents(t, o) {
			kinds = append(kinds, d.Kind)
			if d.Kind != "MutatingWebhookConfiguration" {
				continue
			}
			hook := d.Webhooks[0]
			if got := fmt.Sprint(hook.ClientConfig); got != want || d.Metadata.Name != "reg" {
				t.Errorf("%s: %s", via, got)
			}
			if hook.FailurePolicy != "Fail" || hook.TimeoutSeconds != 10 ||
				hook.NamespaceSelector.MatchLabels[haconfig.DefaultPrefix+"consider"] != "true" ||
				hook.ObjectSelector.MatchExpressions[0].Key != haconfig.DefaultPrefix+"skip" ||
				!slices.Equal(hook.NamespaceSelector.MatchExpressions[0].Values,
					[]string{"trivet", "kube-node-lease", "kube-public", "mine"}) {
				t.Errorf("%s: %+v", via, hook)
			}
		}
		if slices.Contains(kinds, "Namespace") {
			t.Errorf("manifest-has-no-namespace: kubectl delete of it would take what others have there: %v", kinds)
		}
		if slices.Contains(kinds, "Service") != (via == ViaEndpoints) ||
			slices.Contains(kinds, "Role") != (via == ViaEndpoints) {
			t.Errorf("%s: %v", via, kinds)
		}
	}
}

// TestRights looks that no verb is granted that is not listed here.
func TestRights(t *testing.T) {
	o := ManifestOptions{Via: ViaEndpoints, Port: 1, Namespace: "n", Registration: "reg", Service: "svc"}
	least := []string{
		"ClusterRole [] [namespaces] [] [get list]", "ClusterRole [] [nodes] [] [list]",
		"ClusterRole [autoscaling] [horizontalpodautoscalers] [] [list]",
		"ClusterRole [admissionregistration.k8s.io] [mutatingwebhookconfigurations] [reg] [get patch delete]",
		"ClusterRole [apps] [deployments statefulsets] [] [list patch]",
	}
	const endpoints = "Role [discovery.k8s.io] [endpointslices] [] [get create update delete]"
	if got := rightsOf(t, o); !slices.Equal(got, append(slices.Clone(least), endpoints)) {
		t.Errorf("%q", got)
	}
	o.Via, o.Annotates, o.Budgets = ViaFloatingIP, true, true
	if got := rightsOf(t, o); !slices.Equal(got,
		append(slices.Clone(least), "ClusterRole [] [namespaces] [] [patch]", "ClusterRole [] [persistentvolumes] [] [list]",
			"ClusterRole [policy] [poddisruptionbudgets] [] [list create update delete]")) {
		t.Errorf("%q", got)
	}
}

func rightsOf(t *testing.T, o ManifestOptions) (got []string) {
	t.Helper()
	for _, d := range documents(t, o) {
		for _, rule := range d.Rules {
			if d.Kind != "MutatingWebhookConfiguration" {
				got = append(got, fmt.Sprintf("%s %v %v %v %v", d.Kind, rule.APIGroups, rule.Resources, rule.ResourceNames,
					rule.Verbs))
			}
		}
	}
	return got
}

// Policies have nothing left to fill in, whatever the conventions are; what is optional is
// there if it is configured. An API server reads them in test/labtest.
func TestPolicy(t *testing.T) {
	seconds := int64(0)
	for name, c := range map[string]haconfig.Conventions{
		"none": {}, "tolerations": {UnreachableSeconds: &seconds},
		"strict": {Strict: haconfig.Strict{Replicas: true, Autoscaler: true, Zones: true}},
		"rules": {Components: []haconfig.ComponentRule{
			{Namespace: `a"b\`, Name: "x*", Labels: map[string]string{"k": "v"}, Type: "observability"}}},
	} {
		c.Names = haconfig.Names{Prefix: "example.org/"}
		text := Policy(PolicyOptions{Name: "p", Exclude: []string{"mine"}, Conventions: c})
		kinds, decoder := map[string]int{}, yaml.NewDecoder(strings.NewReader(text))
		for {
			var d struct {
				Kind string
				Spec struct{ Mutations []any }
			}
			err := decoder.Decode(&d)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v in\n%s", name, err, text)
			}
			kinds[fmt.Sprint(d.Kind, len(d.Spec.Mutations))]++
		}
		mutations := 3
		if c.UnreachableSeconds != nil {
			mutations = 4
		}
		if kinds[fmt.Sprint("MutatingAdmissionPolicy", mutations)] != 1 || kinds["MutatingAdmissionPolicy1"] != 1 ||
			kinds["MutatingAdmissionPolicyBinding0"] != 2 {
			t.Errorf("%s: %v", name, kinds)
		}
		for _, left := range []string{"REGISTRATION", "COMMON", "#if", "#end", "KIND", "WANTED", "SPREAD", "TOLER", "ZONES",
			"TABLE", "LARGEST", "CONSTRAINTS", "%!"} {
			if strings.Contains(text, left) {
				t.Errorf("%s: %s is left in\n%s", name, left, text)
			}
		}
		for _, has := range []string{"values: [kube-node-lease, kube-public, mine]", `example.org/consider: "true"`} {
			if !strings.Contains(text, has) {
				t.Errorf("%s: %q is not in\n%s", name, has, text)
			}
		}
	}
}
