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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// coreOf is the client of an API server for the core group.
func coreOf(t *testing.T, url string) *rest.RESTClient {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := strings.Replace(`{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
clusters: [{name: a, cluster: {server: "URL"}}], users: [{name: a, user: {token: topsecret}}]}`, "URL", url, 1)
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
	return core
}

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
	core := coreOf(t, server.URL)
	err := core.Get().Resource("nodes").MaxRetries(0).Do(t.Context()).Error()
	if shown := reached.Load(); shown != nil {
		t.Errorf("kube-redirect: a redirect was followed, with Authorization %q", *shown)
	}
	if err == nil {
		t.Error("kube-redirect: the answer to a redirect was taken for one of the API server")
	}
}

// A portal that wants a login answers each request with 200 and a page.
func TestPageIsNoAnswer(t *testing.T) {
	kind := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		if _, err := w.Write([]byte("ok")); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	core := coreOf(t, server.URL)
	for name, request := range map[string]*rest.Request{
		"ready":  core.Get().AbsPath("/readyz"),
		"patch":  core.Patch(types.MergePatchType).Resource("nodes").Name("n").Body([]byte("{}")),
		"delete": core.Delete().Resource("pods").Namespace("d").Name("p"),
	} {
		kind = "text/plain; charset=utf-8"
		if err := request.MaxRetries(0).Do(t.Context()).Error(); err != nil {
			t.Errorf("kube-page: %s failed: %v", name, err)
		}
		kind = "text/html; charset=utf-8"
		err := request.MaxRetries(0).Do(t.Context()).Error()
		if err == nil || Said(err) || !strings.Contains(err.Error(), "a page of HTML") {
			t.Errorf("kube-page: %s was answered with a page, and the error is %v", name, err)
		}
	}
}
