package kube

import (
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/trivet-ha/trivet/failover"
)

// disrupts is a budget of the pods with the label app: db, which allows nothing.
func disrupts(namespace, name string) policyv1.PodDisruptionBudget {
	db := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}
	return policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:   policyv1.PodDisruptionBudgetSpec{Selector: db},
		Status: policyv1.PodDisruptionBudgetStatus{ExpectedPods: 3, DesiredHealthy: 2}}
}

// dbPod is a pod that these select: "ready" or not, and what else words say of it.
func dbPod(node string, words ...string) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Labels: map[string]string{"app": "db"}},
		Spec: corev1.PodSpec{NodeName: node}}
	owner, yes := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "StatefulSet"}, true
	for _, word := range words {
		switch word {
		case "ready":
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		case "leaving":
			p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1e9, 0)}
		case "ReplicaSet":
			owner.Kind = word
		case "web":
			p.Labels["app"] = word
		default:
			p.Status.Phase = corev1.PodPhase(word)
		}
	}
	owner.Controller = &yes
	p.OwnerReferences = []metav1.OwnerReference{owner}
	return p
}

func podsOf(items ...corev1.Pod) *corev1.PodList {
	return &corev1.PodList{TypeMeta: kindPods, Items: items}
}

// ofN2 is the dead Node's pod.
func ofN2(namespaces ...string) (pods []failover.Pod) {
	for _, namespace := range namespaces {
		pods = append(pods, failover.Pod{Namespace: namespace, Node: "n2", Labels: map[string]string{"app": "db"}})
	}
	return pods
}

// A budget that selects a pod and allows nothing is named, without a look at the pods.
func TestDisrupted(t *testing.T) {
	c, s := openOn(t)
	left, everything, nothing, others := disrupts("a", "left"), disrupts("a", "everything"), disrupts("a", "nothing"),
		disrupts("a", "others")
	left.Status.DisruptionsAllowed = 1
	everything.Spec.Selector, nothing.Spec.Selector = &metav1.LabelSelector{}, nil
	others.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	s.on("GET /apis/policy/v1/poddisruptionbudgets", give(budgets(disrupts("a", "exhausted"), left,
		disrupts("b", "elsewhere"), everything, nothing, others)))
	names, err := c.Disrupted(t.Context(), ofN2("a"), false)
	if err != nil || !slices.Equal(names, []string{"a/everything", "a/exhausted"}) || len(s.requests()) != 1 {
		t.Errorf("exhausted: %v %v, by %d requests", names, err, len(s.requests()))
	}
}

// A budget lacks pods if those that are well elsewhere are fewer than it needs, and not as many
// as there shall be next to the Node's own.
func TestLacking(t *testing.T) {
	c, s := openOn(t)
	own, well, moving, leaving := dbPod("n2"), dbPod("n3", "ready"), dbPod(""), dbPod("n1", "ready", "leaving")
	replaced := dbPod("n1", "ready", "leaving", "ReplicaSet")
	ended, failed := dbPod("n1", "Succeeded"), dbPod("n2", "Failed")
	type pods = []corev1.Pod
	const byScale = -1
	for _, row := range []struct {
		name              string
		least             int // minAvailable, byScale: Kubernetes asks the controllers what they shall have
		expected, desired int32
		pods              []corev1.Pod
		want              bool
	}{
		{"the Node's own are not Ready", byScale, 3, 2, pods{own, well, well}, false},
		{"one is on the move", byScale, 3, 2, pods{own, well, moving}, true},
		{"one is not made yet", byScale, 3, 2, pods{own, well}, true},
		{"one ends", byScale, 3, 2, pods{own, well, leaving}, true},
		{"another's", byScale, 3, 2, pods{own, well, dbPod("n3", "ready", "web")}, true},
		{"one may be missing next to the Node's own", byScale, 4, 2, pods{own, well, well, moving}, false},
		{"none may, and none is", byScale, 3, 3, pods{own, well, well}, false},
		{"the Node's ended ones stand for none", byScale, 3, 2, pods{own, failed, well, moving}, true},

		{"a number: one is on the move", 2, 3, 2, pods{own, well, moving}, true},
		{"a number: a StatefulSet's ends", 2, 3, 2, pods{own, well, leaving}, true},
		{"a number: the only one, and a backup that has ended", 1, 2, 1, pods{own, ended}, false},
		{"a number: all, and one that has ended", 3, 4, 3, pods{own, well, well, ended}, false},
		{"a number: all, and one that was replaced", 3, 4, 3, pods{own, well, well, replaced}, false},
		{"a number: more than there are", 9, 3, 9, pods{own, well, well}, false},
		{"a number: the Node's own waits to be replaced", 1, 2, 1,
			pods{dbPod("n2", "leaving", "ReplicaSet"), dbPod("n3", "ReplicaSet")}, false},
	} {
		b := disrupts("a", "db")
		b.Status.ExpectedPods, b.Status.DesiredHealthy = row.expected, row.desired
		if row.least != byScale {
			least := intstr.FromInt(row.least)
			b.Spec.MinAvailable = &least
		}
		s.on("GET /apis/policy/v1/poddisruptionbudgets", give(budgets(b)))
		s.on("GET /api/v1/namespaces/a/pods", give(podsOf(row.pods...)))
		got, err := c.Disrupted(t.Context(), ofN2("a"), true)
		if err != nil || slices.Equal(got, []string{"a/db"}) != row.want {
			t.Errorf("missing-elsewhere: %s: %v %v, that it lacks one is %v", row.name, got, err, row.want)
		}
	}
	s.on("GET /api/v1/namespaces/a/pods", refuse(500, metav1.StatusReasonInternalError, "etcd"))
	if got, err := c.Disrupted(t.Context(), ofN2("a"), true); err == nil {
		t.Errorf("missing-elsewhere: pods that cannot be listed: %v", got)
	}
}

// The pods of several namespaces are listed at once, and of one with one budget those that it
// selects: a namespace of thousands answers within the time that a power-off leaves.
func TestLackingIsCountedAtOnce(t *testing.T) {
	c, s := openOn(t)
	s.on("GET /apis/policy/v1/poddisruptionbudgets",
		give(budgets(disrupts("a", "db"), disrupts("b", "db"), disrupts("b", "too"))))
	var asked atomic.Int32
	both := make(chan struct{}) // closed by the second request
	for _, namespace := range []string{"a", "b"} {
		s.on("GET /api/v1/namespaces/"+namespace+"/pods", func(w http.ResponseWriter, r *http.Request) {
			if (r.URL.Query().Get("labelSelector") == "app=db") != (namespace == "a") {
				t.Errorf("count-at-once: of %s is listed %v", namespace, r.URL.Query())
			}
			if asked.Add(1) == 2 {
				close(both)
			}
			select {
			case <-both:
				give(podsOf())(w, r)
			case <-r.Context().Done(): // the other one is not asked before this one is answered
			}
		})
	}
	names, err := c.Disrupted(t.Context(), ofN2("a", "b"), true)
	if err != nil || !slices.Equal(names, []string{"a/db", "b/db", "b/too"}) {
		t.Errorf("count-at-once: %v %v", names, err)
	}
}
