// Package failover moves the work of a dead kube node to other nodes: first it makes
// sure that the machine is off, then it taints the Node, deletes its pods and detaches
// its volumes (docs/design.md#failover, KEP-2268).
//
// Every peer probes the kubelets and votes through the log (Prober). The leader watches
// the API servers, judges which kube nodes are dead and which guard rails forbid to act,
// and carries out remediations (Controller, a duty). Each step of a remediation is in
// the log before the next one begins, so that a new leader continues where the last one
// stopped. failover/kube talks to Kubernetes, failover/fence to power devices; neither
// knows the log.
package failover
