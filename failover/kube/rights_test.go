package kube

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// judge is an API server that says what the caller may do, but not what is denied.
func judge(t *testing.T, denied string, asked *[]string) *Cluster {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review accessReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || r.URL.Path != pathReview {
			http.NotFound(w, r)
			return
		}
		right := inWords(review.Spec)
		*asked = append(*asked, right)
		review.Status.Allowed = right != denied
		_ = json.NewEncoder(w).Encode(review) // who asked may have gone
	}))
	t.Cleanup(srv.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
clusters: [{name: a, cluster: {server: %q}}], users: [{name: a, user: {}}]}`, srv.URL)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Open(Options{Name: "prod", Kubeconfig: path, Wall: time.Now, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestEveryRightOfTheManifestIsAskedFor(t *testing.T) {
	var asked []string
	missing, err := judge(t, "", &asked).Missing(t.Context())
	if err != nil || len(missing) > 0 {
		t.Errorf("with all rights: %v, %v", missing, err)
	}
	for _, want := range []string{"patch nodes", "delete pods", "list leases in kube-node-lease",
		"create events in default", "get /readyz"} {
		if !slices.Contains(asked, want) {
			t.Errorf("it did not ask for %q, but %v", want, asked)
		}
	}
	if lines := strings.Count(rights, "verbs: ["); len(asked) < lines {
		t.Errorf("%d questions of %d rules", len(asked), lines)
	}
}

func TestAMissingRightIsNamed(t *testing.T) {
	var asked []string
	missing, err := judge(t, "patch nodes", &asked).Missing(t.Context())
	if err != nil || !slices.Equal(missing, []string{"patch nodes"}) {
		t.Errorf("missing-right-is-named: %v, %v", missing, err)
	}
}
