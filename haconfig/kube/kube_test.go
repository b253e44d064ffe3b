package kube

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/trivet-ha/trivet/haconfig"
)

// server answers as an API server would, by a table of "METHOD path".
type server struct {
	*httptest.Server
	mu      sync.Mutex
	answers map[string]http.HandlerFunc
	asked   []string
}

// openOn returns a cluster, the server that it is, and its clock.
func openOn(t *testing.T) (*Cluster, *server, *clock) {
	t.Helper()
	s := &server{answers: map[string]http.HandlerFunc{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := strings.Replace(`{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
clusters: [{name: a, cluster: {server: "URL"}}], users: [{name: a, user: {}}]}`, "URL", s.URL, 1)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	at := &clock{now: time.Now()}
	c, err := Open(Options{Kubeconfig: file, Names: haconfig.Names{Prefix: haconfig.DefaultPrefix}, Now: at.read})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, s, at
}

// clock is a time that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.Method + " " + r.URL.Path
	s.mu.Lock()
	s.asked = append(s.asked, key)
	answer := s.answers[key]
	s.mu.Unlock()
	if answer == nil {
		refuse(http.StatusTeapot, "Unexpected", key)(w, r)
		return
	}
	answer(w, r)
}

func (s *server) on(key string, answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[key] = answer
}

// count is how often something was asked.
func (s *server) count(key string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.asked {
		if one == key {
			n++
		}
	}
	return n
}

func give(object runtime.Object) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, object) }
}

func refuse(code int, reason metav1.StatusReason, message string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		write(w, code, &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message})
	}
}

func write(w http.ResponseWriter, code int, object runtime.Object) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object) // who asked may have gone
}

const (
	getNamespace = "GET /api/v1/namespaces/ns1"
	listScalers  = "GET /apis/autoscaling/v2/namespaces/ns1/horizontalpodautoscalers"
	listNodes    = "GET /api/v1/nodes"
)

// usual has the server know a namespace, an autoscaler and two nodes.
func (s *server) usual() {
	s.on(getNamespace, give(&corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: "ns1", Annotations: map[string]string{"a": "b"}}}))
	hpa := autoscalingv2.HorizontalPodAutoscaler{Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 7}}
	hpa.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment",
		Name: "d"}
	s.on(listScalers, give(&autoscalingv2.HorizontalPodAutoscalerList{
		TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscalerList"},
		Items:    []autoscalingv2.HorizontalPodAutoscaler{hpa}}))
	s.on(listNodes, give(&metav1.PartialObjectMetadataList{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"},
		Items:    make([]metav1.PartialObjectMetadata, 2)}))
}

// TestSurroundings reads all there is, once a second.
func TestSurroundings(t *testing.T) {
	c, s, at := openOn(t)
	s.usual()
	for range 5 {
		around, err := c.Surroundings(t.Context(), server1, "ns1")
		if err != nil || around.Nodes != 2 || around.Annotations["a"] != "b" || len(around.Autoscalers) != 1 ||
			around.Autoscalers[0] != (haconfig.Autoscaler{APIVersion: "apps/v1", Kind: "Deployment", Name: "d", Max: 7}) {
			t.Fatalf("%+v %v", around, err)
		}
	}
	at.pass(freshTTL)
	if _, err := c.Surroundings(t.Context(), server1, "ns1"); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{getNamespace, listScalers, listNodes} {
		if n := s.count(key); n != 2 {
			t.Errorf("%s was asked %d times, not twice", key, n)
		}
	}
}

