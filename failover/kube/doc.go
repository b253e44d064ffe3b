// Package kube is a Kubernetes cluster for failover, seen through client-go.
//
// Nodes and the Leases of kube-node-lease are followed by two reflectors that keep
// no objects: every Node is told onward and forgotten but for its UID, so that
// memory does not grow with what runs in the cluster. Pods, volume attachments and
// disruption budgets are never followed, they are listed when somebody asks.
//
// Whatever is written holds for the object that was read: Nodes are patched with
// UID and resourceVersion, pods are deleted with both as preconditions. No
// request is tried twice here; who asks decides whether the reason still holds.
//
// Instead of client-go's clientset, which brings every API there is, the package
// has REST clients for the five groups it needs. client-go's own log, klog, is a
// global and is not configured: reflectors and requests get a logger that discards
// by their context, and what went wrong is in our errors and, once for each change
// for the worse or the better, in the logger of the Options. What klog has left to
// say without a context, of lists that take ten seconds and of client certificates
// that are read again, goes to standard error.
package kube
