package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/haconfig"
)

// haconfigRun runs one command with something on its input.
func haconfigRun(t *testing.T, in string, args ...string) (code int, out, talk string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	p := &program{Terminal: &term.Terminal{In: strings.NewReader(in), Out: &stdout, Err: &stderr}}
	code = p.run(t.Context(), append([]string{"haconfig"}, args...))
	return code, stdout.String(), stderr.String()
}

const (
	changed = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, labels: {high-availability-config.resources.gardener.cloud/type: server}},
spec: {replicas: 1, template: {metadata: {labels: {a: web}}}}}`
	guarded = changed +
		"\n---\n{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: b}, spec: {selector: {matchLabels: {a: web}}}}\n"
)

// TestLintExits looks at codes, which are for pipelines, and at both forms.
func TestLintExits(t *testing.T) {
	for _, row := range []struct {
		name, in string
		args     []string
		code     int
		says     string
	}{
		{"a risk", changed, nil, term.ExitFailed, "no-budget"},
		{"a risk that is for show", changed, []string{"--fail-on", "none"}, 0, "no-budget"},
		{"a change", guarded, []string{"--tolerance", "node"}, 0, "spec.replicas becomes 2"},
		{"a change that counts", guarded, []string{"--tolerance", "node", "--fail-on", "change"}, term.ExitFailed, "change"},
		{"nothing", "{apiVersion: v1, kind: ConfigMap}", nil, 0, ""},
		{"what is no manifest", "a: [", nil, term.ExitUsage, ""},
		{"what is no manifest, and a risk", "a: [\n---\n" + changed, nil, term.ExitUsage, "no-budget"},
		{"keys that are no text",
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: tcp}, data: {9000: a}}\n---\n" + changed, nil, term.ExitFailed,
			"no-budget"},
		{"a component by rule", strings.ReplaceAll(guarded, "resources.gardener.cloud/type", "resources.gardener.cloud/x"),
			[]string{"--component", "name=web type=observability"}, 0, ""},
		{"what no rule is for", strings.ReplaceAll(guarded, "resources.gardener.cloud/type", "resources.gardener.cloud/x"),
			[]string{"--component", "name=db type=server", "--fail-on", "none"}, 0, "no-type"},
		{"a rule that is none", changed, []string{"--component", "type=server"}, term.ExitUsage, ""},
		{"a flag that is none", changed, []string{"--fail-on", "always"}, term.ExitUsage, ""},
		{"a prefix that is none", changed, []string{"--prefix", "x"}, term.ExitUsage, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			code, out, talk := haconfigRun(t, row.in, append([]string{"lint", "-"}, row.args...)...)
			if code != row.code || !strings.Contains(out, row.says) {
				t.Errorf("code %d, want %d: %s%s", code, row.code, out, talk)
			}
		})
	}
	code, out, _ := haconfigRun(t, changed, "lint", "-", "-o", "json")
	var all []haconfig.Advice
	if err := json.Unmarshal([]byte(out), &all); err != nil || code != term.ExitFailed || len(all) < 2 ||
		all[0].Kind != "Deployment" || all[0].Name != "web" || all[0].Namespace != "default" {
		t.Errorf("code %d: %s (%v)", code, out, err)
	}
}

// TestCheckReadsACluster has an API server with a volume in one zone.
func TestCheckReadsACluster(t *testing.T) {
	lists := map[string]string{
		"/api/v1/namespaces":                            `{"metadata":{"name":"n"}}`,
		"/api/v1/nodes":                                 `{"metadata":{"name":"n1"}}`,
		"/api/v1/persistentvolumes":                     `{"metadata":{"name":"pv"},"spec":{"claimRef":{"namespace":"n","name":"c"},"nodeAffinity":{"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"kubernetes.io/hostname","operator":"In","values":["n1"]}]}]}}}}`,
		"/apis/apps/v1/deployments":                     `{"metadata":{"name":"web","namespace":"n"},"spec":{"replicas":1,"template":{"spec":{"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"c"}}]}}}}`,
		"/apis/apps/v1/statefulsets":                    "",
		"/apis/autoscaling/v2/horizontalpodautoscalers": "",
		"/apis/policy/v1/poddisruptionbudgets":          "",
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		item, known := lists[r.URL.Path]
		if !known {
			w.WriteHeader(http.StatusNotFound)
		}
		kind := `"kind":"List"`
		if r.URL.Path == "/api/v1/nodes" {
			kind = `"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1"`
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("{" + kind + `,"metadata":{},"items":[` + item + "]}")) // who asked may have gone
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := strings.Replace(`{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
clusters: [{name: a, cluster: {server: "URL"}}], users: [{name: a, user: {}}]}`, "URL", server.URL, 1)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, talk := haconfigRun(t, "", "check", "--kubeconfig", file)
	if code != term.ExitFailed || !strings.Contains(out, "single-replica") ||
		!strings.Contains(out, "the volume of claim c is on kube node n1") {
		t.Errorf("code %d: %s%s", code, out, talk)
	}
	conf := filepath.Join(t.TempDir(), "trivet.yaml")
	if err := os.WriteFile(conf,
		[]byte("haconfig: {kubeconfigs: [prod="+file+"], components: [name=web type=observability]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, named, talk := haconfigRun(t, "", "check", "--cluster", "prod", "--config", conf); code != term.ExitFailed ||
		named != out {
		t.Errorf("by its name: code %d: %s%s", code, named, talk)
	}
	if code, _, talk := haconfigRun(t, "", "check", "--cluster", "test", "--config", conf); code != term.ExitUsage ||
		!strings.Contains(talk, "haconfig has prod") {
		t.Errorf("of a name that is none: code %d: %s", code, talk)
	}
	if code, _, talk := haconfigRun(t, "", "check"); code != term.ExitUsage || !strings.Contains(talk, "--kubeconfig") {
		t.Errorf("without a cluster: code %d: %s", code, talk)
	}
}

// TestHAManifest grants no more than is asked for.
func TestHAManifest(t *testing.T) {
	_, least, _ := haconfigRun(t, "", "manifest", "--via", "endpoints")
	_, most, _ := haconfigRun(t, "", "manifest", "--via", "endpoints", "--namespaces", "--disruption-budgets")
	for _, right := range []string{"persistentvolumes", "poddisruptionbudgets"} {
		if strings.Contains(least, right) || !strings.Contains(most, right) {
			t.Errorf("%s: granted unasked, or not at all", right)
		}
	}
	_, named, _ := haconfigRun(t, "", "manifest", "--via", "floating-ip", "--address", "192.0.2.10", "--cluster", "shoot")
	if path := haconfig.ReviewPath("shoot"); !strings.Contains(named, "url: https://192.0.2.10:9443"+path) ||
		strings.Contains(least, haconfig.PathMutate+"/") {
		t.Errorf("the path of a cluster: %s", named)
	}
	for _, args := range [][]string{{}, {"--via", "floating-ip"}, {"--via", "endpoints", "--port", "0"},
		{"--via", "endpoints", "--exclude", "A"}, {"--via", "endpoints", "--prefix", "a"},
		{"--via", "endpoints", "--cluster", "a/b"}} {
		if code, out, _ := haconfigRun(t, "", append([]string{"manifest"}, args...)...); code != term.ExitUsage || out != "" {
			t.Errorf("%q: code %d: %s", args, code, out)
		}
	}
}

// TestDocumentedRemovals: what pages pipe into kubectl delete names no Namespace, in which others
// may live, and the first apply on a page finds one.
func TestDocumentedRemovals(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	piped := regexp.MustCompile(`trivet ((?:failover|haconfig) manifest[^|` + "`" + `]*)\| kubectl (apply|delete)`)
	removals := 0
	for _, page := range pages {
		body, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		created := strings.Index(string(body), "kubectl create namespace trivet")
		for _, at := range piped.FindAllStringSubmatchIndex(string(body), -1) {
			words, verb := string(body[at[2]:at[3]]), string(body[at[4]:at[5]])
			policy := strings.Contains(words, "--policy")
			if verb == "apply" && !policy && (created < 0 || created > at[0]) {
				t.Errorf("manifest-without-namespace: %s: no Namespace is made before %q", page, words)
			}
			if verb != "delete" {
				continue
			}
			removals++
			args := strings.Fields(strings.ReplaceAll(words, "…", "--via endpoints --namespaces --disruption-budgets"))
			if !policy {
				args = append(args, "--namespace", "mine")
			}
			var out, talk bytes.Buffer
			p := &program{Terminal: &term.Terminal{In: strings.NewReader(""), Out: &out, Err: &talk}}
			if code := p.run(t.Context(), args); code != 0 || !strings.Contains(out.String(), "\nkind: ") ||
				strings.Contains(out.String(), "kind: Namespace") {
				t.Errorf("removal-takes-a-namespace: %s: %q: code %d: %s%s", page, args, code, &out, &talk)
			}
		}
	}
	if removals < 3 {
		t.Errorf("removal-takes-a-namespace: %d found, want three", removals)
	}
}
