// Package kube is a Kubernetes cluster for failover, through client-go.
//
// Two reflectors follow Nodes and the Leases of kube-node-lease. They store no objects:
// each Node is passed on and dropped but for its UID, so that memory does not grow with
// the workload of the cluster. Pods, volume attachments and disruption budgets are not
// followed; they are listed on demand.
//
// Every write is conditional on the object that was read: Nodes are patched with UID and
// resourceVersion, pods are deleted with both as preconditions. No request is tried
// twice here; the caller decides whether its reason still holds.
//
// Instead of client-go's clientset, which brings every API there is, the package has REST
// clients for the five groups that it needs. client-go's own log, klog, is a global and
// is not configured here: reflectors and requests get a logger that discards through their
// context. Failures are in the errors returned here and, once for each change for the
// worse or the better, in the logger of the Options. klog lines without a context, about
// lists that take ten seconds and client certificates that are read again, are lines of the
// daemon's log: cli/daemon takes klog over.
package kube
