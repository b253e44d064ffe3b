package kubeclient

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// An API server, or what stands in its place, sends nobody elsewhere with our token.
func TestRedirectsAreNotFollowed(t *testing.T) {
	var reached atomic.Pointer[string]
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		shown := r.Header.Get("Authorization")
		reached.Store(&shown)
	}))
	defer elsewhere.Close()
	server := httptest.NewServer(http.RedirectHandler(elsewhere.URL+"/api/v1/nodes", http.StatusFound))
	defer server.Close()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := strings.Replace(`{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
clusters: [{name: a, cluster: {server: "URL"}}], users: [{name: a, user: {token: topsecret}}]}`, "URL", server.URL, 1)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	conf, err := Config(path)
	if err != nil {
		t.Fatal(err)
	}
	var core *rest.RESTClient
	if _, err := Clients(conf, Group{Client: &core, Version: schema.GroupVersion{Version: "v1"}}); err != nil {
		t.Fatal(err)
	}
	err = core.Get().Resource("nodes").MaxRetries(0).Do(t.Context()).Error()
	if shown := reached.Load(); shown != nil {
		t.Errorf("kube-redirect: a redirect was followed, with Authorization %q", *shown)
	}
	if err == nil {
		t.Error("kube-redirect: the answer to a redirect was taken for one of the API server")
	}
}
