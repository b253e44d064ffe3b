//go:build e2e

package labtest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	failoverkube "github.com/trivet-ha/trivet/failover/kube"
	"github.com/trivet-ha/trivet/haconfig"
	haconfigkube "github.com/trivet-ha/trivet/haconfig/kube"
	"github.com/trivet-ha/trivet/test/labtest/kubelab"
	"github.com/trivet-ha/trivet/test/testenv"
)

// chartValues are those of a site that uses every part.
const chartValues = "testdata/chart/values.yaml"

// chartKey is how an object of a cluster is told from others.
func chartKey(o map[string]any) string {
	u := unstructured.Unstructured{Object: o}
	return u.GetKind() + " " + u.GetNamespace() + "/" + u.GetName()
}

// chartObjects reads the documents of a manifest, by their keys.
func chartObjects(t testing.TB, text string) map[string]map[string]any {
	t.Helper()
	all := make(map[string]map[string]any)
	for part := range strings.SplitSeq("\n"+text, "\n---\n") {
		var o map[string]any
		if err := yaml.Unmarshal([]byte(part), &o); err != nil {
			t.Fatalf("%v:\n%s", err, part)
		}
		if len(o) > 0 {
			all[chartKey(o)] = o
		}
	}
	return all
}

// chartText renders a chart; more is written after the values of the file.
func chartText(t testing.TB, chart, values, more string) (string, error) {
	t.Helper()
	words := []string{"run", "-C", "../../packaging/container", "./render", "-namespace", "trivet"}
	if values != "" {
		text, err := os.ReadFile(values)
		path := filepath.Join(t.TempDir(), "values.yaml")
		testenv.Must(t, errors.Join(err, os.WriteFile(path, append(text, more...), 0o600)))
		words = append(words, "-values", path)
	}
	whole, err := filepath.Abs(chart)
	testenv.Must(t, err)
	cmd := exec.Command("go", append(words, whole)...)
	var out, talk bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &talk
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%w: %s", err, talk.Bytes())
	}
	return out.String(), nil
}

func renderChart(t testing.TB, values, more string) string {
	t.Helper()
	text, err := chartText(t, "../../packaging/chart", values, more)
	testenv.Must(t, err)
	return text
}

// TestChartRenders renders the chart: what it says is what the verbs print and
// docs/elector.md shows, and no pod of a release founds a cluster.
func TestChartRenders(t *testing.T) {
	text := renderChart(t, chartValues, "")
	t.Run("manifests", func(t *testing.T) { chartIsTheManifests(t, text) })
	t.Run("refusals", chartRefuses)
	t.Run("founding", func(t *testing.T) { chartFoundsNothing(t, text) })
	t.Run("sidecar", chartSidecar)
	t.Run("once", chartRunsOnce)
}