// A review whose source has its share of reads under way waits; one of another source does not.
func TestReviewsWaitForTheirSource(t *testing.T) {
	c, s, _ := openOn(t)
	s.usual()
	for range reads.Share {
		if err := c.namespaces.line.Enter(t.Context(), strangeLane, stranger); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Surroundings(ctx, stranger, "ns1"); err == nil || s.count(getNamespace) != 0 {
		t.Errorf("read-beyond-its-share: %v", err)
	}
	if _, err := c.Surroundings(t.Context(), server1, "ns1"); err != nil {
		t.Errorf("read-of-another-source: %v", err)
	}
}

// TestNamespaceCannotBeRead looks at what is said, and for how long what was read
// serves.
func TestNamespaceCannotBeRead(t *testing.T) {
	c, s, at := openOn(t)
	s.usual()
	s.on(getNamespace, refuse(404, metav1.StatusReasonNotFound, `namespaces "ns1" not found`))
	if _, err := c.Surroundings(t.Context(), server1, "ns1"); err == nil || err.Error() != `namespaces "ns1" not found` {
		t.Error(err)
	}
	s.usual()
	at.pass(freshTTL)
	if _, err := c.Surroundings(t.Context(), server1, "ns1"); err != nil {
		t.Fatal(err)
	}
	s.on(getNamespace, refuse(500, metav1.StatusReasonInternalError, "etcd is away"))
	at.pass(staleTTL - time.Millisecond)
	if around, err := c.Surroundings(t.Context(), server1, "ns1"); err != nil || around.Annotations["a"] != "b" {
		t.Errorf("what was read does not serve: %+v %v", around, err)
	}
	at.pass(errorTTL)
	if _, err := c.Surroundings(t.Context(), server1, "ns1"); err == nil ||
		!strings.Contains(err.Error(), "etcd is away") {
		t.Errorf("it serves for ever: %v", err)
	}
	s.usual()
	s.on(listScalers, refuse(403, metav1.StatusReasonForbidden, "may not"))
	at.pass(errorTTL)
	if _, err := c.Surroundings(t.Context(), server1, "ns1"); err == nil ||
		!strings.Contains(err.Error(), "trivet haconfig manifest") {
		t.Errorf("what is forbidden: %v", err)
	}
	s.usual()
	s.on(listNodes, refuse(500, metav1.StatusReasonInternalError, "etcd is away"))
	at.pass(staleTTL)
	if _, err := c.Surroundings(t.Context(), server1, "ns1"); err == nil || !strings.Contains(err.Error(), "list nodes") {
		t.Errorf("nodes cannot be counted: %v", err)
	}
}

// TestGoneIsGone looks that what was read is not used for a namespace that the API
// server says is gone.
func TestGoneIsGone(t *testing.T) {
	c, s, at := openOn(t)
	s.usual()
	if _, err := c.Surroundings(t.Context(), server1, "ns1"); err != nil {
		t.Fatal(err)
	}
	s.on(getNamespace, refuse(404, metav1.StatusReasonNotFound, `namespaces "ns1" not found`))
	at.pass(freshTTL)
	if _, err := c.Surroundings(t.Context(), server1, "ns1"); err == nil {
		t.Error("it is taken for what it was")
	}
}

// TestReady follows the API server's silence.
func TestReady(t *testing.T) {
	c, s, at := openOn(t)
	if c.Ready() == nil {
		t.Error("ready before anybody has asked")
	}
	s.usual()
	if _, err := c.Nodes(t.Context()); err != nil || c.Ready() != nil {
		t.Error(err, c.Ready())
	}
	s.on(listNodes, refuse(503, metav1.StatusReasonServiceUnavailable, "going"))
	at.pass(freshTTL)
	_, _ = c.Nodes(t.Context()) // Ready tells
	if err := c.Ready(); err != nil {
		t.Errorf("at once: %v", err)
	}
	at.pass(silentAfter)
	if err := c.Ready(); err == nil || !strings.Contains(err.Error(), "going") {
		t.Errorf("after ten seconds: %v", err)
	}
}

// A peer whose token is refused, or that lacks a right that reviews need, cannot answer, until it
// may again. A review that is refused says nothing of others' namespaces.
func TestRefusedIsNotReady(t *testing.T) {
	c, s, at := openOn(t)
	const (
		getAsked  = "GET /api/v1/namespaces/" + askedNamespace
		listAsked = "GET /apis/autoscaling/v2/namespaces/" + askedNamespace + "/horizontalpodautoscalers"
	)
	usual := func() {
		s.usual()
		s.on(getAsked, give(&corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}}))
		s.on(listAsked, give(&autoscalingv2.HorizontalPodAutoscalerList{
			TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscalerList"}}))
	}
	ask := func() error {
		at.pass(askEvery)
		ask(t.Context(), c)
		if ready, silent := c.Ready(), c.Silent(); ready != silent && ready.Error() != silent.Error() {
			t.Errorf("refused-is-not-ready: ready %v, silent %v", ready, silent)
		}
		return c.Ready()
	}
	for _, key := range []string{getAsked, listAsked, listNodes} {
		for code, reason := range map[int]metav1.StatusReason{http.StatusUnauthorized: metav1.StatusReasonUnauthorized,
			http.StatusForbidden: metav1.StatusReasonForbidden} {
			usual()
			if err := ask(); err != nil {
				t.Errorf("refused-is-not-ready: before %d of %q: %v", code, key, err)
			}
			s.on(key, refuse(code, reason, "not you"))
			if err := ask(); err == nil || !strings.Contains(err.Error(), "refuses this peer: ") {
				t.Errorf("refused-is-not-ready: %d of %q: %v", code, key, err)
			}
		}
	}
	s.on(listNodes, refuse(503, metav1.StatusReasonServiceUnavailable, "going"))
	if err := ask(); err == nil || !strings.Contains(err.Error(), "not you") {
		t.Errorf("refused-is-not-ready: a busy API server lets this peer in: %v", err)
	}
	usual()
	s.on(getAsked, refuse(404, metav1.StatusReasonNotFound, "none"))
	s.on(getNamespace, refuse(403, metav1.StatusReasonForbidden, "may not"))
	_, refused := c.Surroundings(t.Context(), server1, "ns1")
	if err := ask(); err != nil || refused == nil {
		t.Errorf("refused-is-not-ready: of one namespace alone: %v, review %v", err, refused)
	}
}

// TestRegistration puts the CA in for the version that was read.
func TestRegistration(t *testing.T) {
	c, s, _ := openOn(t)
	const path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/r"
	s.on("GET "+path, refuse(404, metav1.StatusReasonNotFound, "none"))
	if r, err := c.Registration(t.Context(), "r"); err != nil || r.Version != "" {
		t.Errorf("%+v %v", r, err)
	}
	address, below := "https://192.0.2.1:9443/a/b?x", "/c"
	registered := make([]admissionregistrationv1.MutatingWebhook, 2)
	registered[0].ClientConfig.URL = &address
	registered[1].ClientConfig = admissionregistrationv1.WebhookClientConfig{
		Service: &admissionregistrationv1.ServiceReference{Namespace: "n", Name: "s", Path: &below}, CABundle: []byte("old")}
	s.on("GET "+path, give(&admissionregistrationv1.MutatingWebhookConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingWebhookConfiguration"},
		ObjectMeta: metav1.ObjectMeta{Name: "r", ResourceVersion: "7"}, Webhooks: registered}))
	r, err := c.Registration(t.Context(), "r")
	if err != nil || r.Version != "7" || len(r.Bundles) != 2 || !slices.Equal(r.Paths, []string{"/a/b", "/c"}) ||
		!slices.Equal(r.Places, []string{"192.0.2.1:9443", "n/s"}) {
		t.Fatalf("%+v %v", r, err)
	}
	var patch []map[string]any
	s.on("PATCH "+path, func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&patch); err != nil {
			t.Error(err)
		}
		give(&metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}})(w, r)
	})
	if err := c.PutBundle(t.Context(), r, []byte("CA")); err != nil {
		t.Fatal(err)
	}
	if len(patch) != 3 || patch[0]["op"] != "test" || patch[0]["value"] != "7" ||
		patch[2]["path"] != "/webhooks/1/clientConfig/caBundle" || patch[2]["value"] != "Q0E=" {
		t.Errorf("it holds for another, too: %v", patch)
	}
	patch = nil
	if err := c.PutBundle(t.Context(), r, nil); err != nil || len(patch) != 2 || patch[0]["op"] != "test" ||
		patch[1]["op"] != "remove" || patch[1]["path"] != "/webhooks/1/clientConfig/caBundle" {
		t.Errorf("taken out: %v %v", patch, err)
	}
}

