package kube

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"go.yaml.in/yaml/v3"

	"github.com/trivet-ha/trivet/failover"
)

// granted is what the manifest allows, each as "verb group/resource in namespace".
func granted(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	documents := yaml.NewDecoder(strings.NewReader(Manifest(ManifestOptions{})))
	for {
		var d struct {
			Kind     string
			Metadata struct{ Namespace string }
			Rules    []struct {
				APIGroups       []string `yaml:"apiGroups"`
				Resources       []string
				NonResourceURLs []string `yaml:"nonResourceURLs"`
				Verbs           []string
			}
		}
		if err := documents.Decode(&d); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		for _, rule := range d.Rules {
			for _, verb := range rule.Verbs {
				for _, path := range rule.NonResourceURLs {
					all[verb+" "+path+" in "] = true
				}
				for i, resource := range rule.Resources {
					all[fmt.Sprintf("%s %s/%s in %s", verb, rule.APIGroups[i], resource, d.Metadata.Namespace)] = true
				}
			}
		}
	}
}

// needed is what RBAC asks for a request.
func needed(r *http.Request) string {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	group, namespace := "", ""
	switch path[0] {
	case "api":
		path = path[2:]
	case "apis":
		group, path = path[1], path[3:]
	default:
		return "get " + r.URL.Path + " in "
	}
	if path[0] == "namespaces" {
		namespace, path = path[1], path[2:]
	}
	verb := map[string]string{http.MethodGet: "list", http.MethodPatch: "patch", http.MethodPost: "create",
		http.MethodDelete: "delete"}[r.Method]
	switch {
	case r.URL.Query().Has("watch"):
		verb = "watch"
	case verb == "list" && len(path) > 1:
		verb = "get"
	case verb == "delete": // of pods, wherever they are
		namespace = ""
	}
	return fmt.Sprintf("%s %s/%s in %s", verb, group, path[0], namespace)
}

// TestManifestIsWhatIsAsked carries out everything the package can do and compares
// what RBAC would have been asked with what the manifest grants.
func TestManifestIsWhatIsAsked(t *testing.T) {
	c, s, seen, _, _ := watched(t)
	seen.want(t, "node a u1", "node b u2", "renewed a 1970-01-01T00:00:01.000000Z",
		"renewed b 1970-01-01T00:00:02.000000Z", "synced")
	n := failover.Node{Name: "a", UID: "u1", ResourceVersion: "9"}
	s.on("GET /api/v1/nodes/a", give(node("a", "u1", "9")))
	s.on("PATCH /api/v1/nodes/a", give(node("a", "u1", "10")))
	s.on("GET /api/v1/pods", podPages(1, 0))
	s.on("DELETE /api/v1/namespaces/x/pods/p",
		give(&metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}}))
	s.on("GET /apis/storage.k8s.io/v1/volumeattachments", give(attachments()))
	s.on("GET /apis/policy/v1/poddisruptionbudgets", give(budgets()))
	s.on("POST /api/v1/namespaces/default/events",
		give(&metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}}))
	_, errMark := c.Mark(t.Context(), n, failover.Change{Add: []failover.Taint{cordon}, Token: 20})
	_, errPods := c.Pods(t.Context(), "a")
	_, errAttachments := c.Attachments(t.Context(), "a")
	_, errDisrupted := c.Disrupted(t.Context(), nil, true)
	err := errors.Join(errMark, errPods, errAttachments, errDisrupted, c.Answers(t.Context()),
		c.DeletePod(t.Context(), failover.Pod{Namespace: "x", Name: "p", UID: "u"}),
		c.Tell(t.Context(), n, "Normal", "r", "m"))
	if err != nil {
		t.Fatal(err)
	}
	asked := map[string]bool{}
	for _, r := range s.requests() {
		asked[needed(r)] = true
	}
	rights := granted(t)
	for _, right := range slices.Sorted(maps.Keys(asked)) {
		if !rights[right] {
			t.Errorf("%q is asked and not granted", right)
		}
	}
	for _, right := range slices.Sorted(maps.Keys(rights)) {
		if !asked[right] {
			t.Errorf("%q is granted and never asked", right)
		}
	}
}

func TestManifestFills(t *testing.T) {
	inside := Manifest(ManifestOptions{Namespace: "ha", InCluster: true})
	if strings.Contains(inside, "NAMESPACE") || !strings.Contains(inside, "namespace: ha\n") {
		t.Error(inside)
	}
	if strings.Contains(inside, "kind: Secret") {
		t.Error("a pod needs no lasting token")
	}
	outside := Manifest(ManifestOptions{Namespace: "ha"})
	if !strings.HasPrefix(outside, inside) || !strings.Contains(outside, "kind: Secret") {
		t.Error(outside)
	}
	if strings.Contains(outside, "kind: Namespace\n") {
		t.Errorf("manifest-has-no-namespace: kubectl delete of it would take what others have there: %s", outside)
	}
	if !strings.Contains(Manifest(ManifestOptions{}), "namespace: trivet\n") {
		t.Error("the namespace is not trivet by default")
	}
}
