package kube

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/internal/kubeclient"
)

var (
	cordon  = failover.Taint{Key: failover.TaintCordon, Value: "20", Effect: "NoSchedule"}
	outside = failover.Taint{Key: failover.TaintOutOfService, Value: failover.OutOfServiceValue, Effect: "NoExecute"}
)

func taint(t failover.Taint) corev1.Taint {
	return corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)}
}

// patched is what a patch says.
type patched struct {
	Metadata struct {
		UID, ResourceVersion string
		Annotations          map[string]string
	}
	Spec *struct{ Taints []corev1.Taint }
}

func TestPatchKeepsWhatOthersWrote(t *testing.T) {
	since := metav1.NewTime(time.Unix(1e9, 0))
	theirs := corev1.Taint{Key: "node.kubernetes.io/unreachable", Effect: "NoExecute", TimeAdded: &since}
	shutdown := corev1.Taint{Key: failover.TaintOutOfService, Value: "nodeshutdown", Effect: "NoExecute"}
	old := corev1.Taint{Key: failover.TaintCordon, Value: "10", Effect: "NoSchedule"}
	for name, c := range map[string]struct {
		before []corev1.Taint
		change failover.Change
		want   []corev1.Taint
	}{
		"added after theirs": {[]corev1.Taint{theirs}, failover.Change{Add: []failover.Taint{cordon, outside}},
			[]corev1.Taint{theirs, taint(cordon), taint(outside)}},
		"ours removed": {[]corev1.Taint{taint(outside), theirs, taint(cordon)},
			failover.Change{Remove: []failover.Taint{cordon, outside}}, []corev1.Taint{theirs}},
		"the last one removed": {[]corev1.Taint{taint(cordon)}, failover.Change{Remove: []failover.Taint{cordon}},
			[]corev1.Taint{}},
		"theirs is not removed": {[]corev1.Taint{shutdown, taint(cordon)},
			failover.Change{Remove: []failover.Taint{outside, cordon}}, []corev1.Taint{shutdown}},
		"theirs is not replaced": {[]corev1.Taint{shutdown}, failover.Change{Add: []failover.Taint{outside, cordon}},
			[]corev1.Taint{shutdown, taint(cordon)}},
		"an old one of ours is": {[]corev1.Taint{old, theirs}, failover.Change{Add: []failover.Taint{cordon}},
			[]corev1.Taint{taint(cordon), theirs}},
	} {
		c.change.Token = 20
		text, err := patchOf(node("worker-1", "u1", "7", c.before...), c.change)
		if err != nil {
			t.Fatal(name, err)
		}
		var got patched
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(name, err)
		}
		if got.Metadata.UID != "u1" || got.Metadata.ResourceVersion != "7" ||
			got.Metadata.Annotations[kubeclient.AnnotationToken] != "20" {
			t.Errorf("%s: it holds for another, too: %s", name, text)
		}
		want, _ := json.Marshal(c.want)
		if have, _ := json.Marshal(got.Spec.Taints); string(have) != string(want) {
			t.Errorf("%s: %s, want %s", name, have, want)
		}
	}
}

func TestPatchOfNothing(t *testing.T) {
	n := node("worker-1", "u1", "7", taint(cordon))
	n.Annotations = map[string]string{kubeclient.AnnotationToken: "20"}
	change := failover.Change{Add: []failover.Taint{cordon}, Token: 20}
	if text, err := patchOf(n, change); text != nil || err != nil {
		t.Errorf("%s %v", text, err)
	}
	change.Token = 21
	if text, err := patchOf(n, change); err != nil || strings.Contains(string(text), "taints") ||
		!strings.Contains(string(text), `"21"`) {
		t.Errorf("%s %v", text, err)
	}
}

func TestPatchComparesTokens(t *testing.T) {
	n := node("worker-1", "u1", "7")
	for before, want := range map[string]string{"21": "a greater token, 21, wrote it after ours, 20", "20": "", "9": "",
		"abc": `is "abc", no number`} {
		n.Annotations = map[string]string{kubeclient.AnnotationToken: before}
		_, err := patchOf(n, failover.Change{Add: []failover.Taint{cordon}, Token: 20})
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", before, err)
		}
		if errors.Is(err, failover.ErrConflict) != (before == "21") {
			t.Errorf("20 after %s: %v", before, err)
		}
	}
}

