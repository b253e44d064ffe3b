// Package failover moves the work of a dead kube node elsewhere: first it makes
// sure that the machine is off, then it taints, deletes, detaches (docs/design.md#failover,
// KEP-2268).
//
// Every peer probes the kubelets and votes through the log (Prober). The leader
// watches the API servers, judges who is dead and what forbids to act on it, and
// carries out remediations (Controller, a duty). Each step of a remediation is in
// the log before the next one begins, so that a new leader goes on where the last
// one stopped. What talks to Kubernetes and to power lives in failover/kube and
// failover/fence and knows nothing of the log.
package failover
