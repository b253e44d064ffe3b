package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/internal/bounds"
	"github.com/trivet-ha/trivet/internal/kubeclient"
)

// Most that an Event may have, in bytes; Kubernetes refuses longer ones.
const (
	maxReason  = 128
	maxMessage = 1024
)

// eventNamespace is where Events about what has no namespace belong.
const eventNamespace = "default"

// Mark implements failover.NodeWriter. It reads the Node first, since a Node's taints
// are one list to Kubernetes, with fields that failover.Taint does not have. A taint
// to be added whose key and effect are there already stays as it is if it is another
// program's, and its value is replaced if it is ours. A Node that has all of it is
// not written.
func (c *Cluster) Mark(ctx context.Context, as failover.Node, change failover.Change) (failover.Node, error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	n, err := c.node(ctx, as.Name)
	if err != nil {
		return failover.Node{}, err
	}
	do := ask{"patch", "nodes", as.Name}
	switch {
	case string(n.UID) != as.UID:
		return failover.Node{}, fmt.Errorf("%v: %w: its UID is %s now", do, failover.ErrGone, n.UID)
	case n.ResourceVersion != as.ResourceVersion:
		return failover.Node{}, fmt.Errorf("%v: %w: its resourceVersion is %s and no longer %s", do, failover.ErrConflict,
			n.ResourceVersion, as.ResourceVersion)
	}
	patch, err := patchOf(n, change)
	if err != nil || patch == nil {
		return nodeOf(n), wrapped(do, err)
	}
	var after corev1.Node
	err = c.core.Patch(types.MergePatchType).Resource("nodes").Name(as.Name).Body(patch).MaxRetries(0).Do(ctx).Into(&after)
	if err != nil {
		return failover.Node{}, do.failed(ctx, err)
	}
	return nodeOf(&after), nil
}

func wrapped(do ask, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%v: %w", do, err)
}

// patchOf returns the merge patch that makes a change to n as it is, nil if there
// is nothing to change. With its UID and resourceVersion it is refused for a Node
// that is not as n any more.
func patchOf(n *corev1.Node, change failover.Change) ([]byte, error) {
	token := strconv.FormatUint(change.Token, 10)
	before, marked := n.Annotations[kubeclient.AnnotationToken]
	if marked {
		greatest, err := strconv.ParseUint(before, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the annotation %s is %q, no number: remove it", kubeclient.AnnotationToken, before)
		}
		if greatest > change.Token {
			return nil, fmt.Errorf("%w: a greater token, %d, wrote it after ours, %s", failover.ErrConflict, greatest, token)
		}
	}
	taints := taintsAfter(n.Spec.Taints, change)
	same := slices.EqualFunc(taints, n.Spec.Taints, func(a, b corev1.Taint) bool { return taintOf(a) == taintOf(b) })
	if same && before == token {
		return nil, nil
	}
	patch := map[string]any{"metadata": map[string]any{
		"uid": n.UID, "resourceVersion": n.ResourceVersion,
		"annotations": map[string]string{kubeclient.AnnotationToken: token},
	}}
	if !same {
		patch["spec"] = map[string]any{"taints": taints}
	}
	return json.Marshal(patch)
}

// taintsAfter returns the whole list as it shall be. What is not named in the
// change keeps its place and all of its fields.
func taintsAfter(taints []corev1.Taint, change failover.Change) []corev1.Taint {
	after := make([]corev1.Taint, 0, len(taints)+len(change.Add))
	for _, t := range taints {
		if !slices.Contains(change.Remove, taintOf(t)) {
			after = append(after, t)
		}
	}
	for _, add := range change.Add {
		at := slices.IndexFunc(after, func(t corev1.Taint) bool { return t.Key == add.Key && string(t.Effect) == add.Effect })
		switch {
		case at < 0:
			after = append(after, corev1.Taint{Key: add.Key, Value: add.Value, Effect: corev1.TaintEffect(add.Effect)})
		case strings.HasPrefix(add.Key, ours):
			after[at].Value = add.Value
		}
	}
	return after
}

func taintOf(t corev1.Taint) failover.Taint {
	return failover.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)}
}

// DeletePod implements failover.PodStore.
func (c *Cluster) DeletePod(ctx context.Context, p failover.Pod) error {
	ctx, cancel := c.within(ctx)
	defer cancel()
	now, uid := int64(0), types.UID(p.UID)
	options := metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &uid}}
	if p.ResourceVersion != "" {
		options.Preconditions.ResourceVersion = &p.ResourceVersion
	}
	err := c.core.Delete().Namespace(p.Namespace).Resource("pods").Name(p.Name).Body(&options).MaxRetries(0).Do(
		ctx).Error()
	do := ask{"delete", "pods", p.Namespace + "/" + p.Name}
	// The sentence of a conflict tells whether it is over the UID: nothing else in the
	// answer does. The storage and the registry word it differently.
	if err != nil && (strings.Contains(err.Error(), "UID in precondition") ||
		strings.Contains(err.Error(), "UID in the precondition")) {
		return fmt.Errorf("%v: %w: another pod of this name is there: %v", do, failover.ErrGone, err)
	}
	return do.failed(ctx, err)
}

// Tell implements failover.NodeWriter. Longer texts are cut.
func (c *Cluster) Tell(ctx context.Context, n failover.Node, typ, reason, message string) error {
	ctx, cancel := c.within(ctx)
	defer cancel()
	now := metav1.NewTime(c.wall())
	event := corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: "trivet-", Namespace: eventNamespace},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: types.UID(n.UID)},
		Type:           typ, Reason: bounds.Excerpt(reason, maxReason), Message: bounds.Excerpt(message, maxMessage),
		Source:         corev1.EventSource{Component: "trivet", Host: c.peer},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
		ReportingController: ours + "failover", ReportingInstance: c.peer,
	}
	err := c.core.Post().Namespace(eventNamespace).Resource("events").Body(&event).MaxRetries(0).Do(ctx).Error()
	return ask{verb: "create", resource: "events"}.failed(ctx, err)
}
