package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/internal/kubeclient"
)

func TestNodeFromTheStorage(t *testing.T) {
	c, s := openOn(t)
	s.on("GET /api/v1/nodes/worker-1", give(node("worker-1", "u1", "7")))
	n, err := c.Node(t.Context(), "worker-1")
	if err != nil || n.UID != "u1" {
		t.Errorf("%+v %v", n, err)
	}
	if q := s.requests()[0].URL.Query(); q.Has("resourceVersion") {
		t.Errorf("a cache may answer %v", q)
	}
	s.on("GET /api/v1/nodes/worker-1", refuse(404, metav1.StatusReasonNotFound, `nodes "worker-1" not found`))
	if _, err := c.Node(t.Context(), "worker-1"); !errors.Is(err, failover.ErrGone) {
		t.Error(err)
	}
}

// A proxy without a route to the API server answers 404 as well: it does not know whether a Node is gone.
func TestProxysNotFoundIsNoNodeGone(t *testing.T) {
	c, s := openOn(t)
	page := func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "default backend - 404", http.StatusNotFound)
	}
	s.on("GET /api/v1/nodes/worker-1", page)
	s.on("GET /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", page)
	s.on("DELETE /api/v1/namespaces/ns/pods/p", page)
	_, node := c.Node(t.Context(), "worker-1")
	_, renewal := c.Renewal(t.Context(), "worker-1")
	pod := c.DeletePod(t.Context(), failover.Pod{Namespace: "ns", Name: "p", UID: "u"})
	for what, err := range map[string]error{"Node": node, "Lease": renewal, "pod": pod} {
		if err == nil || errors.Is(err, failover.ErrGone) {
			t.Errorf("proxy-404: %s: %v", what, err)
		}
	}
}

// A renewal is read from the storage, by a list of one Lease: the account that may
// watch Leases may do that.
func TestRenewalFromTheStorage(t *testing.T) {
	c, s := openOn(t)
	const path = "GET /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
	renewed := metav1.NewMicroTime(time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC))
	list := &coordinationv1.LeaseList{
		TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "LeaseList"},
		Items: []coordinationv1.Lease{
			{ObjectMeta: metav1.ObjectMeta{Name: "worker-1", ResourceVersion: "77"},
				Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}}},
	}
	s.on(path, give(list))
	got, err := c.Renewal(t.Context(), "worker-1")
	if want := (failover.Renewal{At: "2026-01-02T03:04:05.000006Z", Version: 77, Stored: true}); err != nil ||
		got != want {
		t.Errorf("lease-version: %+v %v, want %+v", got, err, want)
	}
	if q := s.requests()[0].URL.Query(); q.Get("fieldSelector") != "metadata.name=worker-1" || q.Has("resourceVersion") {
		t.Errorf("asked %v", q)
	}
	list.Items = nil
	if _, err := c.Renewal(t.Context(), "worker-1"); !errors.Is(err, failover.ErrGone) {
		t.Error(err)
	}
	s.on(path, refuse(403, metav1.StatusReasonForbidden, "no"))
	if _, err := c.Renewal(t.Context(), "worker-1"); !errors.Is(err, failover.ErrForbidden) {
		t.Error(err)
	}
}

// podPages answers with pages of pods, one after the other.
func podPages(pages, size int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		at := 0
		if next := r.URL.Query().Get("continue"); next != "" {
			fmt.Sscan(next, &at)
		}
		list := &corev1.PodList{TypeMeta: kindPods}
		for i := range size {
			list.Items = append(list.Items, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p-%d-%d", at, i)}})
		}
		if at+1 < pages {
			list.Continue = fmt.Sprint(at + 1)
		}
		give(list)(w, r)
	}
}