// TestChart gives the chart to an API server: the pods of peers are admitted where they
// may be and the reasons are the ones that stand in the chart, candidates are within
// restricted, rights are those that the program needs, and a cluster is founded once.
func TestChart(t *testing.T) {
	text := renderChart(t, chartValues, "")
	k := kubelab.Start(t)
	k.Kubectl("create", "namespace", "trivet")
	k.Kubectl("create", "namespace", "apps")
	k.Kubectl("label", "namespace", "trivet", "pod-security.kubernetes.io/enforce=privileged")
	k.Kubectl("label", "namespace", "apps", "default", "pod-security.kubernetes.io/enforce=restricted")
	k.Kubectl("label", "node", "node-1", "node-2", "node-3", "trivet.dev/peer=")
	if out, err := k.Try(text, "apply", "--server-side", "-f", "-"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Run("peers", func(t *testing.T) { chartPeers(t, k.For(t), text) })
	t.Run("rights", func(t *testing.T) { chartRights(t, k.For(t)) })
	t.Run("once", func(t *testing.T) { chartOnce(t, k.For(t)) })
	t.Run("restricted", func(t *testing.T) {
		pod, err := chartText(t, "testdata/chart/parent", "", "")
		testenv.Must(t, err)
		pod = strings.ReplaceAll(pod, "namespace: trivet", "namespace: apps")
		if _, err := k.For(t).Try(pod, "apply", "--server-side", "--dry-run=server", "-f", "-"); err != nil {
			t.Error(err)
		}
	})
}

// chartIsTheManifests compares what the chart has for failover and haconfig with what
// the verbs print, in each form: all but who may do it.
func chartIsTheManifests(t *testing.T, whole string) {
	o := haconfigkube.ManifestOptions{Cluster: "prod", Via: haconfigkube.ViaFloatingIP, Address: "192.0.2.10", Port: 9443,
		Namespace: "trivet", Registration: "trivet-haconfig", Service: "trivet-haconfig",
		Names: haconfig.Names{Prefix: haconfig.DefaultPrefix}}
	sameObjects(t, whole, failoverkube.Manifest(failoverkube.ManifestOptions{InCluster: true}), haconfigkube.Manifest(o))
	o.Via, o.Port, o.Registration, o.Service = haconfigkube.ViaEndpoints, 9444, "other", "hooks"
	o.Names.Prefix, o.Exclude, o.Annotates, o.Budgets = "ha.example.org/", []string{"mine", "yours"}, true, true
	sameObjects(t, renderChart(t, chartValues, `
haconfig: {exclude: [mine, yours]}
config: |
  haconfig:
    in_cluster: prod
    via: endpoints
    listen: "192.0.2.1:9444"
    registration: other
    service: hooks
    prefix: ha.example.org/
    disruption_budgets: true
    namespaces: [name=shop]
`), haconfigkube.Manifest(o))
	o = haconfigkube.ManifestOptions{Cluster: "b", Via: haconfigkube.ViaFloatingIP, Address: "2001:db8::10", Port: 9443,
		Namespace: "trivet", Registration: "trivet-haconfig", Service: "trivet-haconfig", Budgets: true,
		Names: haconfig.Names{Prefix: haconfig.DefaultPrefix}}
	sameObjects(t, renderChart(t, chartValues, `
config: |
  floating_ip: {address: "2001:db8::10"}
  haconfig: {in_cluster: b, via: floating-ip, disruption_budgets: true}
`), haconfigkube.Manifest(o))
	if bare := chartObjects(t, renderChart(t, "", "")); len(bare) != 5 {
		t.Errorf("without values there are %d objects, want those of peers alone: %v", len(bare), bare)
	}
}

// sameObjects: the rendered chart has the objects of the manifests, but for accounts and
// tokens, and no other that grants or registers.
func sameObjects(t *testing.T, rendered string, manifests ...string) {
	t.Helper()
	got := chartObjects(t, rendered)
	want := make(map[string]map[string]any)
	for _, m := range manifests {
		for key, o := range chartObjects(t, m) { // order-free: into a map
			if !slices.Contains([]any{"ServiceAccount", "Secret"}, o["kind"]) {
				if o["subjects"] != nil {
					o["subjects"] = []any{map[string]any{"kind": "ServiceAccount", "name": "trivet", "namespace": "trivet"}}
				}
				want[key] = o
			}
		}
	}
	for key, o := range want { // order-free: each is judged by itself
		if !reflect.DeepEqual(got[key], o) {
			t.Errorf("%s: the chart has\n%v\nand the verb prints\n%v", key, got[key], o)
		}
	}
	for key, o := range got { // order-free: each is judged by itself
		group, _, _ := strings.Cut(fmt.Sprint(o["apiVersion"]), "/")
		if (group == "rbac.authorization.k8s.io" || group == "admissionregistration.k8s.io") && want[key] == nil &&
			!strings.Contains(key, "trivet-elector-") {
			t.Errorf("%s: no verb prints it", key)
		}
	}
}

// chartRefuses: values that would make something else than the verbs, or a peer of
// another name on each start.
func chartRefuses(t *testing.T) {
	for more, want := range map[string]string{ // order-free: each is judged by itself
		"config: |\n  haconfig: {in_cluster: a, via: endpoints, namespace: elsewhere}\n": "they must be the same",
		"config: |\n  haconfig: {in_cluster: a}\n":                                       "needs it",
		"config: |\n  name: h1\n":                                                        "belongs to one host",
		"config: |\n  api: {listen: \"127.0.0.1:5050\"}\n":                               "write :PORT",
		"config: |\n  data_dir: /x\n":                                                    "belongs to one host",
		"config: |\n  a: [\n":                                                            "is no YAML",
		"peers: {replicas: 2}\n":                                                         "replicas",
		"peers: {nodeSelector: null}\n":                                                  "nodeSelector",
		"replicas: 3\n":                                                                  "replicas",
	} {
		if out, err := chartText(t, "../../packaging/chart", chartValues, more); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q\n%.200s", more, err, want, out)
		}
	}
}

// chartFoundsNothing: no pod of a release runs init, joiners leave data of a peer alone,
// and nothing but data of this host is in the volume.
func chartFoundsNothing(t *testing.T, text string) {
	var runs [][]any
	for key, o := range chartObjects(t, text) { // order-free: sorted by use
		for _, list := range []string{"initContainers", "containers"} {
			found, _, _ := unstructured.NestedSlice(o, "spec", "template", "spec", list)
			for _, c := range found {
				args, _, _ := unstructured.NestedSlice(c.(map[string]any), "args")
				runs = append(runs, args)
				if slices.Contains(args, any("init")) {
					t.Errorf("%s founds a cluster", key)
				}
			}
		}
	}
	if len(runs) != 3 || runs[0][0] != "firewall" || runs[1][0] != "join" || runs[2][0] != "serve" ||
		!slices.Contains(runs[1], any("--unless-peer")) {
		t.Errorf("pods run %v", runs)
	}
}

