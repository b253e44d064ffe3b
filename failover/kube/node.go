package kube

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// ours begins the names of our own annotations and taints.
const ours = "trivet.dev/"

// nodeOf takes from a Node what failover needs.
func nodeOf(n *corev1.Node) failover.Node {
	node := failover.Node{
		Name: n.Name, UID: string(n.UID), ResourceVersion: n.ResourceVersion, Created: n.CreationTimestamp.Time,
		BootID: n.Status.NodeInfo.BootID, SystemUUID: n.Status.NodeInfo.SystemUUID, MachineID: n.Status.NodeInfo.MachineID,
		Ready:     readyOf(n.Status.Conditions),
		Lifecycle: lifecycleOf(n),
		Labels:    n.Labels, Annotations: map[string]string{},
	}
	_, controlPlane := n.Labels["node-role.kubernetes.io/control-plane"]
	_, master := n.Labels["node-role.kubernetes.io/master"] // before Kubernetes 1.24
	node.ControlPlane = controlPlane || master
	port := n.Status.DaemonEndpoints.KubeletEndpoint.Port
	for _, address := range n.Status.Addresses {
		if !slices.Contains(node.Addresses, address.Address) { // a hostname is often given twice
			node.Addresses = append(node.Addresses, address.Address)
		}
		if node.Kubelet == "" && address.Type == corev1.NodeInternalIP && port > 0 {
			node.Kubelet = net.JoinHostPort(address.Address, strconv.Itoa(int(port)))
		}
	}
	for key, value := range n.Annotations {
		if strings.HasPrefix(key, ours) || failover.HeedsAnnotation(key) {
			node.Annotations[key] = value
		}
	}
	for _, t := range n.Spec.Taints {
		node.Taints = append(node.Taints, failover.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
	}
	return node
}

func readyOf(conditions []corev1.NodeCondition) kubestate.Ready {
	for _, c := range conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		switch c.Status {
		case corev1.ConditionTrue:
			return kubestate.ReadyTrue
		case corev1.ConditionFalse:
			return kubestate.ReadyFalse
		}
	}
	return kubestate.ReadyUnknown
}

// stopping is what a kubelet writes into the message of Ready while systemd-logind, or
// Windows, waits for it to end its pods; since Kubernetes 1.21, next to other reasons.
const stopping = "node is shutting down"

// lifecycleOf takes what a Node says of being away on purpose.
func lifecycleOf(n *corev1.Node) failover.Lifecycle {
	l := failover.Lifecycle{Unschedulable: n.Spec.Unschedulable}
	for _, c := range n.Status.Conditions {
		switch {
		case c.Type == corev1.NodeReady:
			l.Stopping = c.Status == corev1.ConditionFalse && strings.Contains(c.Message, stopping)
		case c.Status == corev1.ConditionFalse || !failover.HeedsCondition(string(c.Type)):
		default:
			if l.Conditions == nil {
				l.Conditions = make(map[string]failover.Observed)
			}
			l.Conditions[string(c.Type)] = failover.ObservedUnknown
			if c.Status == corev1.ConditionTrue {
				l.Conditions[string(c.Type)] = failover.ObservedTrue
			}
		}
	}
	return l
}

// strip takes from a Node what nodeOf does not look at, before many of them are
// gathered: images and managed fields are most of it.
func strip(n *corev1.Node) {
	n.ManagedFields = nil
	n.Status = corev1.NodeStatus{
		Conditions: n.Status.Conditions, Addresses: n.Status.Addresses,
		DaemonEndpoints: n.Status.DaemonEndpoints, NodeInfo: n.Status.NodeInfo,
	}
}

// podOf takes from a pod what failover needs.
func podOf(p *corev1.Pod) failover.Pod {
	_, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]
	pod := failover.Pod{
		Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), ResourceVersion: p.ResourceVersion,
		Node: p.Spec.NodeName, Labels: p.Labels, Mirror: mirror,
		Deleting: p.DeletionTimestamp != nil,
		Finalizing: p.DeletionGracePeriodSeconds != nil && *p.DeletionGracePeriodSeconds == 0 &&
			len(p.Finalizers) > 0,
		Done:                  hasEnded(p),
		ToleratesOutOfService: slices.ContainsFunc(p.Spec.Tolerations, toleratesOutOfService),
	}
	if owner := metav1.GetControllerOfNoCopy(p); owner != nil {
		group, _, _ := strings.Cut(owner.APIVersion, "/")
		pod.DaemonSet = owner.Kind == "DaemonSet" && group == "apps"
	}
	return pod
}

// hasEnded reports whether a pod runs no more, and never again.
func hasEnded(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// toleratesOutOfService reports whether a toleration keeps a pod on a Node with
// our taint for good. One that ends after a time is none: the pod would go anyway.
func toleratesOutOfService(t corev1.Toleration) bool {
	if t.TolerationSeconds != nil || t.Effect != "" && t.Effect != corev1.TaintEffectNoExecute {
		return false
	}
	switch cmp.Or(t.Operator, corev1.TolerationOpEqual) {
	case corev1.TolerationOpExists:
		return t.Key == "" || t.Key == failover.TaintOutOfService
	case corev1.TolerationOpEqual:
		return t.Key == failover.TaintOutOfService && t.Value == failover.OutOfServiceValue
	}
	return false // operators that compare numbers
}