func TestPods(t *testing.T) {
	c, s := openOn(t)
	s.on("GET /api/v1/pods", podPages(3, 2))
	pods, err := c.Pods(t.Context(), "worker-1")
	if err != nil || len(pods) != 6 || pods[5].Name != "p-2-1" {
		t.Errorf("%v %v", pods, err)
	}
	for _, r := range s.requests() {
		if q := r.URL.Query(); q.Get("fieldSelector") != "spec.nodeName=worker-1" || q.Has("resourceVersion") ||
			q.Get("limit") != "250" {
			t.Errorf("asked %v", q)
		}
	}
	s.on("GET /api/v1/pods", podPages(20, pageSize))
	if pods, err := c.Pods(t.Context(), "worker-1"); err == nil || !strings.Contains(err.Error(), "more than 2500") {
		t.Errorf("%d pods without an end: %v", len(pods), err)
	}
	s.on("GET /api/v1/pods", refuse(410, metav1.StatusReasonExpired, "the continue parameter is too old"))
	if _, err := c.Pods(t.Context(), "worker-1"); err == nil || errors.Is(err, failover.ErrGone) {
		t.Errorf("an expired page says that something is gone: %v", err)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	c, s := openOn(t)
	s.on("GET /api/v1/pods", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		part := make([]byte, 1<<20)
		for i := range part {
			part[i] = ' '
		}
		for range kubeclient.MaxAnswer>>20 + 1 {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	})
	c.timeout = time.Minute
	if _, err := c.Pods(t.Context(), "worker-1"); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Error(err)
	}
}

func TestAttachments(t *testing.T) {
	c, s := openOn(t)
	s.on("GET /apis/storage.k8s.io/v1/volumeattachments", give(attachments("worker-1", "worker-2", "worker-1")))
	names, err := c.Attachments(t.Context(), "worker-1")
	if err != nil || !slices.Equal(names, []string{"csi-0", "csi-2"}) {
		t.Errorf("%v %v", names, err)
	}
}

func TestForbiddenNamesTheVerb(t *testing.T) {
	c, s := openOn(t)
	s.on("GET /apis/storage.k8s.io/v1/volumeattachments",
		refuse(403, metav1.StatusReasonForbidden, `User "x" cannot list`))
	_, err := c.Attachments(t.Context(), "worker-1")
	if !errors.Is(err, failover.ErrForbidden) ||
		!strings.Contains(err.Error(), "let us list volumeattachments.storage.k8s.io, as in `trivet failover manifest`") {
		t.Error(err)
	}
	for _, says := range []string{
		`admission webhook "guard.example.org" denied the request: it is protected`,
		`pods "p" is forbidden: ValidatingAdmissionPolicy 'guard' with binding 'all' denied request: it is protected`,
	} {
		s.on("DELETE /api/v1/namespaces/a/pods/p", refuse(403, metav1.StatusReasonForbidden, says))
		err := c.DeletePod(t.Context(), failover.Pod{Namespace: "a", Name: "p"})
		if !errors.Is(err, failover.ErrForbidden) || !strings.Contains(err.Error(), "no right is missing") ||
			strings.Contains(err.Error(), "failover manifest") {
			t.Errorf("denied: %v", err)
		}
	}
	s.on("GET /apis/storage.k8s.io/v1/volumeattachments", refuse(401, metav1.StatusReasonUnauthorized, "Unauthorized"))
	if _, err := c.Attachments(t.Context(), "worker-1"); err == nil || !strings.Contains(err.Error(), "renew the token") {
		t.Error(err)
	}
}

func TestTriedOnce(t *testing.T) {
	c, s := openOn(t)
	s.on("GET /api/v1/nodes/worker-1", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "1")
		refuse(429, metav1.StatusReasonTooManyRequests, "later")(w, r)
	})
	if _, err := c.Node(t.Context(), "worker-1"); err == nil || len(s.requests()) != 1 {
		t.Errorf("%d requests, %v", len(s.requests()), err)
	}
}

func TestTooLate(t *testing.T) {
	c, s := openOn(t)
	c.timeout = 50 * time.Millisecond
	s.on("GET /api/v1/nodes/worker-1", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	_, err := c.Node(t.Context(), "worker-1")
	if err == nil || !strings.Contains(err.Error(), "no answer within 50ms") || errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