// chartRunsOnce: what recovery.md has of commands for a stopped peer, a Job runs on the host's data as the
// peer's pod would, and no release has that Job.
func chartRunsOnce(t *testing.T) {
	const job = "Job trivet/"
	if _, made := chartObjects(t, renderChart(t, chartValues, ""))[job]; made {
		t.Error("a release runs a command on a host's data")
	}
	all := chartObjects(t, renderChart(t, chartValues, "once: {host: h1, args: [recover, --lost, 'h2,h3']}\n"))
	pod := func(key string, fields ...string) any {
		v, _, err := unstructured.NestedFieldCopy(all[key], append([]string{"spec", "template", "spec"}, fields...)...)
		testenv.Must(t, err)
		return v
	}
	peer := pod("StatefulSet trivet/trivet", "initContainers").([]any)[1].(map[string]any) // it joins
	once := pod(job, "containers").([]any)[0].(map[string]any)
	for _, field := range []string{"image", "env", "securityContext", "volumeMounts"} {
		if !reflect.DeepEqual(once[field], peer[field]) {
			t.Errorf("%s is %v, and a joiner's %v", field, once[field], peer[field])
		}
	}
	want := []any{"recover", "--lost", "h2,h3"}
	host := map[string]any{"kubernetes.io/hostname": "h1"}
	if !reflect.DeepEqual(once["args"], want) || !reflect.DeepEqual(pod(job, "nodeSelector"), any(host)) {
		t.Errorf("it runs %v on %v", once["args"], pod(job, "nodeSelector"))
	}
	if _, err := chartText(t, "../../packaging/chart", chartValues, "once: {host: h1}\n"); err == nil {
		t.Error("a Job without a command is made")
	}
}

// chartSidecar compares the template with the pod of docs/elector.md.
func chartSidecar(t *testing.T) {
	page, err := os.ReadFile("../../docs/elector.md")
	testenv.Must(t, err)
	_, rest, _ := strings.Cut(string(page), "```yaml\nspec:\n")
	block, _, _ := strings.Cut(rest, "```")
	var want map[string]any
	testenv.Must(t, yaml.Unmarshal([]byte("spec:\n"+block), &want))
	text, err := chartText(t, "testdata/chart/parent", "", "")
	testenv.Must(t, err)
	got := chartObjects(t, text)
	if spec := got["Pod trivet/candidate"]["spec"]; !reflect.DeepEqual(spec, want["spec"]) || len(got) != 1 {
		t.Errorf("the template makes\n%v\nand docs/elector.md has\n%v", spec, want["spec"])
	}
}

// chartPeers: three run, each on a host of its own, and restricted refuses them for what
// the chart gives reasons, and for nothing else.
func chartPeers(t *testing.T, k *kubelab.Cluster, text string) {
	eventually(t, kubelab.Limit, "three peers run, on three hosts", func() error {
		hosts := strings.Fields(k.Get("{.items[?(@.status.phase=='Running')].spec.nodeName}", "pods", "-n", "trivet"))
		slices.Sort(hosts)
		if !slices.Equal(hosts, []string{"node-1", "node-2", "node-3"}) {
			return fmt.Errorf("on %q: %s", hosts, k.Get("{.items[*].message}", "events", "-n", "trivet"))
		}
		return nil
	})
	set := chartObjects(t, text)["StatefulSet trivet/trivet"]
	spec, _, err := unstructured.NestedMap(set, "spec", "template", "spec")
	testenv.Must(t, err)
	delete(spec, "serviceAccountName")
	delete(spec, "priorityClassName")
	pod, err := yaml.Marshal(map[string]any{"apiVersion": "v1", "kind": "Pod", "spec": spec,
		"metadata": map[string]any{"name": "peer", "namespace": "default"}})
	testenv.Must(t, err)
	_, err = k.Try(string(pod), "create", "--dry-run=server", "-f", "-")
	if err == nil {
		t.Fatal("a peer is within restricted: the reasons in the chart are wrong")
	}
	_, why, _ := strings.Cut(err.Error(), `violates PodSecurity "restricted:latest": `)
	want := []string{`host namespaces (hostNetwork=true)`,
		`unrestricted capabilities (containers "close", "trivet" must not include "NET_ADMIN", "NET_RAW" in securityContext.capabilities.add)`,
		`restricted volume types (volume "data" uses restricted volume type "hostPath")`,
		`runAsNonRoot != true (pod or containers "close", "join", "trivet" must set securityContext.runAsNonRoot=true)`,
		`runAsUser=0 (containers "close", "join", "trivet" must not set runAsUser=0)`}
	if got := strings.TrimSpace(why); got != strings.Join(want, ", ") {
		t.Errorf("reasons-beside-each-line: restricted refuses a peer for %s\nand the chart has reasons for %s", got,
			strings.Join(want, ", "))
	}
}

