package kube

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/fsm/kubestate"
	"github.com/trivet-ha/trivet/internal/kubeclient"
)

func TestNode(t *testing.T) {
	n := node("worker-1", "u1", "7", corev1.Taint{Key: "a", Value: "b", Effect: "NoSchedule"})
	n.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""}
	n.Annotations = map[string]string{kubeclient.AnnotationToken: "9", "else": "x"}
	n.Status = corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: "DiskPressure", Status: "True"},
			{Type: corev1.NodeReady, Status: "False"}},
		NodeInfo: corev1.NodeSystemInfo{BootID: "boot", SystemUUID: "system", MachineID: "machine"},
		Addresses: []corev1.NodeAddress{{Type: "Hostname", Address: "worker-1"},
			{Type: "InternalIP", Address: "2001:db8::5"}, {Type: "InternalIP", Address: "10.0.0.5"},
			{Type: "InternalDNS", Address: "worker-1"}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 10250}},
		Images:          make([]corev1.ContainerImage, 50),
	}
	strip(n)
	got := nodeOf(n)
	if n.Status.Images != nil {
		t.Error("images are kept")
	}
	if got.Kubelet != "[2001:db8::5]:10250" || got.Ready != kubestate.ReadyFalse || !got.ControlPlane ||
		got.BootID != "boot" || got.SystemUUID != "system" || got.MachineID != "machine" {
		t.Errorf("%+v", got)
	}
	if len(got.Addresses) != 3 {
		t.Errorf("addresses %v", got.Addresses)
	}
	if len(got.Annotations) != 1 || len(got.Taints) != 1 ||
		got.Taints[0] != (failover.Taint{Key: "a", Value: "b", Effect: "NoSchedule"}) {
		t.Errorf("annotations %v, taints %v", got.Annotations, got.Taints)
	}
}

func TestNodeSaysLittle(t *testing.T) {
	got := nodeOf(node("worker-1", "u1", "7"))
	if got.Ready != kubestate.ReadyUnknown || got.Kubelet != "" || got.ControlPlane {
		t.Errorf("%+v", got)
	}
	old := node("cp", "u2", "7")
	old.Labels = map[string]string{"node-role.kubernetes.io/master": ""}
	old.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}
	if got := nodeOf(old); !got.ControlPlane || got.Kubelet != "" { // it does not say which port
		t.Errorf("%+v", got)
	}
}

func TestPod(t *testing.T) {
	yes := true
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b", UID: "u", ResourceVersion: "3",
		Annotations:     map[string]string{corev1.MirrorPodAnnotationKey: "x"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Controller: &yes}}}}
	p.Status.Phase = corev1.PodFailed
	if got := podOf(p); !got.DaemonSet || !got.Mirror || !got.Done || got.ToleratesOutOfService || got.Deleting {
		t.Errorf("%+v", got)
	}
	p.OwnerReferences[0].APIVersion = "apps.kruise.io/v1"
	if podOf(p).DaemonSet {
		t.Error("another group's DaemonSet counts as Kubernetes'")
	}
}

// A pod whose deletion is graceful still has to be deleted by force; one that only
// finalizers keep has not.
func TestPodThatOnlyFinalizersKeep(t *testing.T) {
	now, grace := metav1.Now(), func(s int64) *int64 { return &s }
	for name, c := range map[string]struct {
		meta metav1.ObjectMeta
		want bool
	}{
		"not deleted": {metav1.ObjectMeta{Finalizers: []string{"a/b"}}, false},
		"deleted gracefully": {
			metav1.ObjectMeta{Finalizers: []string{"a/b"}, DeletionTimestamp: &now, DeletionGracePeriodSeconds: grace(30)},
			false},
		"by force, and finalizing": {
			metav1.ObjectMeta{Finalizers: []string{"a/b"}, DeletionTimestamp: &now, DeletionGracePeriodSeconds: grace(0)}, true},
		"by force, and going": {metav1.ObjectMeta{DeletionTimestamp: &now, DeletionGracePeriodSeconds: grace(0)}, false},
	} {
		if got := podOf(&corev1.Pod{ObjectMeta: c.meta}).Finalizing; got != c.want {
			t.Errorf("%s: Finalizing is %v", name, got)
		}
	}
}

func TestTolerates(t *testing.T) {
	soon := int64(30)
	for name, c := range map[string]struct {
		toleration corev1.Toleration
		want       bool
	}{
		"everything": {corev1.Toleration{Operator: "Exists"}, true},
		"the key": {corev1.Toleration{Key: failover.TaintOutOfService, Operator: "Exists", Effect: "NoExecute"},
			true},
		"our value":        {corev1.Toleration{Key: failover.TaintOutOfService, Value: failover.OutOfServiceValue}, true},
		"another value":    {corev1.Toleration{Key: failover.TaintOutOfService, Value: "nodeshutdown"}, false},
		"another key":      {corev1.Toleration{Key: "node.kubernetes.io/unreachable", Operator: "Exists"}, false},
		"another effect":   {corev1.Toleration{Operator: "Exists", Effect: "NoSchedule"}, false},
		"for a while":      {corev1.Toleration{Operator: "Exists", TolerationSeconds: &soon}, false},
		"greater than ten": {corev1.Toleration{Key: failover.TaintOutOfService, Operator: "Gt", Value: "10"}, false},
	} {
		if got := toleratesOutOfService(c.toleration); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// What a Node says of being away on purpose, as Kubernetes and others write it.
func TestLifecycle(t *testing.T) {
	condition := func(of, status, reason, message string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: corev1.NodeConditionType(of), Status: corev1.ConditionStatus(status),
			Reason: reason, Message: message}
	}
	ready := func(status, message string) corev1.NodeCondition {
		return condition("Ready", status, "KubeletNotReady", message)
	}
	for name, c := range map[string]struct {
		conditions []corev1.NodeCondition
		stopping   bool
		want       map[string]failover.Observed
	}{
		"well":          {[]corev1.NodeCondition{ready("True", "kubelet is posting ready status")}, false, nil},
		"it shuts down": {[]corev1.NodeCondition{ready("False", "node is shutting down")}, true, nil},
		"and more is wrong": {
			[]corev1.NodeCondition{ready("False", "[PLEG is not healthy, node is shutting down]")}, true, nil},
		"its runtime is away": {[]corev1.NodeCondition{ready("False", "container runtime is down")}, false, nil},
		"Kubernetes' word":    {[]corev1.NodeCondition{ready("Unknown", "node is shutting down")}, false, nil},
		"conditions": {[]corev1.NodeCondition{
			condition("MaintenanceInProgress", "True", "AdminRequested", ""),
			condition("MaintenancePlanned", "False", "AdminRequested", ""),
			condition("DrainInProgress", "Unknown", "KubeletUnreachable", ""),
			condition("MemoryPressure", "True", "", ""),
		}, false, map[string]failover.Observed{"MaintenanceInProgress": failover.ObservedTrue,
			"DrainInProgress": failover.ObservedUnknown}},
	} {
		n := &corev1.Node{Status: corev1.NodeStatus{Conditions: c.conditions}}
		strip(n)
		got := nodeOf(n).Lifecycle
		if got.Stopping != c.stopping || !maps.Equal(got.Conditions, c.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		"cluster.x-k8s.io/skip-remediation": "", "another.example/annotation": "x", failover.AnnotationOptOut: "true"}}}
	if got := nodeOf(n).Annotations; len(got) != 2 {
		t.Errorf("annotations that are kept: %v", got)
	}
}