func TestMark(t *testing.T) {
	c, s := openOn(t)
	const path = "/api/v1/nodes/worker-1"
	as := failover.Node{Name: "worker-1", UID: "u1", ResourceVersion: "7"}
	change := failover.Change{Add: []failover.Taint{cordon}, Token: 20}
	s.on("GET "+path, give(node("worker-1", "u1", "7")))
	s.on("PATCH "+path, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Header.Get("Content-Type") != "application/merge-patch+json" ||
			!strings.Contains(string(body), `"resourceVersion":"7"`) {
			t.Errorf("%s: %s", r.Header.Get("Content-Type"), body)
		}
		give(node("worker-1", "u1", "8", taint(cordon)))(w, r)
	})
	after, err := c.Mark(t.Context(), as, change)
	if err != nil || after.ResourceVersion != "8" || len(after.Taints) != 1 {
		t.Fatalf("%+v %v", after, err)
	}
	for name, k := range map[string]struct {
		is   *corev1.Node
		want error
	}{"written meanwhile": {node("worker-1", "u1", "9"), failover.ErrConflict},
		"another one": {node("worker-1", "u2", "9"), failover.ErrGone}} {
		s.on("GET "+path, give(k.is))
		if _, err := c.Mark(t.Context(), as, change); !errors.Is(err, k.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.on("GET "+path, give(node("worker-1", "u1", "7")))
	s.on("PATCH "+path, refuse(409, metav1.StatusReasonConflict, "the object has been modified"))
	if _, err := c.Mark(t.Context(), as, change); !errors.Is(err, failover.ErrConflict) {
		t.Error(err)
	}
}

func TestDeletePod(t *testing.T) {
	c, s := openOn(t)
	const path = "DELETE /api/v1/namespaces/a/pods/b"
	pod := failover.Pod{Namespace: "a", Name: "b", UID: "u1", ResourceVersion: "7"}
	s.on(path, func(w http.ResponseWriter, r *http.Request) {
		o, ok := decode(t, r).(*metav1.DeleteOptions)
		uid, version := types.UID("u1"), "7"
		if want := (&metav1.Preconditions{UID: &uid, ResourceVersion: &version}); !ok || *o.GracePeriodSeconds != 0 ||
			!reflect.DeepEqual(o.Preconditions, want) {
			t.Errorf("deleted with grace %d whatever it is: %v, want %v", *o.GracePeriodSeconds, o.Preconditions, want)
		}
		give(&metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess})(w, r)
	})
	if err := c.DeletePod(t.Context(), pod); err != nil {
		t.Error(err)
	}
	for want, answer := range map[error]http.HandlerFunc{
		failover.ErrConflict: refuse(409, metav1.StatusReasonConflict,
			"Precondition failed: ResourceVersion in precondition: 7, ResourceVersion in object meta: 8"),
		failover.ErrForbidden: refuse(403, metav1.StatusReasonForbidden, "pods is forbidden"),
	} {
		s.on(path, answer)
		if err := c.DeletePod(t.Context(), pod); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	for code, reason := range map[int]metav1.StatusReason{429: metav1.StatusReasonTooManyRequests,
		500: metav1.StatusReasonInternalError, 503: metav1.StatusReasonServiceUnavailable, 504: metav1.StatusReasonTimeout} {
		s.on(path, refuse(code, reason, "later"))
		if err := c.DeletePod(t.Context(), pod); !errors.Is(err, failover.ErrBusy) {
			t.Errorf("busy: %d is %v, want %v", code, err, failover.ErrBusy)
		}
	}
	s.on(path, refuse(400, metav1.StatusReasonBadRequest, "no"))
	if err := c.DeletePod(t.Context(), pod); err == nil || errors.Is(err, failover.ErrBusy) {
		t.Errorf("busy: 400 is %v", err)
	}
	for _, answer := range []http.HandlerFunc{refuse(404, metav1.StatusReasonNotFound, "not found"),
		refuse(409, metav1.StatusReasonConflict, "Precondition failed: UID in precondition: u1, UID in object meta: u2"),
		refuse(409, metav1.StatusReasonConflict,
			"Operation cannot be fulfilled on Pod \"p\": the UID in the precondition (u1) does not match the UID in record (u2)")} {
		s.on(path, answer)
		if err := c.DeletePod(t.Context(), pod); !errors.Is(err, failover.ErrGone) {
			t.Errorf("%v, want gone", err)
		}
	}
}

func TestTell(t *testing.T) {
	c, s := openOn(t)
	s.on("POST /api/v1/namespaces/default/events", func(w http.ResponseWriter, r *http.Request) {
		e, ok := decode(t, r).(*corev1.Event)
		if !ok || e.InvolvedObject.Kind != "Node" || e.InvolvedObject.UID != "u1" || e.Source.Host != "alpha" ||
			e.LastTimestamp.Unix() != 1e9 {
			t.Errorf("%+v", e)
		}
		if len(e.Message) > maxMessage || !utf8.ValidString(e.Message) || !strings.HasSuffix(e.Message, "é…") {
			t.Errorf("message of %d bytes: …%q", len(e.Message), e.Message[len(e.Message)-10:])
		}
		give(e)(w, r)
	})
	if err := c.Tell(t.Context(), failover.Node{Name: "worker-1", UID: "u1"}, "Warning", "Off",
		strings.Repeat("é", maxMessage)); err != nil {
		t.Error(err)
	}
}