// chartRights asks for each right that failover and haconfig need, and for some that no
// part needs, as the account of the peers and as that of a candidate.
func chartRights(t *testing.T, k *kubelab.Cluster) {
	account := "system:serviceaccount:trivet:trivet"
	c := openKube(t, k.User(account, "system:serviceaccounts", "system:serviceaccounts:trivet", "system:authenticated"))
	missing := func() ([]string, error) { return c.Missing(t.Context()) }
	await(t, kubelab.Limit, "failover has its rights", missing, func(all []string) bool { return len(all) == 0 })
	for _, q := range []struct {
		account, verb, resource, namespace string
		want                               bool
	}{
		{account, "patch", "mutatingwebhookconfigurations/trivet-haconfig", "", true},
		{account, "patch", "deployments.apps", "apps", true},
		{account, "patch", "mutatingwebhookconfigurations/other", "", false},
		{account, "create", "mutatingwebhookconfigurations", "", false},
		{account, "get", "secrets", "trivet", false},
		{account, "list", "secrets", "", false},
		{account, "get", "configmaps", "trivet", false},
		{account, "create", "pods", "trivet", false},
		{account, "create", "pods/exec", "trivet", false},
		{account, "delete", "nodes", "", false},
		{account, "update", "nodes", "", false},
		{account, "update", "deployments.apps", "apps", false},
		{account, "delete", "poddisruptionbudgets", "apps", false}, // not configured here
		{account, "patch", "namespaces", "", false},                // nor this
		{account, "escalate", "clusterroles", "", false},
		{account, "*", "*", "", false},
		{"system:serviceaccount:apps:app", "patch", "leases/billing", "apps", true},
		{"system:serviceaccount:apps:app", "create", "leases", "apps", true},
		{"system:serviceaccount:apps:app", "get", "endpoints/billing", "apps", true},
		{"system:serviceaccount:apps:app", "patch", "leases/other", "apps", false},
		{"system:serviceaccount:apps:app", "patch", "leases/billing", "trivet", false},
		{"system:serviceaccount:apps:app", "delete", "leases/billing", "apps", false},
		{"system:serviceaccount:trivet:default", "list", "pods", "apps", false},
	} {
		words := []string{"auth", "can-i", q.verb, q.resource, "--as=" + q.account}
		if q.namespace != "" {
			words = append(words, "-n", q.namespace)
		}
		out, err := k.Try("", words...)
		if got := err == nil && strings.Contains(out, "yes"); got != q.want || !got && !strings.Contains(out, "no") {
			t.Errorf("%s may %s %s in %q: %v, want %v (%v)", q.account, q.verb, q.resource, q.namespace, got, q.want, err)
		}
	}
}

// chartOnce: the Job that founds is made once, and not by a second try, whatever host is
// named; it and what the release has are told apart by the budget and the Service.
func chartOnce(t *testing.T, k *kubelab.Cluster) {
	job := func(host string) string {
		text := renderChart(t, chartValues, "\nfound: "+host+"\n")
		o := chartObjects(t, text)["Job trivet/trivet-found"]
		if o == nil {
			t.Fatalf("no Job is rendered:\n%s", text)
		}
		one, err := yaml.Marshal(o)
		testenv.Must(t, err)
		return string(one)
	}
	if _, err := k.Try(job("node-1"), "create", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	if out, err := k.Try(job("node-2"), "create", "-f", "-"); err == nil || !strings.Contains(out, "already exists") {
		t.Errorf("founded-once: a second Job: %v: %s", err, out)
	}
	k.Await("it runs on the host that was named", "node-1", "{.items[*].spec.nodeName}", "pods", "-n", "trivet", "-l",
		"batch.kubernetes.io/job-name=trivet-found")
	peers := k.Get("{.items[*].metadata.name}", "pods", "-n", "trivet", "-l", "app.kubernetes.io/name=trivet")
	if n := len(strings.Fields(peers)); n != 3 {
		t.Errorf("the Service and the budget select %d pods: %s", n, peers)
	}
}
