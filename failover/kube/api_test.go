package kube

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trivet-ha/trivet/test/testwait"
)

// server answers as an API server would, by a table of "METHOD path". The lab tries
// the same with a real one; this one can misbehave as told.
type server struct {
	*httptest.Server
	mu      sync.Mutex
	answers map[string]http.HandlerFunc
	asked   []*http.Request // with their bodies
	keys    []string        // of asked
}

// openOn returns a cluster and the server that it is.
func openOn(t *testing.T) (*Cluster, *server) {
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
	c, err := Open(Options{Name: "prod", Kubeconfig: file, Peer: "alpha", Timeout: 2 * time.Second,
		Wall: func() time.Time { return time.Unix(1e9, 0) }, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, s
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	key := r.Method + " " + r.URL.Path
	if r.URL.Query().Has("watch") {
		key = "WATCH " + r.URL.Path
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	s.mu.Lock()
	s.asked, s.keys = append(s.asked, r), append(s.keys, key)
	answer := s.answers[key]
	s.mu.Unlock()
	if answer == nil {
		refuse(http.StatusTeapot, "Unexpected", key)(w, r)
		return
	}
	answer(w, r)
}

// on sets what answers from now on.
func (s *server) on(key string, answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[key] = answer
}

// await waits until something was asked: from then on, on replaces what answers
// the next such request, not the first.
func (s *server) await(t *testing.T, key string) {
	t.Helper()
	testwait.Until(t, key+" is asked", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.Contains(s.keys, key)
	})
}

// requests returns what was asked so far.
func (s *server) requests() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*http.Request(nil), s.asked...)
}

// give answers with an object.
func give(object runtime.Object) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, object) }
}

// refuse answers with a Status.
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

// decode reads what a client sent in protobuf.
func decode(t *testing.T, r *http.Request) runtime.Object {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, metav1.AddMetaToScheme} {
		if err := add(kinds); err != nil {
			t.Fatal(err)
		}
	}
	object, _, err := serializer.NewCodecFactory(kinds).UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		t.Fatalf("%v: %q", err, body)
	}
	return object
}

var (
	kindNode  = metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}
	kindNodes = metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}
	kindPods  = metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}
)

func node(name, uid, version string, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{TypeMeta: kindNode,
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid), ResourceVersion: version},
		Spec:       corev1.NodeSpec{Taints: taints}}
}

func leaseList(version string, renewed map[string]time.Time) *coordinationv1.LeaseList {
	list := &coordinationv1.LeaseList{TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "LeaseList"},
		ListMeta: metav1.ListMeta{ResourceVersion: version}}
	for _, name := range slices.Sorted(maps.Keys(renewed)) {
		list.Items = append(list.Items, *leaseAt(name, version, renewed[name]))
	}
	return list
}

func leaseAt(name, version string, at time.Time) *coordinationv1.Lease {
	renewed := metav1.NewMicroTime(at)
	return &coordinationv1.Lease{TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: leaseNamespace, ResourceVersion: version},
		Spec:       coordinationv1.LeaseSpec{RenewTime: &renewed}}
}

func attachments(nodes ...string) *storagev1.VolumeAttachmentList {
	list := &storagev1.VolumeAttachmentList{
		TypeMeta: metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "VolumeAttachmentList"}}
	for i, name := range nodes {
		list.Items = append(list.Items,
			storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("csi-%d", i)},
				Spec: storagev1.VolumeAttachmentSpec{NodeName: name}})
	}
	return list
}

func budgets(items ...policyv1.PodDisruptionBudget) *policyv1.PodDisruptionBudgetList {
	return &policyv1.PodDisruptionBudgetList{
		TypeMeta: metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudgetList"}, Items: items}
}