// TestEndpoints makes and changes where a Service leads.
func TestEndpoints(t *testing.T) {
	c, s, _ := openOn(t)
	const all = "/apis/discovery.k8s.io/v1/namespaces/trivet/endpointslices"
	s.on("GET "+all+"/svc", refuse(404, metav1.StatusReasonNotFound, "none"))
	e, err := c.Endpoints(t.Context(), "trivet", "svc")
	if err != nil || e.Version != "" || e.Service != "svc" {
		t.Fatalf("%+v %v", e, err)
	}
	e.Addresses, e.Family, e.Port = []string{"192.0.2.1", "192.0.2.2"}, haconfig.IPv4, 9443
	slice := &discoveryv1.EndpointSlice{
		TypeMeta:    metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		AddressType: discoveryv1.AddressTypeIPv4}
	s.on("POST "+all, give(slice))
	if err := c.PutEndpoints(t.Context(), e); err != nil {
		t.Error(err)
	}
	port := int32(9443)
	slice.ResourceVersion, slice.Ports = "8", []discoveryv1.EndpointPort{{Port: &port}}
	slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.2"}}, {Addresses: []string{"192.0.2.1"}}}
	s.on("GET "+all+"/svc", give(slice))
	if e, err = c.Endpoints(t.Context(), "trivet", "svc"); err != nil || e.Version != "8" || e.Port != 9443 ||
		e.Addresses[0] != "192.0.2.1" || e.Family != haconfig.IPv4 {
		t.Fatalf("%+v %v", e, err)
	}
	s.on("PUT "+all+"/svc", give(slice))
	if err := c.PutEndpoints(t.Context(), e); err != nil || s.count("PUT "+all+"/svc") != 1 {
		t.Error(err)
	}
	var options []byte // in protobuf
	s.on("DELETE "+all+"/svc", func(w http.ResponseWriter, r *http.Request) {
		var err error
		if options, err = io.ReadAll(r.Body); err != nil {
			t.Error(err)
		}
		refuse(404, metav1.StatusReasonNotFound, "gone")(w, r)
	})
	if err := c.DropEndpoints(t.Context(), e); err != nil ||
		!strings.Contains(string(options), "\x12\x018") { // resourceVersion of the preconditions
		t.Errorf("endpoints-of-another: %q, %v", options, err)
	}
}
