package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/trivet-ha/trivet/app/admin"
)

// outOfService is the taint by which Kubernetes is told that a machine is off.
const outOfService = "node.kubernetes.io/out-of-service"

// taintTries bounds how often a Node is read again because somebody changed it.
const taintTries = 5

// afterOff takes the part of a trial that came after the power-off was logged. The
// log has milliseconds of this machine's clock. Who is asked may have no leader just
// now.
func (r *race) afterOff(ctx context.Context, l *lane, victim string, began, ready time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, kubeCallLimit)
	defer cancel()
	for {
		at, err := r.loggedOff(ctx, victim, began)
		if err == nil {
			l.off = append(l.off, ready.Sub(at))
			return nil
		}
		if pause(ctx, 100*time.Millisecond) != nil {
			return err
		}
	}
}

// loggedOff returns when the log had that a machine is off that lost its power after
// a moment.
func (r *race) loggedOff(ctx context.Context, victim string, began time.Time) (time.Time, error) {
	var all []admin.Remediation
	if err := r.fleet[0].ask(ctx, http.MethodGet, "/v1/failover/remediations", nil, &all); err != nil {
		return time.Time{}, err
	}
	for _, m := range all {
		for _, step := range m.Steps {
			if m.Node != victim || step.State != "off" {
				continue
			}
			at, err := time.Parse(time.RFC3339, step.At)
			if err != nil {
				return at, fmt.Errorf("time of a step: %w", err)
			}
			if at.After(began) {
				return at, nil
			}
		}
	}
	return time.Time{}, fmt.Errorf("no remediation of %s has a power-off after %v", victim, began)
}

// settled is how long a pod is left where it is before its machine loses its power.
const settled = 2 * time.Second

// renewed waits until it is so long after a renewal of a machine's Lease. The Lease has
// microseconds of this machine's clock.
func (r *race) renewed(ctx context.Context, node string, phase time.Duration) error {
	if err := pause(ctx, settled); err != nil {
		return err
	}
	var lease struct {
		Spec struct{ RenewTime time.Time }
	}
	if err := r.kube.do(ctx, "GET", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/"+node, typeJSON, nil,
		&lease); err != nil {
		return fmt.Errorf("read the Lease of %s: %w", node, err)
	}
	left := phase - time.Since(lease.Spec.RenewTime)
	for left < 0 {
		left += leasePeriod
	}
	return pause(ctx, left)
}

// statefulSet has one pod with a volume that one machine alone may write.
func statefulSet(l *lane) any {
	type object = map[string]any
	name := "race-" + l.name
	labels := map[string]string{"app": name}
	return object{
		"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": object{"name": name},
		"spec": object{
			"replicas": 1, "serviceName": name, "selector": object{"matchLabels": labels},
			"template": object{
				"metadata": object{"labels": labels},
				"spec": object{
					"nodeSelector": map[string]string{"lane": l.name},
					"containers": []any{object{
						"name": "c", "image": "none.example.org/none:1",
						"volumeMounts": []any{object{"name": "data", "mountPath": "/data"}},
					}},
				},
			},
			"volumeClaimTemplates": []any{object{
				"metadata": object{"name": "data"},
				"spec": object{"accessModes": []string{"ReadWriteOnce"},
					"resources": object{"requests": object{"storage": "1Gi"}}},
			}},
		},
	}
}

// taint sets or removes the taint out-of-service of a Node, and leaves others as
// they are: the list is replaced as a whole, if nobody changed the Node meanwhile.
func (k *kubeLab) taint(ctx context.Context, name string, set bool) error {
	path := "/api/v1/nodes/" + name
	change := func() error {
		var node struct {
			Metadata struct{ ResourceVersion string }
			Spec     struct{ Taints []map[string]any }
		}
		if err := k.do(ctx, http.MethodGet, path, typeJSON, nil, &node); err != nil {
			return err
		}
		taints := slices.DeleteFunc(node.Spec.Taints, func(t map[string]any) bool { return t["key"] == outOfService })
		if set {
			taints = append(taints, map[string]any{"key": outOfService, "value": "nodeshutdown", "effect": "NoExecute"})
		}
		return k.do(ctx, http.MethodPatch, path, typeMerge, map[string]any{
			"metadata": map[string]any{"resourceVersion": node.Metadata.ResourceVersion},
			"spec":     map[string]any{"taints": taints},
		}, nil)
	}
	var err error
	for range taintTries {
		if err = change(); err == nil {
			return nil
		}
	}
	return err
}

// deletePod takes a pod away at once, whoever still runs it.
func (k *kubeLab) deletePod(ctx context.Context, pod kubeObject) error {
	options := map[string]any{
		"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
		"preconditions": map[string]string{"uid": pod.Metadata.UID},
	}
	return k.do(ctx, http.MethodDelete, "/api/v1/namespaces/default/pods/"+pod.Metadata.Name, typeJSON, options, nil)
}
